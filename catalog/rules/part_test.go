package rules_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestLoadPart: in one file, what is wrong with a package that nobody asked for only warns.
func TestLoadPart(t *testing.T) {
	const ebb = `schema: olm.package
name: ebb
defaultChannel: stable
---
schema: olm.channel
package: ebb
name: stable
entries: [{name: ebb.v1.0.0}]
---
schema: olm.bundle
package: ebb
name: ebb.v1.0.0
image: registry.example.com/ebb:v1
properties: [{type: olm.package, value: {packageName: ebb, version: 1.0.0}}]
`
	const flood = "---\nschema: olm.package\nname: flood\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: flood\nname: stable\nentries: [{name: flood.v1.0.0}]\n"
	const malformed = "---\nschema: olm.bundle\npackage: flood\nname: flood.v1.0.0\nimage: registry.example.com/flood:v1\nproperties:\n" +
		"- {type: olm.package, value: {packageName: flood, version: 1.0.0}}\n- {type: olm.csv.metadata, value: {keywords: x}}\n"
	for _, tc := range []struct {
		name, text, ask string
		warning, err    string
	}{
		{"a payload of another package", ebb + flood + malformed, "ebb", "property of type olm.csv.metadata", ""},
		{"a payload of the package", ebb + flood + malformed, "flood", "", "property of type olm.csv.metadata"},
		{"a package that is not there", malformed, "ebb", "property of type olm.csv.metadata", ""},
		{"an entry of another package", ebb + strings.Replace(flood, "[{name: flood.v1.0.0}]", "{}", 1), "ebb", "entries", ""},
		{"an icon of another package", ebb + strings.Replace(flood, "name: flood\n", "name: flood\nicon: {base64data: \"?\"}\n", 1), "ebb", "icon", ""},
		{"a schema of nobody", ebb + "---\nschema: olm.foo\n", "ebb", `unknown schema "olm.foo"`, ""},
		{"a schema of another package", ebb + flood + "---\nschema: olm.bundel\npackage: flood\n", "ebb", `unknown schema "olm.bundel"`, ""},
		{"a schema of the package", ebb + "---\nschema: olm.bundel\npackage: ebb\n", "ebb", "", `unknown schema "olm.bundel"`},
		{"a document of the package by its name", ebb + flood + "---\nschema: olm.pakage\nname: ebb\n", "ebb", "", `unknown schema "olm.pakage"`},
		{"a document without a schema", ebb + "---\na: b\n", "ebb", "no field schema", ""},
		{"an empty document", ebb + "---\nnull\n", "ebb", "the document is empty", ""},
		{"a document that may be of any package", ebb + "---\nschema: olm.channel\nname: ebb\n", "ebb", "", "has no field package"},
		{"malformed YAML", ebb + "---\na: [\n", "ebb", "", "malformed YAML"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), tc.text)
			for use, rulesOf := range map[string]rules.Use{"serve": rules.Serve, "look": rules.Look} {
				part, err := rules.LoadPart(t.Context(), dir, rulesOf, tc.ask)
				if tc.err != "" {
					assert.ErrorContains(t, err, tc.err, use)
					continue
				}
				require.NoError(t, err)
				require.NotNil(t, part, use)
				if len(part.Warnings) != 1 || !strings.Contains(part.Warnings[0].Message, tc.warning) {
					t.Errorf("%s: got warnings %v, want one: %s", use, part.Warnings, tc.warning)
				}
			}
		})
	}
}
