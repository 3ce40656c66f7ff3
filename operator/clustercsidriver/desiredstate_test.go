package clustercsidriver

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDesiredState(t *testing.T) {
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
		name          string
		object        *unstructured.Unstructured
		want          DesiredState
		wantPermanent Mode // of a permanent driver; "" for the same
	}{
		{"no object", nil, DesiredState{Mode: Absent}, ""},
		{"managed", object(map[string]any{"managementState": "Managed"}), DesiredState{UID: "u", Mode: Managed}, ""},
		{"unmanaged", object(map[string]any{"managementState": "Unmanaged"}), DesiredState{UID: "u", Mode: Unmanaged}, ""},
		{"removed", object(map[string]any{"managementState": "Removed"}), DesiredState{UID: "u", Mode: Removed}, Kept},
		{"deleted while managed", deleted(object(map[string]any{"managementState": "Managed"})), DesiredState{UID: "u", Mode: Removed}, Orphaned},
		{"deleted while removed", deleted(object(map[string]any{"managementState": "Removed"})), DesiredState{UID: "u", Mode: Removed}, Orphaned},
		{"deleted while unmanaged", deleted(object(map[string]any{"managementState": "Unmanaged"})), DesiredState{UID: "u", Mode: Orphaned}, ""},
		{"an unknown state", object(map[string]any{"managementState": "Paused"}), DesiredState{UID: "u", Mode: Unmanaged}, ""},
		{"no state", object(map[string]any{}), DesiredState{UID: "u", Mode: Unmanaged}, ""},
		{"no spec", object(nil), DesiredState{UID: "u", Mode: Unmanaged}, ""},
		{"a state of the wrong type", object(map[string]any{"managementState": int64(1)}), DesiredState{UID: "u", Mode: Unmanaged}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, desiredState(tc.object, false))
			want := DesiredState{UID: tc.want.UID, Mode: cmp.Or(tc.wantPermanent, tc.want.Mode)}
			assert.Equal(t, want, desiredState(tc.object, true), "of a permanent driver")
		})
	}
}
