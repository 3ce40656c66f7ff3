package render_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// TestForLog: no line of a document is a command for a CI system, its data stays, and documents without commands keep their bytes.
func TestForLog(t *testing.T) {
	command := regexp.MustCompile(`(?m)^[\s\pZ]*::[a-z]|##[A-Za-z]*\[`)
	for name, text := range map[string]string{
		"a line":                  "The tide\n::set-output name=x::y\nrises",
		"an indented line":        "The tide\n   ::add-path::/tmp/x\n",
		"a line after a carriage": "The tide\r::add-path::/tmp/x\r\n::error::x",
		"the first":               "::add-mask::tide",
		"in a line":               "a ##vso[task.setvariable variable=PATH]x",
		"after a backslash":       `a \##[error]x \\##[error]`,
		"very many":               "###[error]##teamcity[x]####[error]",
		"a long line":             strings.Repeat("word ", 100) + "::add-path::x " + strings.Repeat("word ", 100) + "##[error]",
		"quotes":                  "\"::error::\"\n::error::\"'\t\x1b\u202e",
		"after other spaces":      "The tide\n\u00a0::error::x\n\u3000 \u2003::error::x",
		"after other colons":      "std::string\n :: a\n\t::error::x",
		"none":                    "see C++ std::string\n::\n## Tides [1]\n# :: a\n12",
	} {
		content := map[string]any{"schema": "tide", text[:min(len(text), 100)]: "key", "value": text, "deep": []any{[]any{text}, map[string]any{"x": text, "n": json.Number("12345678901234567890"), "none": nil}}}
		asJSON, err := json.MarshalIndent(content, "", "    ")
		require.NoError(t, err)
		asYAML, err := boundedyaml.FromJSON(asJSON)
		require.NoError(t, err)
		const harmless = "---\nschema: harmless\ntext: |\n  a\n  b\n"
		for format, document := range map[string]string{"json": string(asJSON) + "\n", "yaml": "---\n" + string(asYAML)} {
			all := document
			if format == "yaml" {
				all = harmless + document + harmless
			}
			var out bytes.Buffer
			if n, err := render.ForLog(&out, format).Write([]byte(all)); err != nil || n != len(all) {
				t.Fatalf("%s, %s: %d, %v", name, format, n, err)
			}
			shown := out.String()
			if found := command.FindString(shown); found != "" {
				t.Errorf("%s, %s: it has %q:\n%s", name, format, found, shown)
			}
			if name == "none" && shown != all {
				t.Errorf("%s, %s: the bytes differ:\n%s", name, format, cmp.Diff(all, shown))
			}
			if format == "yaml" {
				before, is := strings.CutPrefix(shown, harmless)
				middle, also := strings.CutSuffix(before, harmless)
				if !is || !also {
					t.Errorf("%s: the documents around it have other bytes:\n%s", name, shown)
				}
				shown = middle
			}
			converted, err := boundedyaml.ToJSON([]byte(shown))
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", name, format, err, shown)
				continue
			}
			decode := func(text []byte) (value any) {
				decoder := json.NewDecoder(bytes.NewReader(text))
				decoder.UseNumber()
				require.NoError(t, decoder.Decode(&value))
				return value
			}
			assert.Emptyf(t, cmp.Diff(decode(asJSON), decode(converted)), "%s, %s: the data differs (-want +got)", name, format)
		}
	}
}
