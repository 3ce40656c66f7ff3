// Package clusterextension reads ClusterExtensions, from which OLM v1 installs operators. They are cluster-scoped, so
// only administrators write them.
package clusterextension

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is the kind of a ClusterExtension.
var Kind = schema.GroupVersionKind{Group: "olm.operatorframework.io", Version: "v1", Kind: "ClusterExtension"}

// List returns all ClusterExtensions. A cluster without OLM v1 has none.
func List(ctx context.Context, reader client.Reader) (found []*unstructured.Unstructured, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	if err := reader.List(ctx, list); meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing ClusterExtensions: %w", err)
	}
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// OfPackage returns the ClusterExtensions of a package.
func OfPackage(ctx context.Context, reader client.Reader, name string) ([]*unstructured.Unstructured, error) {
	all, err := List(ctx, reader)
	return slices.DeleteFunc(all, func(object *unstructured.Unstructured) bool {
		of, _, _ := unstructured.NestedString(object.Object, "spec", "source", "catalog", "packageName")
		return of != name
	}), err
}

// Condition returns the status, the reason and the message of a condition, or empty strings.
func Condition(object *unstructured.Unstructured, of string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == of {
			status, _ = fields["status"].(string)
			reason, _ = fields["reason"].(string)
			message, _ = fields["message"].(string)
			return status, reason, message
		}
	}
	return "", "", ""
}
