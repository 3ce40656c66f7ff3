package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/operator-framework/api/crds"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/berth-csi/berth/internal/findings/nearest"
)

// customResource is the schema by which the API server checks objects of one kind.
type customResource struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *schemacel.Validator
}

// csvResource is the schema of ClusterServiceVersions, from OLM's CustomResourceDefinition.
var csvResource = sync.OnceValue(func() *customResource {
	c, err := resourceOf(crds.ClusterServiceVersion(), "v1alpha1")
	if err != nil {
		panic(fmt.Errorf("the CustomResourceDefinition of ClusterServiceVersions: %w", err)) // it is part of this program
	}
	return c
})

func resourceOf(definition *apiextensionsv1.CustomResourceDefinition, version string) (*customResource, error) {
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, internal, nil); err != nil {
		return nil, err
	}
	schema, err := apiextensions.GetSchemaForVersion(internal, version)
	if err != nil {
		return nil, err
	}
	c := &customResource{}
	if c.structural, err = structuralschema.NewStructural(schema.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if c.validator, _, err = validation.NewSchemaValidator(schema.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	c.cel = schemacel.NewValidator(c.structural, true, celconfig.PerCallLimit)
	return c, nil
}

// ClusterServiceVersion checks a ClusterServiceVersion. Unknown fields, which the API server drops, are warnings.
func ClusterServiceVersion(object map[string]any) []Fault { return csvResource().check(object) }

// Metadata checks the metadata of any object.
func Metadata(object map[string]any) []Fault {
	faults, _ := metadata(object)
	return faults
}

// metadata also returns unknown fields of metadata, which the API server drops.
func metadata(object map[string]any) (faults []Fault, unknown []string) {
	meta, found, _, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{})
	var malformed *field.Error
	switch {
	case errors.As(err, &malformed):
		faults = append(faults, faultOf(malformed))
	case err != nil:
		if faults = notText(object); len(faults) == 0 {
			faults = append(faults, Fault{Path: []any{"metadata"}, Message: err.Error()})
		}
	case found:
		meta.Namespace = "default" // OLM chooses one
		for _, err := range apivalidation.ValidateObjectMeta(meta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")) {
			faults = append(faults, faultOf(err))
		}
	}
	if _, _, unknown, err = objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{DropMalformedFields: true, ReturnUnknownFieldPaths: true}); err != nil {
		unknown = nil // the fault is reported above
	}
	return faults, unknown
}

// notText returns faults for labels and annotations of an object that are not strings.
func notText(object map[string]any) (faults []Fault) {
	metadata, _ := object["metadata"].(map[string]any)
	for _, part := range []string{"annotations", "labels"} {
		values, _ := metadata[part].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if _, is := values[key].(string); !is {
				faults = append(faults, Fault{Path: []any{"metadata", part, key}, Message: fmt.Sprintf("metadata.%s[%s] is %v; expected a string: put the value in quotes", part, key, values[key])})
			}
		}
	}
	return faults
}

func (c *customResource) check(object map[string]any) []Fault {
	object = runtime.DeepCopyJSON(object)
	faults, unknown := metadata(object)
	unknown = append(unknown, pruning.PruneWithOptions(object, c.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	for _, text := range unknown {
		path := parse(text)
		faults = append(faults, Fault{Path: path, Warning: true,
			Message: fmt.Sprintf("unknown field %s, which the API server drops%s", text, nearest.Hint(fmt.Sprint(path[len(path)-1]), c.fieldsAt(path[:len(path)-1])))})
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	defaulting.Default(object, c.structural)
	refused := validation.ValidateCustomResource(nil, object, c.validator)
	refused = append(refused, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if len(refused) == 0 && c.cel != nil {
		refused, _ = c.cel.Validate(context.Background(), nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	for _, err := range refused {
		faults = append(faults, faultOf(err))
	}
	return faults
}

// metadataFields are the fields of metadata that people write.
var metadataFields = []string{"annotations", "finalizers", "labels", "name", "namespace"}

// fieldsAt returns the names of the fields that an object at a path may have.
func (c *customResource) fieldsAt(path []any) []string {
	if len(path) == 1 && path[0] == "metadata" {
		return metadataFields
	}
	schema := c.structural
	for _, step := range path {
		switch name, isKey := step.(string); {
		case !isKey && schema.Items != nil:
			schema = schema.Items
		case !isKey:
			return nil
		default:
			below, known := schema.Properties[name]
			if !known {
				return nil
			}
			schema = &below
		}
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}
