package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	asYAML = "# about\nname: tide\nentries:\n- name: a\n- {name: b, skips: [c,\n    d]}\n"
	asJSON = "{\"name\": \"tide\",\n \"entries\": [{\"name\": \"a\"},\n  {\"name\": \"b\", \"skips\": [\"c\",\n \"d\"]}\n]}"
)

// TestPosition looks for values in one document as YAML and as JSON, that begins on line 11.
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

// TestLoad reads documents again by their spans, and fails when something else stands there.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for name, data := range map[string]string{"yaml": "a: 1\n---\nb: 2\n", "json": "{\"a\":1}\n{\"b\":2}\n"} {
		write := func(data string) {
			if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(data)
		documents, faults := Parse(path, []byte(data))
		if len(documents) != 2 || len(faults) > 0 {
			t.Fatalf("%s: %v, %v", name, documents, faults)
		}
		got, err := Load(documents[1].Span)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(documents[1], got); diff != "" {
			t.Errorf("%s: -parsed +loaded:\n%s", name, diff)
		}
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

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a/b.json", "a/drafts/c.yaml", ".hidden", "README.md", ".indexignore"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("*.md\n/a/drafts\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		below, err := filepath.Rel(dir, file.Path)
		if err != nil || file.Size != 15 || file.Modified == 0 {
			t.Errorf("%+v, error %v", file, err)
		}
		got = append(got, below)
	}
	if diff := cmp.Diff([]string{".hidden", "a/b.json", "b.yaml"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, wrong := range []string{filepath.Join(dir, "b.yaml"), filepath.Join(dir, "none")} {
		if _, err := List(wrong); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: got error %v", wrong, err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := List(dir); err == nil {
		t.Error("a link that leads nowhere is no error")
	}
}
