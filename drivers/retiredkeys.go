package drivers

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetiredKeys are keys in a Secret that an earlier operator wrote, and that this version replaces by others.
//
// If volumes refer to a Secret, the kubelet and the sidecars read it at each call, so old and new pods of the driver
// get the same content. A driver may fail because of unexpected keys: OpenShift 4.5's Manila driver exits. Therefore,
// the new pods understand the old keys alone, and the operator does not touch the Secret while there are old pods. Then
// it replaces the old keys by the new ones in one write, so that no pod ever reads both.
type RetiredKeys struct {
	// Secret is the name of the Secret, which is one of the assets.
	Secret string
	// Mark is an annotation that the earlier operator put on the Secret. The operator removes it with the keys. Without
	// the mark, keys of the same names that somebody adds later stay.
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
