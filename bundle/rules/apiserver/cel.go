package apiserver

import "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

// longestExpression is how many bytes of an expression in CEL are checked. The time that CEL takes to parse one grows with the square of its
// length: 13 s for the 100,000 characters that it accepts. Longer ones count as valid, and are left to the API server.
const longestExpression = 8 << 10

// valid takes the place of an expression that is not checked.
const valid = "true"

// leaveLongRules replaces long rules, and drops long expressions of their messages, in all versions of a definition.
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
		if len(rule.Rule) > longestExpression {
			rule.Rule = valid
		}
		if len(rule.MessageExpression) > longestExpression {
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
