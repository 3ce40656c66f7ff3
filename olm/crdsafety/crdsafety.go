// Package crdsafety says whether OLM v1 lets an update replace a CustomResourceDefinition. It runs OLM's library,
// sigs.k8s.io/crdify, with the same version and configuration.
package crdsafety

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
	"sigs.k8s.io/crdify/pkg/validations/property"
	"sigs.k8s.io/crdify/pkg/validators/version"
)

// checks is OLM's configuration of crdify: descriptions may change, enums may grow, versions that a webhook converts may differ, and
// unknown changes are refused.
var checks = config.Config{
	Conversion:           config.ConversionPolicyIgnore,
	UnhandledEnforcement: config.EnforcementPolicyError,
	Validations: []config.ValidationConfig{
		{Name: "description", Enforcement: config.EnforcementPolicyNone},
		{Name: "enum", Enforcement: config.EnforcementPolicyError, Configuration: map[string]any{"additionPolicy": property.AdditionPolicyAllow}},
	},
}

// Breaks returns why OLM refuses to replace a CustomResourceDefinition by an updated one: the lines of its message, sorted, or none
// if it does not. The present one is as a cluster has it; see Installed. OLM's own lines are in no order. It fails if a version has no
// schema, or one that is nested too deep, or if too many versions are served.
func Breaks(present, updated *apiextensionsv1.CustomResourceDefinition) (lines []string, err error) {
	for _, definition := range []*apiextensionsv1.CustomResourceDefinition{present, updated} {
		served := 0
		for _, v := range definition.Spec.Versions {
			if v.Served {
				served++
			}
			if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
				return nil, fmt.Errorf("version %s of CustomResourceDefinition %s has no schema, want spec.versions[].schema.openAPIV3Schema", v.Name, definition.Name)
			}
			if nestsDeeper(v.Schema.OpenAPIV3Schema, deepest) {
				return nil, fmt.Errorf("version %s of CustomResourceDefinition %s nests schemas more than %d deep; they are not compared", v.Name, definition.Name, deepest)
			}
		}
		if served > mostServed {
			return nil, fmt.Errorf("CustomResourceDefinition %s serves %d versions, expected at most %d; they are not compared", definition.Name, served, mostServed)
		}
	}
	r, err := runner.New(&checks, runner.DefaultRegistry())
	if err != nil {
		return nil, fmt.Errorf("setting up the checks of CustomResourceDefinitions: %w", err)
	}
	results := r.Run(present, updated)
	for _, result := range results.CRDValidation {
		for _, text := range result.Errors {
			lines = append(lines, result.Name+": "+text)
		}
	}
	lines = append(lines, inVersions(results.SameVersionValidation)...)
	lines = append(lines, inVersions(results.ServedVersionValidation)...)
	slices.Sort(lines)
	return lines, nil
}

// deepest is the maximum nesting of schemas: crdify copies each with everything below it, so the cost grows with the square.
const deepest = 100

// mostServed is how many versions may be served: crdify compares each with each.
const mostServed = 16

// nestsDeeper reports whether schemas are nested deeper than a limit.
func nestsDeeper(s *apiextensionsv1.JSONSchemaProps, limit int) bool {
	if limit == 0 {
		return true
	}
	for name := range s.Properties {
		of := s.Properties[name]
		if nestsDeeper(&of, limit-1) {
			return true
		}
	}
	if s.Items != nil && s.Items.Schema != nil && nestsDeeper(s.Items.Schema, limit-1) {
		return true
	}
	return s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && nestsDeeper(s.AdditionalProperties.Schema, limit-1)
}

// inVersions returns the lines about properties.
func inVersions(results []version.VersionedPropertyComparisonResult) (lines []string) {
	for _, in := range results {
		for _, of := range in.PropertyComparisons {
			for _, result := range of.ComparisonResults {
				for _, text := range result.Errors {
					if result.Name == "unhandled" {
						text = shortened(text)
					}
					lines = append(lines, fmt.Sprintf("%s: %s: %s: %s", in.Version, of.Property, result.Name, text))
				}
			}
		}
	}
	return lines
}

// Message returns OLM's message about a CustomResourceDefinition.
func Message(name string, lines []string) string {
	return fmt.Sprintf("validating upgrade for CRD %q: %s", name, strings.Join(lines, "\n"))
}

// Installed returns a bundle's CustomResourceDefinition after its installation in a cluster: with the API server's defaults, and
// with objects in its storage version.
func Installed(definition *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := json.Marshal(definition)
	if err != nil {
		return nil, err
	}
	installed := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(data, installed); err != nil { // fields that are empty are not stored
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&installed.Spec)
	installed.Status.StoredVersions = nil
	for _, v := range installed.Spec.Versions {
		if v.Storage {
			installed.Status.StoredVersions = append(installed.Status.StoredVersions, v.Name)
		}
	}
	return installed, nil
}
