package drivers

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetiredKeys are keys in a Secret that an earlier operator wrote, and that this version replaces with others.
//
// If volumes refer to a Secret, the kubelet and the sidecars read it at each call, so old and new pods of the driver get the same
// content. A driver may fail because of unexpected keys: OpenShift 4.5's Manila driver exits. Therefore, the new pods also understand a
// Secret that has only the old keys, and the operator does not touch the Secret while there are old pods. Later, it replaces the old keys
// with the new ones in one write, so that no pod ever reads both.
type RetiredKeys struct {
	// Secret is the name of the Secret, which is one of the assets.
	Secret string
	// Mark is an annotation that the earlier operator put on the Secret. The operator removes it with the keys. If somebody adds keys of
	// the same names later, they stay, because the mark is gone.
	Mark string
	// Keys are the names of all keys that the earlier operator may have written.
	Keys []string
	// Accounts are the service accounts of the earlier operator's pods, which understand only these keys.
	Accounts []string
}

// KeysOf returns the retired keys of a Secret of the driver, or nil.
func (h History) KeysOf(secret string) *RetiredKeys {
	if at := slices.IndexFunc(h.Keys, func(k RetiredKeys) bool { return k.Secret == secret }); at >= 0 {
		return &h.Keys[at]
	}
	return nil
}

// In reports whether the Secret still has the keys.
func (k *RetiredKeys) In(live metav1.Object) bool {
	_, marked := live.GetAnnotations()[k.Mark]
	return marked
}
