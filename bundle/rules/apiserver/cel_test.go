package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/berth-csi/berth/catalog/fbc/constraint"
)

// TestLongRulesAreLeft: wherever a schema may have a rule, a long one is replaced, and a short one is not.
func TestLongRulesAreLeft(t *testing.T) {
	long := strings.Repeat("x", constraint.LongestRule+1)
	rules := func() apiextensions.ValidationRules {
		return apiextensions.ValidationRules{{Rule: long, MessageExpression: long}, {Rule: "short", MessageExpression: "short"}}
	}
	leaf := func() *apiextensions.JSONSchemaProps { return &apiextensions.JSONSchemaProps{XValidations: rules()} }
	several := func() map[string]apiextensions.JSONSchemaProps {
		return map[string]apiextensions.JSONSchemaProps{"a": *leaf()}
	}
	list := func() []apiextensions.JSONSchemaProps { return []apiextensions.JSONSchemaProps{*leaf()} }
	whole := func() *apiextensions.CustomResourceValidation {
		return &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
			XValidations: rules(), Properties: several(), PatternProperties: several(), Definitions: several(), Not: leaf(), AllOf: list(), AnyOf: list(), OneOf: list(),
			Items:                &apiextensions.JSONSchemaPropsOrArray{Schema: leaf(), JSONSchemas: list()},
			AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Schema: leaf()}, AdditionalItems: &apiextensions.JSONSchemaPropsOrBool{Schema: leaf()},
		}}
	}
	definition := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Validation: whole(), Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v2", Schema: whole()}}}}
	leaveLongRules(definition)
	text, err := json.Marshal(definition)
	require.NoError(t, err)
	assert.Zero(t, strings.Count(string(text), long), "long expressions that are left")
	const places = 2 * 12
	assert.Equal(t, places, strings.Count(string(text), `"Rule":"true"`))
	assert.Equal(t, 2*places, strings.Count(string(text), `"short"`))
}

// TestRulesAreChecked: a rule that is no CEL is an error, beside a long one.
func TestRulesAreChecked(t *testing.T) {
	const of = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"tides.example.com"},"spec":{"group":"example.com","scope":"Cluster",
"names":{"plural":"tides","singular":"tide","kind":"Tide","listKind":"TideList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
"x-kubernetes-validations":[{"rule":"RULE","message":"m"},{"rule":"LONG","message":"m"}]}}}]}}`
	long := "true" + strings.Repeat(" || true", constraint.LongestRule/8)
	for rule, want := range map[string]int{"true": 0, "1 +": 1} {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, json.Unmarshal([]byte(strings.NewReplacer("RULE", rule, "LONG", long).Replace(of)), definition))
		faults := Validate(definition)
		assert.Lenf(t, faults, want, "%s: %v", rule, faults)
	}
}
