package drivers

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetiredKeys are keys of a Secret that an earlier operator wrote, where this version has others.
//
// The kubelet and the sidecars read a Secret that volumes refer to at each call, so all pods of the driver get the same content at
// a time, old ones and new ones. A driver may fail with keys that it does not expect: that of OpenShift 4.5 for Manila exits.
// Therefore, the new pods understand the old keys alone, and the operator does not touch the Secret while there are old pods. Then
// it replaces the old keys by the new ones in one write, and no pod ever reads both.
type RetiredKeys struct {
	// Secret is the name of the Secret, which is one of the assets.
	Secret string
	// Mark is an annotation that the earlier operator put on it. The operator removes it with the keys, so what somebody adds
	// later under the name of one of them stays.
	Mark string
	// Keys are the names of all keys that it may have written.
	Keys []string
	// Accounts are the service accounts of its pods, which understand only these keys.
	Accounts []string
}

// KeysOf returns the retired keys of a Secret of the driver, or nil.
func (h History) KeysOf(secret string) *RetiredKeys {
	if at := slices.IndexFunc(h.Keys, func(k RetiredKeys) bool { return k.Secret == secret }); at >= 0 {
		return &h.Keys[at]
	}
	return nil
}

// In reports whether the Secret still has them.
func (k *RetiredKeys) In(live metav1.Object) bool {
	_, marked := live.GetAnnotations()[k.Mark]
	return marked
}
