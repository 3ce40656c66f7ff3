package document

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-csi/berth/catalog/fbc/rawjson"
)

const (
	asYAML = "# about\nname: tide\nentries:\n- name: a\n- {name: b, skips: [c,\n    d]}\n"
	asJSON = "{\"name\": \"tide\",\n \"entries\": [{\"name\": \"a\"},\n  {\"name\": \"b\", \"skips\": [\"c\",\n \"d\"]}\n]}"
)

// TestPosition looks for values in a document that begins on line 11, as YAML and as JSON.
func TestPosition(t *testing.T) {
	for _, tc := range []struct {
		path []any
		yaml [2]int
		json [2]int
	}{
		{nil, [2]int{12, 1}, [2]int{11, 1}},
		{[]any{"name"}, [2]int{12, 1}, [2]int{11, 2}},
		{[]any{"entries"}, [2]int{13, 1}, [2]int{12, 2}},
		{[]any{"entries", 0}, [2]int{14, 3}, [2]int{12, 14}},
		{[]any{"entries", 1, "skips"}, [2]int{15, 13}, [2]int{13, 17}},
		{[]any{"entries", 1, "skips", 1}, [2]int{16, 5}, [2]int{14, 2}},
		{[]any{"entries", 1, "replaces"}, [2]int{15, 3}, [2]int{13, 3}},
		{[]any{"entries", 7}, [2]int{13, 1}, [2]int{12, 2}},
		{[]any{"entries", "name"}, [2]int{13, 1}, [2]int{12, 2}},
		{[]any{"name", "first"}, [2]int{12, 1}, [2]int{11, 2}},
	} {
		yaml := Document{Span: Span{Line: 11}, Source: []byte(asYAML)}
		if line, column := yaml.Position(tc.path); line != tc.yaml[0] || column != tc.yaml[1] {
			t.Errorf("%v in YAML stands at %d:%d, want %v", tc.path, line, column, tc.yaml)
		}
		json := Document{Span: Span{Line: 11, JSON: true}, Source: []byte(asJSON)}
		if line, column := json.Position(tc.path); line != tc.json[0] || column != tc.json[1] {
			t.Errorf("%v in JSON stands at %d:%d, want %v", tc.path, line, column, tc.json)
		}
	}
}

// TestDeep: a document is deep above the depth that values of a catalog may have, in JSON and in YAML of both styles. Brackets in a string do
// not count.
func TestDeep(t *testing.T) {
	const quoted = `"\\[[\"[["`
	for style, nested := range map[string]func(levels int) string{
		"json": func(levels int) string {
			return `{"a":` + strings.Repeat("[", levels-1) + quoted + strings.Repeat("]", levels-1) + "}\n{}\n{}"
		},
		"flow": func(levels int) string {
			return "a: " + strings.Repeat("[", levels-1) + quoted + strings.Repeat("]", levels-1) + "\n---\nb: 1\n---\nc: 1"
		},
		"block": func(levels int) string {
			return "a:\n" + strings.Repeat("- ", levels-1) + quoted + "\n---\nb: 1\n---\nc: 1"
		},
	} {
		for levels, want := range map[int]bool{rawjson.MaxDepth: false, rawjson.MaxDepth + 1: true} {
			documents, faults := Parse("f", []byte(nested(levels)))
			assert.Emptyf(t, faults, "%s", style)
			if assert.Lenf(t, documents, 3, "%s", style) {
				assert.Equalf(t, want, documents[0].Deep, "%s of %d levels", style, levels)
				assert.False(t, documents[1].Deep, style)
			}
		}
	}
}

// TestLoad: documents are read again by their spans, and a changed one is an error.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for name, data := range map[string]string{"yaml": "a: 1\n---\nb: 2\n", "json": "{\"a\":1}\n{\"b\":2}\n"} {
		write := func(data string) {
			require.NoError(t, os.WriteFile(path, []byte(data), 0o644))
		}
		write(data)
		documents, faults := Parse(path, []byte(data))
		if len(documents) != 2 || len(faults) > 0 {
			t.Fatalf("%s: %v, %v", name, documents, faults)
		}
		got, err := Load(documents[1].Span)
		require.NoError(t, err)
		assert.Emptyf(t, cmp.Diff(documents[1], got), "%s: -parsed +loaded", name)
		write("{")
		if got, err := Load(documents[1].Span); err == nil || !strings.Contains(err.Error(), path+":") {
			t.Errorf("%s: from a shorter file it loaded %v, error %v", name, got, err)
		}
		write(strings.Repeat("{", len(data)))
		if got, err := Load(documents[1].Span); err == nil {
			t.Errorf("%s: of braces it loaded %v", name, got)
		}
	}
}

// TestDecodeStrictly: all faults of a document, their positions, and the fields that could be decoded.
func TestDecodeStrictly(t *testing.T) {
	type item struct {
		Name  string    `json:"name"`
		Skips *[]string `json:"skips"`
	}
	type list struct {
		Name    string `json:"name"`
		Entries []item `json:"entries"`
	}
	read := list{"tide", []item{{Name: "a"}, {"b", &[]string{"c", "d"}}}}
	for _, tc := range []struct {
		name, source, want string
		decoded            bool
		into               list
	}{
		{"YAML", asYAML, "", true, read},
		{"JSON", asJSON, "", true, read},
		{"unknown fields", "name: tide\nNAME: sea\nentries:\n- {name: a, is: b}\n- {name: b, skips: [c, d]}", `f:2:1: unknown field NAME; expected one of name, entries
f:4:13: unknown field is; expected one of name, skips`, true, read},
		{"unknown field in JSON", "{\"name\": \"tide\",\n \"is\": 1}", "f:2:2: unknown field is; expected one of name, entries", true, list{Name: "tide"}},
		{"a field twice", "name: sea\nname: tide", "f:2:1: field name is given twice", true, list{Name: "tide"}},
		{"other types", "name: 1\nentries: [a, {skips: b, name: [c]}, [true]]", `f:1:1: field name is a number; expected a string, in quotes where it looks like something else
f:2:11: number 1 of entries is a string; expected an object
f:2:15: field skips is a string; expected an array
f:2:25: field name is an array; expected a string, in quotes where it looks like something else
f:2:37: number 3 of entries is an array; expected an object`, false, list{}},
		{"nothing", "name:\nentries: [~]", `f:1:1: field name has no value; give it one, or leave it out
f:2:11: number 1 of entries has no value; give it one, or leave it out`, false, list{}},
		{"a list", "- tide", "f:1:1: the document is an array; expected an object", false, list{}},
		{"what is a string for one decoder only", "name: yes", "f:1:1: field name is a boolean; expected a string, in quotes where it looks like something else", false, list{}},
		{"a date", "name: 2020-01-01", "", true, list{Name: "2020-01-01"}},
		{"an alias", "entries: [&a {name: a}, *a]", "", true, list{Entries: []item{{Name: "a"}, {Name: "a"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			documents, malformed := Parse("f", []byte(tc.source))
			if len(documents) != 1 || len(malformed) > 0 {
				t.Fatal(documents, malformed)
			}
			var into list
			decoded, found := documents[0].DecodeStrictly(&into)
			var texts []string
			for _, f := range found {
				texts = append(texts, f.Error())
			}
			assert.Empty(t, cmp.Diff(tc.want, strings.Join(texts, "\n")), "-want +got")
			assert.Equal(t, tc.decoded, decoded)
			if diff := cmp.Diff(tc.into, into); decoded && diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a/b.json", "a/drafts/c.yaml", ".hidden", "README.md", ".indexignore"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("*.md\n/a/drafts\n"), 0o644))
	}
	files, err := List(dir)
	require.NoError(t, err)
	var got []string
	for _, file := range files {
		below, err := filepath.Rel(dir, file.Path)
		if err != nil || file.Size != 15 || file.Modified == 0 {
			t.Errorf("%+v, error %v", file, err)
		}
		got = append(got, below)
	}
	assert.Empty(t, cmp.Diff([]string{".hidden", "a/b.json", "b.yaml"}, got), "-want +got")
	one := filepath.Join(dir, "b.yaml")
	if files, err := List(one); err != nil || len(files) != 1 || files[0].Path != one {
		t.Errorf("a single file: got %+v, error %v", files, err)
	}
	none := filepath.Join(dir, "none")
	_, err = List(none)
	assert.ErrorContains(t, err, none)
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "a.yaml")))
	_, err = List(dir)
	assert.Error(t, err, "a link that leads nowhere is no error")
}

// TestListOpensNoPipe: whoever opens a pipe waits for ever.
func TestListOpensNoPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, IgnoreFile), 0o600))
	ended := make(chan error, 1)
	go func() {
		_, err := List(dir)
		ended <- err
	}()
	select {
	case err := <-ended:
		assert.ErrorContains(t, err, "is not a regular file")
	case <-time.After(time.Minute):
		t.Fatal("it is opened")
	}
}

// TestListRefusesManyPatterns: each file is compared with each pattern, so the time for both grows with their product.
func TestListRefusesManyPatterns(t *testing.T) {
	dir := t.TempDir()
	for _, below := range []string{".", "a"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, below), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, below, IgnoreFile), bytes.Repeat([]byte("*.md\n"), maxIgnoring/2/5), 0o644))
	}
	_, err := List(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", IgnoreFile), bytes.Repeat([]byte("*.md\n"), maxIgnoring/2), 0o644))
	_, err = List(dir)
	assert.ErrorContains(t, err, "a/.indexignore: the files .indexignore of a catalog have more than 16384 bytes together; expected fewer patterns")
	require.NoError(t, os.Remove(filepath.Join(dir, IgnoreFile)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, IgnoreFile), 0o755))
	require.NoError(t, os.Remove(filepath.Join(dir, "a", IgnoreFile)))
	_, err = List(dir)
	assert.NoError(t, err, "a folder of that name")
}

// TestDecodeStrictlyReportsSomeFaults: only some of very many faults of a document are reported.
func TestDecodeStrictlyReportsSomeFaults(t *testing.T) {
	documents, _ := Parse("f", []byte(strings.Repeat("unknown: 1\n", 20000)))
	_, found := documents[0].DecodeStrictly(&struct {
		Known string `json:"known"`
	}{})
	if len(found) != MaxFaults+1 || !strings.HasPrefix(found[MaxFaults].Message, "there are more faults") {
		t.Errorf("%d findings; want %d", len(found), MaxFaults+1)
	}
}

// TestWithoutLineBreakAtTheEnd: the last document of a file has the values that Kubernetes' decoder, which OLM's tools use, reads.
func TestWithoutLineBreakAtTheEnd(t *testing.T) {
	for _, last := range []string{"x", "|\n  x", "|-\n  x", "|+\n  x", ">\n  x", ">+\n\n  x\n\n  y", "'x'", "|\n  x\n  # no comment", "x # a comment", "x\r"} {
		text := "a: 1\n---\nb: 2\na: " + last
		documents, faults := Parse("x.yaml", []byte(text))
		require.Empty(t, faults)
		require.Len(t, documents, 2)
		var want, got map[string]any
		decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 30)
		require.NoError(t, decoder.Decode(&want))
		want = nil
		require.NoError(t, decoder.Decode(&want))
		require.NoError(t, json.Unmarshal(documents[1].Content, &got))
		assert.Equal(t, want["a"], got["a"], "%q", last)
	}
}
