// Package refusal says why OLM v1 does not install a bundle that it has chosen. Each refusal has OLM's own message for the condition
// Progressing of the ClusterExtension.
//
// OLM v1 is not available as a library. This package follows internal/operator-controller of operator-controller v1.11:
// applier/provider.go, config, and rukpak. Suite olm-v1-predictions compares its results with operator-controller's.
package refusal

import (
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/catalog/fbc"
)

// Bundle holds the manifests of a bundle that OLM v1 reads.
type Bundle struct {
	// Name and Version come from the catalog, and Package from the bundle's annotations.
	Name, Version, Package string
	CSV                    *v1alpha1.ClusterServiceVersion
	CRDs                   []*apiextensionsv1.CustomResourceDefinition
	// Others are all other objects.
	Others []*unstructured.Unstructured
	// Described says that only a catalog's description of the ClusterServiceVersion is known: its install modes and owned APIs. OLM may
	// refuse other parts.
	Described bool
}

// FromObjects returns a bundle with these manifests. Like OLM, it fails if they do not include a ClusterServiceVersion, or if an object
// does not decode as its kind.
func FromObjects(pkg string, objects []*unstructured.Unstructured) (*Bundle, error) {
	b := &Bundle{Package: pkg}
	if err := b.add(objects); err != nil {
		return nil, err
	}
	if b.CSV == nil {
		return nil, fmt.Errorf("the bundle has no %s, want one among its manifests", v1alpha1.ClusterServiceVersionKind)
	}
	b.Name, b.Version = b.CSV.Name, b.CSV.Spec.Version.String()
	return b, nil
}

// add adds manifests.
func (b *Bundle) add(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		switch object.GetKind() {
		case v1alpha1.ClusterServiceVersionKind:
			b.CSV = &v1alpha1.ClusterServiceVersion{}
			if err := into(object, b.CSV); err != nil {
				return err
			}
		case crdKind:
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := into(object, definition); err != nil {
				return err
			}
			b.CRDs = append(b.CRDs, definition)
		default:
			b.Others = append(b.Others, object)
		}
	}
	return nil
}

const crdKind = "CustomResourceDefinition"

func into(object *unstructured.Unstructured, typed any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// FromCatalog returns a bundle that a catalog carries or describes, or nil if it does neither.
func FromCatalog(b *fbc.Bundle) (*Bundle, error) {
	details, err := b.Details()
	if err != nil || details.CSV == nil {
		return nil, err
	}
	found := &Bundle{Package: b.Package, CSV: details.CSV, Described: !details.Carried}
	if err := found.add(details.Objects); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", b.File, b.Line, err)
	}
	return found.As(b), nil
}

// As returns the bundle with the name and the version that a catalog gives it.
func (b *Bundle) As(listed *fbc.Bundle) *Bundle {
	named := *b
	named.Name, named.Version = listed.Name, ""
	if number := listed.Number(); number != nil {
		named.Version = number.String()
	}
	return &named
}

// supports reports whether a bundle supports one of these install modes.
func (b *Bundle) supports(modes ...v1alpha1.InstallModeType) bool {
	return slices.ContainsFunc(b.CSV.Spec.InstallModes, func(m v1alpha1.InstallMode) bool { return m.Supported && slices.Contains(modes, m.Type) })
}

// rendered returns a bundle's CustomResourceDefinition as OLM applies it: with the bundle's conversion webhook, if there is one.
func (b *Bundle) rendered(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	for _, w := range b.CSV.Spec.WebhookDefinitions {
		if w.Type == v1alpha1.ConversionWebhook && slices.Contains(w.ConversionCRDs, definition.Name) {
			changed := definition.DeepCopy()
			changed.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
			return changed
		}
	}
	return definition
}
