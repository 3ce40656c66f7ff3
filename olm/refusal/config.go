package refusal

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/berth-csi/berth/olm/featuregates"
)

// deploymentConfig is the JSON schema of deploymentConfig. Its types are below components, as in Kubernetes' OpenAPI. TestSchema writes the
// file.
//
//go:embed deploymentconfig.json
var deploymentConfig []byte

// The fields of spec.config.inline.
const (
	watchNamespaceField   = "watchNamespace"
	deploymentConfigField = "deploymentConfig"
)

// checkConfiguration checks spec.config against the schema that OLM makes from a bundle's install modes. OLM skips this if
// spec.config is not set and the feature gate for other install modes than AllNamespaces is off.
func checkConfiguration(b *Bundle, r *Request) []Refusal {
	if !r.Gates[featuregates.SingleOwnNamespace] && !r.Configured {
		return nil
	}
	config := r.Config
	if config == nil {
		config = json.RawMessage("{}")
	}
	var values any
	if err := json.Unmarshal(config, &values); err != nil {
		return []Refusal{misconfigured(b, invalidConfiguration, err.Error())}
	}
	if faults := b.configFaults(values, r); len(faults) > 0 {
		return []Refusal{misconfigured(b, invalidConfiguration, joined(faults))}
	}
	fields, isObject := values.(map[string]any)
	if !isObject { // the schema wants an object
		return nil
	}
	if set := fields[deploymentConfigField]; set != nil && r.Gates[featuregates.DeploymentConfig] {
		data, err := json.Marshal(set)
		if err == nil {
			err = json.Unmarshal(data, &v1alpha1.SubscriptionConfig{})
		}
		if err != nil {
			return []Refusal{misconfigured(b, "invalid deploymentConfig: failed to unmarshal deploymentConfig: ", err.Error())}
		}
	}
	return nil
}

const invalidConfiguration = "invalid ClusterExtension configuration: invalid configuration: "

func misconfigured(b *Bundle, before, fault string) Refusal {
	text := before + fault
	fault = strings.ReplaceAll(fault, "\n  - ", " ")
	return Refusal{Code: Configuration, step: stepConfiguration, Text: text,
		What: fmt.Sprintf("spec.config of the ClusterExtension is not valid for %s: %s", b.Name, fault),
		Do:   "correct spec.config.inline; OLM does not try again before that"}
}

// joined joins faults in OLM's format.
func joined(faults []string) string {
	if len(faults) == 1 {
		return faults[0]
	}
	return "multiple errors found:\n  - " + strings.Join(faults, "\n  - ")
}

// configFaults returns the faults of a configuration, sorted. OLM's own list is in random order.
func (b *Bundle) configFaults(values any, r *Request) []string {
	compiler := jsonschema.NewCompiler()
	for _, format := range namespaceFormats(r.Namespace) {
		compiler.RegisterFormat(format)
	}
	const name = "config-schema.json"
	err := compiler.AddResource(name, b.configSchema(r.Gates))
	if err != nil {
		return []string{fmt.Sprintf("failed to load schema: %v", err)}
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return []string{fmt.Sprintf("failed to compile schema: %v", err)}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(schema.Validate(values), &invalid) {
		return nil
	}
	var faults []string
	for _, unit := range invalid.BasicOutput().Errors {
		if unit.Error != nil {
			faults = append(faults, describeFault(unit))
		}
	}
	slices.Sort(faults)
	return faults
}

// The formats of a namespace to watch.
const (
	ownFormat    = "ownNamespaceInstallMode"
	singleFormat = "singleNamespaceInstallMode"
)

// namespaceFormats returns the formats that compare a watched namespace with the operator's, if that is known.
func namespaceFormats(namespace string) []*jsonschema.Format {
	return []*jsonschema.Format{
		{Name: ownFormat, Validate: func(value any) error {
			if text, is := value.(string); namespace != "" && is && text != namespace {
				return fmt.Errorf("invalid value %q: must be %q (the namespace where the operator is installed) because this operator only supports OwnNamespace install mode", text, namespace)
			}
			return nil
		}},
		{Name: singleFormat, Validate: func(value any) error {
			if text, is := value.(string); namespace != "" && is && text == namespace {
				return fmt.Errorf("invalid value %q: must be different from %q (the install namespace) because this operator uses SingleNamespace install mode to watch a different namespace", text, namespace)
			}
			return nil
		}},
	}
}

// configSchema returns the schema of spec.config.inline.
func (b *Bundle) configSchema(on featuregates.Set) map[string]any {
	var ofDeployments map[string]any
	if err := json.Unmarshal(deploymentConfig, &ofDeployments); err != nil {
		panic(err) // it is embedded in this program
	}
	properties := map[string]any{}
	schema := map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
		"properties": properties, "components": ofDeployments["components"],
	}
	if on[featuregates.DeploymentConfig] {
		properties[deploymentConfigField] = ofDeployments[deploymentConfigField]
	}
	own, single := b.supports(v1alpha1.InstallModeTypeOwnNamespace), b.supports(v1alpha1.InstallModeTypeSingleNamespace)
	if !own && !single {
		return schema
	}
	namespace := map[string]any{"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
	switch {
	case !single:
		namespace["format"] = ownFormat
	case !own:
		namespace["format"] = singleFormat
	}
	if b.supports(v1alpha1.InstallModeTypeAllNamespaces) {
		properties[watchNamespaceField] = map[string]any{"anyOf": []any{map[string]any{"type": "null"}, namespace}}
		return schema
	}
	properties[watchNamespaceField], schema["required"] = namespace, []any{watchNamespaceField}
	return schema
}

// describeFault returns a fault in OLM's words.
func describeFault(unit jsonschema.OutputUnit) string {
	said := unit.Error.String()
	field := strings.ReplaceAll(strings.TrimPrefix(unit.InstanceLocation, "/"), "/", ".")
	about := func(ofField, ofAll string) string {
		if field == "" {
			return ofAll
		}
		return ofField
	}
	switch fault := unit.Error.Kind.(type) {
	case *kind.Required:
		return named("required field %q is missing", quotedIn(said), "required field is missing")
	case *kind.AdditionalProperties:
		return named("unknown field %q", slices.Min(fault.Properties), "unknown field") // OLM names any of several
	case *kind.Type:
		if field != "" && strings.Contains(said, "got null") {
			return fmt.Sprintf("required field %q is missing", field)
		}
		return about(fmt.Sprintf("invalid type for field %q: %s", field, said), "invalid type: "+said)
	case *kind.Format:
		return about(fmt.Sprintf("invalid format for field %q: %s", field, said), "invalid format: "+said)
	case *kind.AnyOf:
		return about(fmt.Sprintf("invalid value for field %q", field), "invalid value")
	case *kind.MaxLength:
		return about(fmt.Sprintf("field %q must have maximum length of %d (len=%d)", field, fault.Want, fault.Got), said)
	case *kind.MinLength:
		return about(fmt.Sprintf("field %q must have minimum length of %d (len=%d)", field, fault.Want, fault.Got), said)
	case *kind.Pattern:
		return about(fmt.Sprintf("field %q must match pattern %q", field, fault.Want), said)
	}
	return said
}

func named(format, name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return fmt.Sprintf(format, name)
}

// quotedIn returns the first name in single quotes.
func quotedIn(text string) string {
	_, rest, _ := strings.Cut(text, "'")
	name, _, closed := strings.Cut(rest, "'")
	if !closed {
		return ""
	}
	return name
}
