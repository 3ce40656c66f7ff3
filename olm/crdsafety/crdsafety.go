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

// Breaks returns why OLM refuses to replace a CustomResourceDefinition by an updated one: the lines of OLM's message, or none if OLM does
// not refuse. It sorts the lines, because OLM's have no order. The present definition is as a cluster has it; see Installed. Breaks fails
// if a version has no schema, or one that is nested too deep, or if too many versions are served.
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

// deepest is the maximum nesting of schemas: crdify copies each with everything below it, so the cost grows with the square of the depth.
const deepest = 100

// mostServed is the maximum number of served versions: crdify compares each with each.
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

// change is a field in crdify's comparison of two schemas.
type change struct {
	field         string
	before, after string // as OLM shows them; "" if the comparison has none
	was, is       string // as in the comparison
}

// shortened returns OLM's version of crdify's message about unknown changes: of the comparison of Go values in it, OLM shows
// only the fields that differ.
func shortened(message string) string {
	const title = "unhandled changes found"
	if !strings.Contains(message, title) {
		return message
	}
	var changes []*change
	of := map[string]*change{}
	for line := range strings.SplitSeq(message, "\n") {
		line = strings.TrimSpace(line)
		sign, rest := "", ""
		if len(line) >= 2 {
			sign, rest = line[:1], line[1:]
		}
		if sign != "-" && sign != "+" {
			continue
		}
		field, value, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(rest), ","), ":")
		if field = strings.TrimSpace(field); !found || field == "" {
			continue
		}
		c := of[field]
		if c == nil {
			c = &change{field: field}
			of[field], changes = c, append(changes, c)
		}
		value = strings.TrimSpace(value)
		if sign == "-" {
			c.before, c.was = shown(value), value
		} else {
			c.after, c.is = shown(value), value
		}
	}
	var texts []string
	for _, c := range changes {
		if text := c.text(); text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return title
	}
	return fmt.Sprintf("%s (%s)", title, strings.Join(texts, "; "))
}

const empty = "<empty>"

// text returns a change in OLM's words, or "" if OLM does not show it.
func (c *change) text() string {
	alike := c.before == c.after
	if alike && (c.before == "" || c.was == c.is) {
		return ""
	}
	before, after := c.before, c.after
	if before == "" {
		before = empty
	}
	if after == "" {
		after = empty
	}
	if alike {
		after += " (changed)"
	}
	return fmt.Sprintf("%s %s -> %s", c.field, before, after)
}

// shown returns a value in OLM's form: without package names, and without the content of schemas.
func shown(value string) string {
	switch value = strings.TrimSpace(strings.TrimSuffix(value, ",")); {
	case value == "":
		return empty
	case value == `""`:
		return value
	}
	value = strings.ReplaceAll(value, "v1.", "")
	if strings.Contains(value, "JSONSchemaProps") {
		return "<complex value>"
	}
	return value
}
