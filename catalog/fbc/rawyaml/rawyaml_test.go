package rawyaml_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/catalog/fbc/rawyaml"
	"github.com/berth-csi/berth/test/catalogs"
)

// FuzzAppendJSON checks that the library reads every document that AppendJSON accepts, and reads the same.
func FuzzAppendJSON(f *testing.F) {
	for _, file := range catalogs.Files(f, "../../rules/testdata/validate") {
		for _, document := range bytes.Split(file.Data, []byte("---\n")) {
			f.Add(document)
		}
	}
	for _, text := range append(converted, refused...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		got, ok := rawyaml.AppendJSON(nil, source)
		if !ok {
			return
		}
		compare(t, string(source), got)
	})
}

// compare compares JSON with the value that the library reads from YAML.
func compare(t *testing.T, source string, got []byte) {
	t.Helper()
	want, err := yaml.YAMLToJSON([]byte(source))
	if err != nil {
		t.Errorf("%q becomes %s, but the library says %v", source, got, err)
		return
	}
	var ours, theirs any
	require.NoError(t, json.Unmarshal(want, &theirs))
	if err := json.Unmarshal(got, &ours); err != nil {
		t.Errorf("%q becomes %s, which is no JSON: %v", source, got, err)
		return
	}
	assert.Emptyf(t, cmp.Diff(theirs, ours), "%q: -library +ours", source)
}

// converted is YAML as tools write it.
var converted = []string{
	"a: b\n", "a: b", "a:\n  b: c\n  d: e\nf: g\n", "a:\n- b\n- c\nd: e\n", "a:\n  - b\n  - c\nd: e\n", "- a\n- b: c\n  d: e\n- - f\n  - g\n",
	"a:\nb: c\n", "a:\n", "- \n- a\n", "-\n  a: b\n-\n  - c\n", "# one\n\na: b # two\n# three\n", "a: 'it''s'\nb: \"x\\ny\\t\\\"\\\\\"\n",
	"a: |\n  one\n   two\n\n  three\nb: c\n", "a: |-\n  one\n\n\nb: c\n", "a: |+\n  one\nb: c\n", "a: |\n\n  one\n", "- |\n one\n- two\n",
	"a: b c\n  d\n\n  e\nf: g\n", "a: \"b\n  c\n\n  d\"\n", "a: \"b \\\n  c\"\n", "a: 'b\n  c'\n", "a:\n  b\n",
	"a: []\nb: {}\n", "a: true\nb: false\nc: null\nd: ~\ne: 5\nf: -5\ng: 0\n", "a: 1.2.3\nb: 512Mi\nc: 2026-01-31T12:00:00Z\nd: 2026-01-31\ne: v1\nf: --leader-elect\n",
	"\"a b\": c\n'd': e\na.b/c: d\n", "a: http://example.com:80/x#y\nb: x:y\n", "é: ü\n", "a: '#'\nb: \"#\" # c\n", "a: /a/b\nb: $(HOME)\n", "a: b\n\n\n", "  a: b\n  c: d\n",
	"a: Yesterday\n", "a:   b   \n", "a: \"\"\nb: ''\n", "a: |\n  tab\there\n",
	"a:\n  b: |2\n      c\n    d\n", "- |1-\n  a\n b\n", "a: b\n  #c\n", "a: \"\\U0001F431 \\u00e9\"\n", "a: b\n  c#d\n", "a: 3.x\nb: 5 GB\nc: 2d\nd: 0.5.0\n",
}

// refused is YAML that is left to the library.
var refused = []string{
	"a: |\n\nb: c\n", "a: -\n  b\n", "just text\n", "|\n a\n",
	"a: &b c\n", "a: *b\n", "a: !!str b\n", "a: [b, c]\n", "a: {b: c}\n", "{a: b}\n", "? a\n: b\n", "a: >\n  b\n", "a: |4\n  b\n", "- |1\n\n", "a: |\n   b\n  c\n", "%YAML 1.1\n",
	"a: yes\n", "a: Off\n", "a: NULL\n", "a: 1.5\n", "a: 010\n", "a: 0x10\n", "a: 1e3\n", "a: 1_000\n", "a: .5\n", "a: +1\n", "a: -0\n", "a: 1234567890123456\n", "a: .inf\n", "a: =\n", "<<: a\n",
	"5: a\n", "true: a\n", "a: b: c\n", "a: b:\n", "a\tb: c\n\t", "\ta: b\n", "a:\n\tb: c\n", "a: b\n c: d\n", "a:\n    b: c\n  d: e\n", "- a\n b\n- c\n d: e\n", "a: b\n- c\n", "- a\nb: c\n",
	"a: \"b\n", "a: \"b\" c\n", "a: 'b\nc'\n", "a: \"\\u0041\"\n", "a: \"\\ud83d\"\n", "a: \"\\u00g0\"\n", "a: \"\\u00\"", "a: 0b1\n", "a: b\n  c #d\n", "a: |\n", "a: |+\n  b\n\n", "a: |\n\tb\n", "a: \x01\n", "a: \xff\n", "a: \u2028\n", "a: b # c\n  d\n", "a: -\n", "a: @b\n", "a:b\n c: d\n",
	"...\n", "a: b\n...\n", "\"a\\n\": b\n", "a : b\n", "a: b\r\n",
}

func TestAppendJSON(t *testing.T) {
	for _, source := range converted {
		got, ok := rawyaml.AppendJSON(nil, []byte(source))
		if !ok {
			t.Errorf("%q is refused", source)
			continue
		}
		compare(t, source, got)
	}
	for _, source := range refused {
		if got, ok := rawyaml.AppendJSON(nil, []byte(source)); ok {
			t.Errorf("%q becomes %s", source, got)
		}
	}
	if got, ok := rawyaml.AppendJSON([]byte("before "), []byte("a: b")); !ok || string(got) != `before {"a":"b"}` {
		t.Errorf("appended: %s", got)
	}
}
