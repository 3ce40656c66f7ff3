package placement

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// Observe reads the state of the cluster that shows where a driver is. custom is the metadata of the driver's ClusterCSIDriver, nil if
// there is none. Observe reads single objects by name and lists nothing.
func Observe(ctx context.Context, c client.Reader, driver drivers.Driver, operator string, custom *metav1.ObjectMeta) (Observed, error) {
	o := Observed{Operator: operator, Driver: readClusterCSIDriver(custom), Namespaces: map[string]Namespace{}}
	traces, err := driver.Traces()
	if err != nil {
		return Observed{}, err
	}
	for _, trace := range traces {
		seen, err := references(ctx, c, trace)
		if err != nil {
			return Observed{}, err
		}
		o.References = append(o.References, seen...)
	}
	names := []string{operator, driver.Namespace}
	if o.Driver != nil {
		names = append(names, o.Driver.Namespace)
	}
	for _, s := range o.References {
		names = append(names, s.Namespace)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		namespace, err := ReadNamespace(ctx, c, name)
		if err != nil {
			return Observed{}, err
		}
		if namespace != nil {
			o.Namespaces[name] = *namespace
		}
	}
	return o, nil
}

// references returns the driver's service accounts that a trace names.
func references(ctx context.Context, c client.Reader, trace drivers.Trace) ([]Reference, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(trace.Kind)
	err := c.Get(ctx, client.ObjectKey{Name: trace.Name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s, to find the driver: %w", trace.Kind.Kind, trace.Name, err)
	}
	var seen []Reference
	for _, account := range drivers.AccountsIn(object) {
		if account.Namespace != "" && slices.Contains(trace.Accounts, account.Name) {
			seen = append(seen, Reference{Trace: trace, Created: object.GetCreationTimestamp().Time, Namespace: account.Namespace, Account: account.Name})
		}
	}
	return seen, nil
}

// ReadNamespace reads a namespace. It returns nil if no namespace has that name, or if the name is invalid.
func ReadNamespace(ctx context.Context, c client.Reader, name string) (*Namespace, error) {
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return nil, nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.Get(ctx, client.ObjectKey{Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return &Namespace{UID: object.UID, Created: object.CreationTimestamp.Time, Terminating: object.DeletionTimestamp != nil,
		Proof: object.Labels[ProofLabel]}, nil
}

func readClusterCSIDriver(custom *metav1.ObjectMeta) *ClusterCSIDriver {
	if custom == nil {
		return nil
	}
	return &ClusterCSIDriver{
		UID: custom.UID, Namespace: custom.Annotations[NamespaceAnnotation], NamespaceUID: types.UID(custom.Annotations[NamespaceUIDAnnotation]),
		Created: custom.CreationTimestamp.Time,
	}
}
