package crdsafety

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// definition is a CustomResourceDefinition whose objects have one field, depth.
func definition(depth schema, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "moorings", Kind: "Mooring"},
	}}
	d.Name = "moorings.example.com"
	for i, name := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema{Type: "object", Properties: map[string]schema{"depth": depth}}}})
	}
	return d
}

func number(of int64) *int64 { return &of }

// TestBreaks: the messages of OLM v1 about updated CustomResourceDefinitions. Suite olm-v1-predictions compares them with the real
// program.
func TestBreaks(t *testing.T) {
	text := schema{Type: "string"}
	for name, test := range map[string]struct {
		was, is *apiextensionsv1.CustomResourceDefinition
		want    string
	}{
		"nothing":              {definition(text, "v1"), definition(text, "v1"), ""},
		"a description":        {definition(text, "v1"), definition(schema{Type: "string", Description: "in metres"}, "v1"), ""},
		"a type":               {definition(text, "v1"), definition(schema{Type: "integer"}, "v1"), `v1: ^.depth: type: type changed : "string" -> "integer"`},
		"a limit":              {definition(text, "v1"), definition(schema{Type: "string", MaxLength: number(3)}, "v1"), "maxLength"},
		"an enum that grows":   {definition(schema{Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}}}, "v1"), definition(schema{Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}, {Raw: []byte(`"b"`)}}}, "v1"), ""},
		"a stored version":     {definition(text, "v1beta1"), definition(text, "v1"), "storedVersionRemoval: stored versions removed : [v1beta1]"},
		"a format":             {definition(text, "v1"), definition(schema{Type: "string", Format: "date"}, "v1"), `v1: ^.depth: unhandled: unhandled changes found (Format "" -> "date")`},
		"versions that differ": {definition(text, "v1"), withVersion(definition(text, "v1"), "v2", schema{Type: "integer"}), "v1 -> v2: ^.depth: type"},
		"a version more":       {definition(text, "v1"), definition(text, "v1", "v2"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			present, err := Installed(test.was)
			require.NoError(t, err)
			lines, err := Breaks(present, test.is)
			require.NoError(t, err)
			if said := strings.Join(lines, "\n"); (test.want == "") != (said == "") || !strings.Contains(said, test.want) {
				t.Errorf("got %q, want %q in it", said, test.want)
			}
		})
	}
}

func withVersion(d *apiextensionsv1.CustomResourceDefinition, name string, depth schema) *apiextensionsv1.CustomResourceDefinition {
	d.Spec.Versions = append(d.Spec.Versions, definition(depth, name).Spec.Versions...)
	return d
}

// TestBreaksWithoutSchema: crdify would panic.
func TestBreaksWithoutSchema(t *testing.T) {
	bare := definition(schema{}, "v1")
	bare.Spec.Versions[0].Schema = nil
	_, err := Breaks(definition(schema{}, "v1"), bare)
	assert.ErrorContains(t, err, "version v1 of CustomResourceDefinition moorings.example.com has no schema")
}

// TestBreaksIsBounded: an attacker may nest schemas as deep as a file allows.
func TestBreaksIsBounded(t *testing.T) {
	deep := schema{Type: "object"}
	for range deepest {
		deep = schema{Type: "object", Properties: map[string]schema{"a": deep}}
	}
	_, err := Breaks(definition(schema{}, "v1"), definition(deep, "v1"))
	assert.ErrorContains(t, err, "nests schemas more than 100 deep")
}

// TestBreaksComparesFewVersions: the comparison of each served version with each takes the square of an attacker's versions.
func TestBreaksComparesFewVersions(t *testing.T) {
	many := definition(schema{}, "v1")
	for i := range mostServed {
		many = withVersion(many, fmt.Sprintf("v1alpha%d", i+1), schema{})
	}
	for _, of := range [][2]*apiextensionsv1.CustomResourceDefinition{{many, definition(schema{}, "v1")}, {definition(schema{}, "v1"), many}} {
		_, err := Breaks(of[0], of[1])
		assert.ErrorContains(t, err, "serves 17 versions, expected at most 16")
	}
	many.Spec.Versions[1].Served = false
	_, err := Breaks(many, many)
	assert.NoError(t, err)
}
