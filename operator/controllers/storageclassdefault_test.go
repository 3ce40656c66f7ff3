package controllers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

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

// TestOtherClasses: the class of another administrator that is the default is found. Whoever may write classes decides how large and how many
// they are, so few are read at a time.
func TestOtherClasses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NotEmptyf(t, r.URL.Query().Get("limit"), "the number of classes in a page of %s", r.URL)
		w.Header().Set("Content-Type", "application/json")
		class, next := `{"metadata":{"name":"hemp"},"provisioner":"rope.example.com","driver":"rope.example.com"}`, "more"
		if r.URL.Query().Get("continue") == next {
			class, next = fmt.Sprintf(`{"metadata":{"name":"chain","annotations":{%q:"true",%q:"true"}},"provisioner":"chain.example.com","driver":"rope.example.com"}`,
				isDefaultStorageClassAnnotation, isDefaultSnapshotClassAnnotation), ""
		}
		fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, next, class)
	}))
	defer server.Close()
	lists, err := rest.RESTClientFor(&rest.Config{Host: server.URL, APIPath: "/apis",
		ContentConfig: rest.ContentConfig{GroupVersion: &storagev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	require.NoError(t, err)
	options := ClassOptions{Lists: lists}
	why, err := (&storageClass{ClassOptions: options}).notDefault(t.Context(), "", "rope")
	require.NoError(t, err)
	assert.Equal(t, "StorageClass chain is the default", why)
	why, err = (&snapshotClass{ClassOptions: options}).notDefault(t.Context(), "", &unstructured.Unstructured{Object: map[string]any{"driver": "rope.example.com"}})
	require.NoError(t, err)
	assert.Equal(t, "VolumeSnapshotClass chain is the default", why)
}
