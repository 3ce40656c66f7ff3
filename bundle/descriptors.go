package bundle

import (
	"slices"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// ownedAPIs describes the served versions of a custom resource for consoles. The descriptions come from the schema, so that a field is
// documented in one place: its Go type.
func ownedAPIs(crd *apiextensionsv1.CustomResourceDefinition) []v1alpha1.CRDDescription {
	var owned []v1alpha1.CRDDescription
	for _, version := range crd.Spec.Versions {
		if !version.Served || version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		schema := version.Schema.OpenAPIV3Schema
		api := v1alpha1.CRDDescription{
			Name:        crd.Name,
			Version:     version.Name,
			Kind:        crd.Spec.Names.Kind,
			DisplayName: inWords(crd.Spec.Names.Kind),
			Description: oneLine(schema.Description),
		}
		for _, field := range fieldsOf(schema.Properties["spec"], "") {
			api.SpecDescriptors = append(api.SpecDescriptors, v1alpha1.SpecDescriptor{
				Path: field.path, DisplayName: field.displayName(), Description: oneLine(field.schema.Description),
				XDescriptors: inputWidget(field.schema),
			})
		}
		for _, field := range fieldsOf(schema.Properties["status"], "") {
			api.StatusDescriptors = append(api.StatusDescriptors, v1alpha1.StatusDescriptor{
				Path: field.path, DisplayName: field.displayName(), Description: oneLine(field.schema.Description),
				XDescriptors: statusWidgets[field.path],
			})
		}
		owned = append(owned, api)
	}
	return owned
}

// field is a leaf of a schema: a console shows or edits one value there.
type field struct {
	path   string // dotted, below spec or status
	schema apiextensionsv1.JSONSchemaProps
}

// fieldsOf returns the leaves below a schema, sorted by path. A list is a leaf.
func fieldsOf(schema apiextensionsv1.JSONSchemaProps, path string) []field {
	if len(schema.Properties) == 0 {
		if path == "" {
			return nil
		}
		return []field{{path: path, schema: schema}}
	}
	var fields []field
	for name, property := range schema.Properties {
		fields = append(fields, fieldsOf(property, strings.TrimPrefix(path+"."+name, "."))...)
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.path, b.path) })
	return fields
}

// displayName returns the schema's title or else the field's path as a title. A description from Go begins with the
// field's Go name, which spells abbreviations correctly.
func (f field) displayName() string {
	if f.schema.Title != "" {
		return f.schema.Title
	}
	parents, name := "", f.path
	if i := strings.LastIndex(f.path, "."); i >= 0 {
		parents, name = f.path[:i+1], f.path[i+1:]
	}
	if goName, _, _ := strings.Cut(f.schema.Description, " "); strings.EqualFold(goName, name) {
		name = goName
	}
	return inWords(parents + name)
}

// The x-descriptors that the OpenShift console knows. Conventional status fields get their widget, fields of a spec the
// form input for their type.
var statusWidgets = map[string][]string{
	"claimRef.name": {"urn:alm:descriptor:io.kubernetes:PersistentVolumeClaim"},
	"conditions":    {"urn:alm:descriptor:io.kubernetes.conditions"},
	"message":       {"urn:alm:descriptor:io.kubernetes.phase:reason"},
	"phase":         {"urn:alm:descriptor:io.kubernetes.phase"},
}

var inputWidgets = map[string]string{
	"string":  "urn:alm:descriptor:com.tectonic.ui:text",
	"boolean": "urn:alm:descriptor:com.tectonic.ui:booleanSwitch",
	"integer": "urn:alm:descriptor:com.tectonic.ui:number",
	"number":  "urn:alm:descriptor:com.tectonic.ui:number",
}

func inputWidget(schema apiextensionsv1.JSONSchemaProps) []string {
	if len(schema.Enum) > 0 {
		var choices []string
		for _, value := range schema.Enum {
			choices = append(choices, "urn:alm:descriptor:com.tectonic.ui:select:"+strings.Trim(string(value.Raw), `"`))
		}
		return choices
	}
	if widget, ok := inputWidgets[schema.Type]; ok {
		return []string{widget}
	}
	return nil
}

// inWords writes a field path or a kind as a title: "fileSystemID" becomes "File System ID",
// "claimRef.name" becomes "Claim Ref Name".
func inWords(path string) string {
	runes := []rune(path)
	var words strings.Builder
	for i, r := range runes {
		switch {
		case r == '.':
			words.WriteByte(' ')
		case i == 0 || runes[i-1] == '.':
			words.WriteRune(unicode.ToUpper(r))
		case startsWord(runes, i):
			words.WriteByte(' ')
			words.WriteRune(r)
		default:
			words.WriteRune(r)
		}
	}
	return words.String()
}

// startsWord reports whether a word of camel case begins at i: at a capital after a lower-case letter, or at
// the last capital of several, as the N in "IDName".
func startsWord(runes []rune, i int) bool {
	if !unicode.IsUpper(runes[i]) {
		return false
	}
	return !unicode.IsUpper(runes[i-1]) || (i+1 < len(runes) && unicode.IsLower(runes[i+1]))
}

// oneLine joins the lines of a description, which a schema wraps where its Go comment did.
func oneLine(description string) string { return strings.Join(strings.Fields(description), " ") }
