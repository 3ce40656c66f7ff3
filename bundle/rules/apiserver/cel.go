package apiserver

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"github.com/berth-csi/berth/catalog/fbc/constraint"
)

// validRule takes the place of a rule that is not checked.
const validRule = "true"

// leaveLongRules replaces long rules, and drops long expressions of their messages, in all versions of a definition: they are left to the API
// server.
func leaveLongRules(definition *apiextensions.CustomResourceDefinition) {
	schemas := []*apiextensions.CustomResourceValidation{definition.Spec.Validation}
	for _, version := range definition.Spec.Versions {
		schemas = append(schemas, version.Schema)
	}
	for _, s := range schemas {
		if s != nil {
			leaveLongRulesOf(s.OpenAPIV3Schema)
		}
	}
}

func leaveLongRulesOf(schema *apiextensions.JSONSchemaProps) {
	if schema == nil {
		return
	}
	for i := range schema.XValidations {
		rule := &schema.XValidations[i]
		if len(rule.Rule) > constraint.LongestRule {
			rule.Rule = validRule
		}
		if len(rule.MessageExpression) > constraint.LongestRule {
			rule.MessageExpression = ""
		}
	}
	for _, properties := range []map[string]apiextensions.JSONSchemaProps{schema.Properties, schema.PatternProperties, schema.Definitions} {
		for name, of := range properties {
			leaveLongRulesOf(&of)
			properties[name] = of
		}
	}
	if schema.Items != nil {
		leaveLongRulesOf(schema.Items.Schema)
		leaveLongRulesIn(schema.Items.JSONSchemas)
	}
	for _, of := range []*apiextensions.JSONSchemaPropsOrBool{schema.AdditionalProperties, schema.AdditionalItems} {
		if of != nil {
			leaveLongRulesOf(of.Schema)
		}
	}
	leaveLongRulesOf(schema.Not)
	leaveLongRulesIn(schema.AllOf)
	leaveLongRulesIn(schema.AnyOf)
	leaveLongRulesIn(schema.OneOf)
}

func leaveLongRulesIn(schemas []apiextensions.JSONSchemaProps) {
	for i := range schemas {
		leaveLongRulesOf(&schemas[i])
	}
}
