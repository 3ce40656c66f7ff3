package controllers

import (
	"encoding/json"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

func TestDecideOnStorageClass(t *testing.T) {
	owner := &objects.Applier{Writer: objects.NewWriter("tug-operator", nil, nil, nil), Ownership: objects.OwnershipOf(drivers.Driver{
		Operator: drivers.Operator{Name: "tug-operator"},
		History:  drivers.History{Labels: map[string]string{"tug": "old"}},
	})}
	// applied has a class show that the operator has made these fields of it.
	applied := func(fields string, change func(map[string]any)) func(map[string]any) {
		return func(object map[string]any) {
			change(object)
			object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
				"manager": "tug-operator", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fieldsOf(t, fields)}}
		}
	}
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
		return class(objects.ManagedByLabel, "tug-operator", change)
	}
	for _, tc := range []struct {
		name       string
		state      operatorv1.StorageClassStateName
		current    *unstructured.Unstructured
		action     classAction
		difference []string // parts of it
	}{
		{name: "missing", action: applyClass},
		{name: "missing, asked for by name", state: operatorv1.ManagedStorageClass, action: applyClass},
		{name: "there", current: ours(nil), action: applyClass},
		{name: "an earlier operator's", current: class("tug", "old", nil), action: applyClass},
		{name: "mount options can be changed", current: ours(func(o map[string]any) { o["mountOptions"] = []any{"tls"} }), action: applyClass},
		{name: "ours, recreated by another client", current: ours(longer), action: leaveClass, difference: []string{"its parameters differ", "delete it"}},
		{name: "ours, with what the cluster asked for before", action: replaceClass,
			current: ours(applied(`{"f:provisioner": {}, "f:parameters": {"f:length": {}}}`, longer))},
		{name: "ours, with a parameter that another client added", action: leaveClass, difference: []string{"its parameters differ", "not as the operator made them"},
			current: ours(applied(`{"f:provisioner": {}, "f:parameters": {"f:kind": {}}}`, longer))},
		{name: "ours, recreated without parameters by another client", action: leaveClass, difference: []string{"its parameters differ"},
			current: ours(applied(`{"f:metadata": {}}`, func(o map[string]any) { delete(o, "parameters") }))},
		{name: "ours, and another client made the policy", action: leaveClass, difference: []string{"its parameters and reclaimPolicy differ"},
			current: ours(applied(`{"f:provisioner": {}, "f:parameters": {"f:length": {}}}`, func(o map[string]any) { longer(o); o["reclaimPolicy"] = "Retain" }))},
		{
			name: "an earlier operator's, of another kind", action: leaveClass, difference: []string{"its reclaimPolicy and volumeBindingMode differ"},
			current: class("tug", "old", func(o map[string]any) { o["reclaimPolicy"], o["volumeBindingMode"] = "Retain", "WaitForFirstConsumer" }),
		},
		{name: "an administrator's", current: class("a", "b", longer), action: leaveClass, difference: []string{"the operator did not create it", "parameters differ",
			`delete it to have that, or create one of another name with the parameters kind: "hemp"`}},
		{name: "an administrator's, for another driver", current: class("a", "b", func(o map[string]any) { o["provisioner"] = "chain.example.com" }),
			action: leaveClass, difference: []string{"provisioner"}},
		{name: "an administrator's, equivalent to ours", current: class("a", "b", nil), action: leaveClass},
		{name: "unmanaged and missing", state: operatorv1.UnmanagedStorageClass, action: leaveClass},
		{name: "unmanaged", state: operatorv1.UnmanagedStorageClass, current: ours(longer), action: leaveClass},
		{name: "removed", state: operatorv1.RemovedStorageClass, current: ours(longer), action: deleteClass},
		{name: "removed already", state: operatorv1.RemovedStorageClass, action: leaveClass},
		{name: "removed, but an administrator's", state: operatorv1.RemovedStorageClass, current: class("a", "b", longer), action: leaveClass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			action, difference, err := decideOnClass(owner, tc.state, ours(nil), tc.current)
			require.NoError(t, err)
			if action != tc.action || (difference == "") != (len(tc.difference) == 0) {
				t.Errorf("%s, difference %q; want %s", action, difference, tc.action)
			}
			for _, part := range tc.difference {
				assert.Contains(t, difference, part, "difference")
			}
		})
	}
}

func fieldsOf(t *testing.T, document string) map[string]any {
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(document), &fields))
	return fields
}
