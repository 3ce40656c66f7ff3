package operator

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

func TestDecideOnStorageClass(t *testing.T) {
	o := &operator{driver: drivers.Driver{
		Operator: drivers.Operator{Name: "tug-operator"},
		History:  drivers.History{Labels: map[string]string{"tug": "old"}},
	}}
	class := func(label, value string, change func(map[string]any)) *unstructured.Unstructured {
		object := map[string]any{
			"metadata": map[string]any{"name": "rope", "labels": map[string]any{label: value}}, "provisioner": "rope.example.com",
			"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
			"parameters": map[string]any{"kind": "hemp", "csi.storage.k8s.io/provisioner-secret-name": "knot"},
		}
		if change != nil {
			change(object)
		}
		return &unstructured.Unstructured{Object: object}
	}
	longer := func(object map[string]any) { object["parameters"] = map[string]any{"length": "7"} }
	ours := func(change func(map[string]any)) *unstructured.Unstructured {
		return class(managedByLabel, "tug-operator", change)
	}
	for _, tc := range []struct {
		name      string
		state     operatorv1.StorageClassStateName
		current   *unstructured.Unstructured
		action    classAction
		complaint []string // parts of it
	}{
		{name: "missing", action: applyClass},
		{name: "missing, asked for by name", state: operatorv1.ManagedStorageClass, action: applyClass},
		{name: "there", current: ours(nil), action: applyClass},
		{name: "an earlier operator's", current: class("tug", "old", nil), action: applyClass},
		{name: "mount options can be changed", current: ours(func(o map[string]any) { o["mountOptions"] = []any{"tls"} }), action: applyClass},
		{name: "ours, made anew by somebody", current: ours(longer), action: leaveClass, complaint: []string{"its parameters differ", "delete it"}},
		{
			name: "an earlier operator's, of another kind", action: leaveClass, complaint: []string{"its reclaimPolicy and volumeBindingMode differ"},
			current: class("tug", "old", func(o map[string]any) { o["reclaimPolicy"], o["volumeBindingMode"] = "Retain", "WaitForFirstConsumer" }),
		},
		{name: "an administrator's", current: class("a", "b", longer), action: leaveClass, complaint: []string{"the operator did not make it", "parameters differ",
			`delete it to have that, or make one of another name with the parameters kind: "hemp"`}},
		{name: "an administrator's, for another driver", current: class("a", "b", func(o map[string]any) { o["provisioner"] = "chain.example.com" }),
			action: leaveClass, complaint: []string{"provisioner"}},
		{name: "an administrator's, just like ours", current: class("a", "b", nil), action: leaveClass},
		{name: "unmanaged and missing", state: operatorv1.UnmanagedStorageClass, action: leaveClass},
		{name: "unmanaged", state: operatorv1.UnmanagedStorageClass, current: ours(longer), action: leaveClass},
		{name: "removed", state: operatorv1.RemovedStorageClass, current: ours(longer), action: removeClass},
		{name: "removed already", state: operatorv1.RemovedStorageClass, action: leaveClass},
		{name: "removed, but an administrator's", state: operatorv1.RemovedStorageClass, current: class("a", "b", longer), action: leaveClass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			action, complaint, err := o.decide(tc.state, ours(nil), tc.current)
			if err != nil {
				t.Fatal(err)
			}
			if action != tc.action || (complaint == "") != (len(tc.complaint) == 0) {
				t.Errorf("%s, complaint %q; want %s", action, complaint, tc.action)
			}
			for _, part := range tc.complaint {
				if !strings.Contains(complaint, part) {
					t.Errorf("complaint %q, want %q in it", complaint, part)
				}
			}
		})
	}
}
