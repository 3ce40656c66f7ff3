// Package clusterextension reads ClusterExtensions, for which OLM v1 installs operators. They are cluster-scoped, so only administrators
// write them.
package clusterextension

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is the kind of a ClusterExtension.
var Kind = schema.GroupVersionKind{Group: "olm.operatorframework.io", Version: "v1", Kind: "ClusterExtension"}

// OfPackage returns the ClusterExtensions of a package of a catalog. A cluster without OLM v1 has none.
func OfPackage(ctx context.Context, reader client.Reader, name string) (found []*unstructured.Unstructured, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	if err := reader.List(ctx, list); meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing ClusterExtensions: %w", err)
	}
	for i := range list.Items {
		if of, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "source", "catalog", "packageName"); of == name {
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}
