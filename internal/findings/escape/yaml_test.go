package escape

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// TestYAML: each text, wherever it is, is written in visible characters that are no command, and is the same when it is read.
func TestYAML(t *testing.T) {
	words := strings.Repeat("word ", 14)
	for _, text := range []string{"plain", "a\nb\n", "::error::x", words + "::error::x", "a\n::error::x", "##[error]x", words + "##vso[task.x]y", `\##[error]x`, "\x1b[31m\u202e\u200b\u009b\x00\x7f", "\U000e0041\U0001f600\ufeff",
		"tab\there", "\r\n::error::", prefix + "0", `"` + prefix + `1"`, "std::string", "123", "true", "~", "", "\u2028::x::\u0085::error::x", strings.Repeat("x", 1000) + "\u200b", `\ud83d\ude00 ` + "\u200b", `c:\u200b`} {
		value := map[string]any{"a": text, "b": []any{text, map[string]any{text: "x", "n": json.Number("12")}}}
		written, err := json.Marshal(value)
		require.NoError(t, err)
		shown, err := YAML(written)
		require.NoErrorf(t, err, "%q", text)
		for line := range strings.Lines(string(shown)) {
			line = strings.TrimSuffix(line, "\n")
			if IsCommand(line) || strings.ContainsFunc(line, isHidden) || strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("%q: a line is %q", text, line)
			}
		}
		back, err := boundedyaml.ToJSON(shown)
		require.NoErrorf(t, err, "%s", shown)
		var read any
		decoder := json.NewDecoder(bytes.NewReader(back))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&read))
		assert.Equal(t, any(value), read, "%q is read back from %s", text, shown)
	}
	plain, err := YAML([]byte(`{"a":"see: x","b":["a\nb\n"]}`))
	require.NoError(t, err)
	assert.Equal(t, "a: 'see: x'\nb:\n- |\n  a\n  b\n", string(plain), "what needs no quotes")
}
