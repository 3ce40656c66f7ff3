package prediction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/crd"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-csi/berth/fbc"
)

const crdKind = "CustomResourceDefinition"

// checkDefinitions finds what keeps OLM from the CRDs that a bundle brings: OLM updates none that would make
// an object invalid that is there, or that lacks a version in which objects may be stored.
func (f *subject) checkCRDs(ctx context.Context, d *fbc.Details) error {
	if f.state.api == nil {
		return nil
	}
	if !d.Carried {
		return f.warnUnchecked(ctx, d)
	}
	for _, object := range d.Objects {
		if object.GetKind() != crdKind {
			continue
		}
		if version := object.GetAPIVersion(); version != apiextensionsv1.SchemeGroupVersion.String() {
			f.Blockers = append(f.Blockers, Reason{OldDefinition,
				fmt.Sprintf("%s brings CRD %s as one of %s, which this Kubernetes does not serve: the InstallPlan fails", f.Next.Name, object.GetName(), version),
				"choose a later version, which brings it as one of " + apiextensionsv1.SchemeGroupVersion.String()})
			continue
		}
		if err := f.checkCRD(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// uncheckable warns of CRDs of the cluster that a bundle may change, but nobody can tell how.
func (f *subject) warnUnchecked(ctx context.Context, d *fbc.Details) error {
	if d.CSV == nil {
		return nil
	}
	var names []string
	for _, owned := range d.CSV.Spec.CustomResourceDefinitions.Owned {
		present, err := f.state.api.crd(ctx, owned.Name)
		if err != nil {
			return err
		}
		if present != nil && !slices.Contains(names, owned.Name) {
			names = append(names, owned.Name)
		}
	}
	if len(names) > 0 {
		f.risk(DefinitionsUnchecked, "compare them with those in the bundle's image, "+f.pkg.FindBundle(f.Next.Name).Image,
			"the catalog does not have the CRDs of %s; whether OLM may update %s, by the objects that are there, could not be checked", f.Next.Name, strings.Join(names, ", "))
	}
	return nil
}

// checkDefinition compares a CRD that comes with the one that is there, if any.
func (f *subject) checkCRD(ctx context.Context, object *unstructured.Unstructured) error {
	coming, err := toCRD(object)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", object.GetName(), f.Next.Name, err)
	}
	present, err := f.state.api.crd(ctx, coming.Name)
	if err != nil || present == nil {
		return err
	}
	invalid, err := f.state.api.invalid(ctx, present, coming)
	if err != nil {
		return err
	}
	if len(invalid) > 0 {
		f.Blockers = append(f.Blockers, Reason{InvalidObjects,
			fmt.Sprintf("by CRD %s as %s brings it, objects that are there are not valid, and then the InstallPlan fails: %s", coming.Name, f.Next.Name, some(invalid)),
			"correct these objects first. If OLM has already tried for a minute, the InstallPlan has failed: delete it, and OLM makes another one"})
	}
	if safe, err := crd.SafeStorageVersionUpgrade(present, coming); !safe {
		f.Blockers = append(f.Blockers, Reason{StoredVersionRemoved,
			fmt.Sprintf("the InstallPlan fails at CRD %s as %s brings it: %v", coming.Name, f.Next.Name, err),
			fmt.Sprintf("write all its objects anew in a version that stays, and then take the others out of status.storedVersions of %s %s; "+
				"delete the InstallPlan if it has failed", crdKind, coming.Name)})
	}
	return nil
}

func toCRD(object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	return definition, json.Unmarshal(data, definition)
}

// invalid returns which objects of a CRD are not valid by the one that comes, and why. OLM looks at all
// versions that were served and still are, but trusts a conversion webhook to make objects valid.
func (s *apiReader) invalid(ctx context.Context, present, coming *apiextensionsv1.CustomResourceDefinition) (found []string, err error) {
	if c := coming.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		return nil, nil
	}
	seen := map[string]bool{}
	for _, version := range coming.Spec.Versions {
		served := slices.ContainsFunc(present.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version.Name && v.Served
		})
		if !served || !version.Served {
			continue
		}
		rules := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, rules, nil); err != nil {
			return nil, err
		}
		validator, _, err := validation.NewSchemaValidator(rules.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("the schema of version %s of %s: %w", version.Name, coming.Name, err)
		}
		resource := schema.GroupVersionResource{Group: coming.Spec.Group, Version: version.Name, Resource: coming.Spec.Names.Plural}
		err = s.each(ctx, resource, func(o *unstructured.Unstructured) error {
			name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
			if faults := validation.ValidateCustomResource(nil, o.UnstructuredContent(), validator); len(faults) > 0 && !seen[name] {
				seen[name] = true
				found = append(found, fmt.Sprintf("%s %s (%s)", o.GetKind(), name, describe(faults)))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// describe tells the faults of an object on one line.
func describe(faults field.ErrorList) string {
	var texts []string
	for _, fault := range faults {
		texts = append(texts, fault.Error())
	}
	return strings.Join(texts, "; ")
}

// some names the first of many.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
