package operator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWishOf(t *testing.T) {
	object := func(spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u"}}}
		if spec != nil {
			u.Object["spec"] = spec
		}
		return u
	}
	deleted := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		return u
	}
	for _, tc := range []struct {
		name   string
		object *unstructured.Unstructured
		want   wish
	}{
		{"no object", nil, wish{mode: absent}},
		{"managed", object(map[string]any{"managementState": "Managed"}), wish{uid: "u", mode: manage}},
		{"unmanaged", object(map[string]any{"managementState": "Unmanaged"}), wish{uid: "u", mode: leave}},
		{"removed", object(map[string]any{"managementState": "Removed"}), wish{uid: "u", mode: remove}},
		{"deleted while managed", deleted(object(map[string]any{"managementState": "Managed"})), wish{uid: "u", mode: remove}},
		{"deleted while removed", deleted(object(map[string]any{"managementState": "Removed"})), wish{uid: "u", mode: remove}},
		{"deleted while unmanaged", deleted(object(map[string]any{"managementState": "Unmanaged"})), wish{uid: "u", mode: release}},
		{"a state of the future", object(map[string]any{"managementState": "Paused"}), wish{uid: "u", mode: leave}},
		{"no state", object(map[string]any{}), wish{uid: "u", mode: leave}},
		{"no spec", object(nil), wish{uid: "u", mode: leave}},
		{"a state of the wrong type", object(map[string]any{"managementState": int64(1)}), wish{uid: "u", mode: leave}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := wishOf(tc.object); got != tc.want {
				t.Errorf("wishOf = %v, want %v", got, tc.want)
			}
		})
	}
}
