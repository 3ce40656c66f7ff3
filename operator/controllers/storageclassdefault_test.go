package controllers

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
)

func TestNotDefaultStorageClass(t *testing.T) {
	class := func(name, provisioner, annotation, value string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: value}}, Provisioner: provisioner}
	}
	const csi, inTree = "rope.example.com", "kubernetes.io/rope"
	for _, tc := range []struct {
		name    string
		record  string
		classes []storagev1.StorageClass
		want    string // a part of the reason; "" for the default
	}{
		{name: "fresh"},
		{name: "fresh, with classes of others", classes: []storagev1.StorageClass{class("chain", "chain.example.com", "a", "b"), class("hemp", csi, "a", "b")}},
		{name: "another default", classes: []storagev1.StorageClass{class("chain", "chain.example.com", isDefaultStorageClassAnnotation, "true")}, want: "StorageClass chain is the default"},
		{name: "another default, as of old", classes: []storagev1.StorageClass{class("chain", "chain.example.com", betaIsDefaultStorageClassAnnotation, "true")}, want: "chain"},
		{name: "not quite the default", classes: []storagev1.StorageClass{class("chain", "chain.example.com", isDefaultStorageClassAnnotation, "yes")}},
		{name: "an old cluster without a default", classes: []storagev1.StorageClass{class("knot", inTree, isDefaultStorageClassAnnotation, "false")}, want: "StorageClass knot, of " + inTree},
		{name: "deleted as the default", record: "true"},
		{name: "deleted as the default of an old cluster", record: "true", classes: []storagev1.StorageClass{class("knot", inTree, "a", "b")}},
		{name: "deleted as the default, and another came", record: "true", classes: []storagev1.StorageClass{class("chain", csi, isDefaultStorageClassAnnotation, "true")}, want: "chain"},
		{name: "the administrator's choice", record: "false", want: "before it was deleted"},
		{name: "the class itself", record: "true", classes: []storagev1.StorageClass{class("rope", csi, isDefaultStorageClassAnnotation, "true")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := whyNotDefault(drivers.Driver{InTree: drivers.InTree{Plugin: inTree}}, tc.record, "rope", tc.classes)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("reason %q, want %q in it", got, tc.want)
			}
		})
	}
}
