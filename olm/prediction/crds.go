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
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings/escape"
)

const crdKind = "CustomResourceDefinition"

// checkCRDs finds reasons why OLM cannot install a bundle's CRDs. OLM does not update a CRD if that would make an existing
// custom resource invalid, or remove a version in which custom resources may be stored.
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
				fmt.Sprintf("%s contains CRD %s in API version %s, which this Kubernetes does not serve: the InstallPlan fails", f.Next.Name, object.GetName(), version),
				"choose a later version, which contains it in " + apiextensionsv1.SchemeGroupVersion.String()})
			continue
		}
		if err := f.checkCRD(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// warnUnchecked warns about CRDs in the cluster that a bundle may change, if the catalog lacks the bundle's own CRDs.
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
		f.risk(DefinitionsUnchecked, "compare them with the CRDs in the bundle's image, "+f.pkg.FindBundle(f.Next.Name).Image,
			"the catalog does not contain the CRDs of %s; could not check whether existing objects let OLM update %s", f.Next.Name, strings.Join(names, ", "))
	}
	return nil
}

// checkCRD compares a bundle's CRD with the one in the cluster, if any.
func (f *subject) checkCRD(ctx context.Context, object *unstructured.Unstructured) error {
	updated, err := toCRD(object)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", object.GetName(), f.Next.Name, err)
	}
	present, err := f.state.api.crd(ctx, updated.Name)
	if err != nil || present == nil {
		return err
	}
	faults, err := f.state.api.faults(ctx, present, updated, f.Next.Name)
	if err != nil {
		return err
	}
	f.Blockers = append(f.Blockers, faults...)
	if safe, err := crd.SafeStorageVersionUpgrade(present, updated); !safe {
		f.Blockers = append(f.Blockers, Reason{StoredVersionRemoved,
			fmt.Sprintf("the InstallPlan fails at CRD %s of %s: %v", updated.Name, f.Next.Name, err),
			fmt.Sprintf("rewrite all its objects in a version that remains, and then remove the other versions from status.storedVersions of %s %s; "+
				"delete the InstallPlan if it has failed", crdKind, updated.Name)})
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

// Objects returns the reasons why OLM v0 would not install a bundle that leaves the cluster's CRDs as they are: even then, OLM reads and
// validates the existing objects again.
func Objects(ctx context.Context, config *rest.Config, bundle string, crds []string) (found []Reason, err error) {
	reader, err := newAPIReader(config)
	if err != nil {
		return nil, err
	}
	for _, name := range crds {
		present, err := reader.crd(ctx, name)
		if err != nil {
			return nil, err
		}
		if present == nil {
			continue
		}
		faults, err := reader.faults(ctx, present, present, bundle)
		if err != nil {
			return nil, err
		}
		found = append(found, faults...)
	}
	return found, nil
}

const failed = ". If OLM has already tried for a minute, the InstallPlan has failed: delete it, and OLM creates another one"

// faults returns the reasons why existing objects keep OLM from updating a CRD to the bundle's. OLM reads the objects in all versions that
// both CRDs serve, and validates them, unless the updated CRD has a conversion webhook, which may make them valid.
func (s *apiReader) faults(ctx context.Context, present, updated *apiextensionsv1.CustomResourceDefinition, bundle string) (found []Reason, err error) {
	var invalid []string
	seen := map[string]bool{}
	c := updated.Spec.Conversion
	converts := c != nil && c.Strategy == apiextensionsv1.WebhookConverter
	for _, version := range updated.Spec.Versions {
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
			return nil, fmt.Errorf("the schema of version %s of %s: %w", version.Name, updated.Name, err)
		}
		resource := schema.GroupVersionResource{Group: updated.Spec.Group, Version: version.Name, Resource: updated.Spec.Names.Plural}
		err = s.each(ctx, resource, func(o *unstructured.Unstructured) error {
			if converts {
				return nil
			}
			name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
			if faults := validation.ValidateCustomResource(nil, o.UnstructuredContent(), validator); len(faults) > 0 && !seen[name] {
				seen[name] = true
				if len(invalid) < maxInvalid {
					invalid = append(invalid, fmt.Sprintf("%s %s (%s)", o.GetKind(), name, describe(faults)))
				}
			}
			return nil
		})
		if err != nil && !isUnconverted(err) {
			return nil, err
		}
		if err != nil {
			found = append(found, Reason{UnreadableObjects,
				fmt.Sprintf("existing objects of CRD %s cannot be read in version %s, so the InstallPlan of %s fails: %v", updated.Name, version.Name, bundle, err),
				"have the pods of this webhook run first" + failed})
		}
	}
	if len(invalid) > 0 {
		found = append(found, Reason{InvalidObjects,
			fmt.Sprintf("existing objects are invalid under CRD %s of %s, so the InstallPlan fails: %s", updated.Name, bundle, some(invalid, len(seen))),
			"correct these objects first" + failed})
	}
	return found, nil
}

// isUnconverted reports whether the API server could not convert objects. Only the text of the error says so: it has no status reason of
// its own.
func isUnconverted(err error) bool { return strings.Contains(err.Error(), "conversion webhook for ") }

// maxInvalid limits the invalid objects that a reason names, maxFaults the faults of each. A fault quotes a value of any length.
const maxInvalid, maxFaults = 3, 10

// describe returns the first faults of an object on one line.
func describe(faults field.ErrorList) string {
	var texts []string
	for _, fault := range faults[:min(len(faults), maxFaults)] {
		texts = append(texts, escape.Short(fault.Error(), maxText))
	}
	return strings.Join(texts, "; ")
}

// some lists the given names, and says how many of n are missing.
func some(names []string, n int) string {
	if n == len(names) {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), n-len(names))
}
