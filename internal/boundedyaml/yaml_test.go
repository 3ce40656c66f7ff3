package boundedyaml_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kubernetes "sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/lab/memory"
)

var update = flag.Bool("update", false, "update testdata/hostile")

const hostile = "testdata/hostile"

// attacks are documents that expand to much more than their source, and the expected errors. The documents are in
// testdata/hostile.
var attacks = []struct{ name, text, want string }{
	{"long-string", "a: &a " + strings.Repeat("x", 96<<10) + "\nb:\n" + strings.Repeat("- *a\n", 1000),
		`line 21, column 3: alias \*a stands for 98306 bytes; the document has 103314 bytes, but would have more than 1915168 with its aliases written out; ` +
			`expected at most 16 times as many, and no more than 67108864: use fewer aliases, or shorten what they stand for`},
	{"laughs", laughs(9), `line 6, column 24: alias \*e stands for \d+ bytes; .*`},
	{"few-laughs", laughs(6), `line 6, column 20: alias \*e stands for \d+ bytes; .*`},
	{"long-key", "? &a " + strings.Repeat("x", 1000) + "\n: 1\nb:\n" + strings.Repeat("- ? *a\n  : 1\n", 5000), `line \d+, column 5: alias \*a stands for 1002 bytes; .*`},
	{"mappings", "a: &a {" + strings.Repeat("x: y, ", 1) + strings.Repeat("k: "+strings.Repeat("v", 40000), 1) + "}\nb: [" + strings.Repeat("*a, ", 100) + "]\n", `line 2, column \d+: alias \*a stands for 40\d\d\d bytes; .*`},
	{"merges", "a: &a {" + numbered("k%d: 0, ", 1000) + "}\nb:\n" + strings.Repeat("- <<: *a\n", 200), `line \d+, column 7: alias \*a stands for \d+ bytes; .*`},
	{"merged-lists", "a: &a {" + numbered("k%d: 0, ", 1000) + "}\nb:\n  <<: [" + strings.Repeat("*a, ", 400) + "]\n", `line 3, column \d+: alias \*a stands for \d+ bytes; .*`},
	{"nested-sequences", "a: " + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "\n", `line 1, column 503: the document nests more than 500 levels deep; expected fewer`},
	{"nested-mappings", strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600), `line 1, column 2497: the document nests more than 500 levels deep; expected fewer`},
	{"nested-too-deep", strings.Repeat("[", 20000), `yaml: exceeded max depth of 10000`},
	{"cycle", "a: &a\n- *a\n", `yaml: anchor 'a' value contains itself`},
	{"cyclic-merge", "a: &a\n  <<: *a\n", `yaml: anchor 'a' value contains itself`},
	{"utf-16", "\xff\xfea\x00:\x00 \x00b\x00", `the document is in UTF-16; expected UTF-8: save it in that encoding`},
	{"infinite", "a: .inf\n", `json: unsupported value: \+Inf`},
	{"null-key", "~: a\n", `unsupported map key of type: null`},
	{"mapping-key", "? {a: b}\n: c\n", `yaml: invalid map key: map\[.*`},
}

// laughs is a "billion laughs" document: nine levels of lists that repeat the previous list ten times.
func laughs(levels int) string {
	text := "a: &a lol\n"
	for i := 1; i < levels; i++ {
		text += fmt.Sprintf("%c: &%[1]c [%s]\n", 'a'+i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", 'a'+i-1), 10), ", "))
	}
	return text
}

func numbered(format string, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// readers are all ways to read a document.
var readers = map[string]func([]byte) error{
	"ToJSON":             func(source []byte) error { _, err := boundedyaml.ToJSON(source); return err },
	"Unmarshal":          func(source []byte) error { return boundedyaml.Unmarshal(source, new(any)) },
	"Unmarshal a struct": func(source []byte) error { return boundedyaml.Unmarshal(source, new(struct{ A any })) },
	"UnmarshalStrict":    func(source []byte) error { return boundedyaml.UnmarshalStrict(source, new(map[string]any)) },
}

// TestHostile: every way to read a document rejects one that expands to much more than its source, with a position,
// and without using much memory.
func TestHostile(t *testing.T) {
	for _, tc := range attacks {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(hostile, tc.name+".yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o644))
			}
			source, err := os.ReadFile(file)
			if err != nil || string(source) != tc.text {
				t.Fatalf("%s is not what this test makes (%v); run it with -update", file, err)
			}
			for name, read := range readers {
				var err error
				used := memory.Allocated(func() { err = read(source) })
				if err == nil || !regexp.MustCompile(`^(error converting YAML to JSON: )?`+tc.want+`$`).MatchString(err.Error()) {
					t.Errorf("%s: got  %v\nwant %s", name, err, tc.want)
				}
				if used > 64<<20 {
					t.Errorf("%s allocated %d MiB; want less than 64", name, used>>20)
				}
			}
			used := memory.Allocated(func() { _, _ = boundedyaml.Parse(source); boundedyaml.IsSingle(source) })
			if used > 64<<20 {
				t.Errorf("parsing allocated %d MiB; want less than 64", used>>20)
			}
		})
	}
}

// TestManyValues: a source that would take much memory is rejected before it is parsed.
func TestManyValues(t *testing.T) {
	for name, source := range map[string][]byte{
		"flow":        []byte("[" + strings.Repeat("a,", 8<<20) + "a]"),
		"block":       []byte(strings.Repeat("- a\n", 4<<20)),
		"empty":       []byte("[" + strings.Repeat("[],", 4<<20) + "]"),
		"mappings":    []byte("{" + strings.Repeat("a: b,", 4<<20) + "}"),
		"other lines": []byte(strings.Repeat("- a\u2028", 4<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			for reader, read := range readers {
				var refusal *boundedyaml.Refusal
				used := memory.Allocated(func() { refusal, _ = errors.AsType[*boundedyaml.Refusal](read(source)) })
				if refusal == nil || !strings.Contains(refusal.Message, "places at which a value may begin; expected at most 524288") || used > 1<<20 {
					t.Errorf("%s: got %v with %d KiB of memory", reader, refusal, used>>10)
				}
			}
			_, err := boundedyaml.Parse(source)
			assert.Truef(t, errors.As(err, new(*boundedyaml.Refusal)), "Parse accepts it: %v", err)
			_, err = boundedyaml.FromJSON(source)
			assert.Truef(t, errors.As(err, new(*boundedyaml.Refusal)), "FromJSON accepts it: %v", err)
		})
	}
}

// TestOrdinaryAnchors: the usual uses of aliases keep working.
func TestOrdinaryAnchors(t *testing.T) {
	labels := "labels: &labels {app: tide, tier: \"1\"}\n"
	schema := "schema: &schema\n  properties:\n" + numbered("    field%d: {type: string, description: \"what it is for\"}\n", 500)
	for name, source := range map[string]string{
		"labels in many places":   labels + strings.Repeat("---\n", 0) + "all:\n" + strings.Repeat("- metadata: {labels: *labels}\n", 500),
		"a schema ten times":      schema + "all: [" + strings.Repeat("*schema, ", 10) + "]\n",
		"a base that is merged":   "base: &base {a: 1, b: {c: d}}\nall:\n- <<: *base\n  a: 2\n- {<<: [*base, *base], e: f}\n",
		"an alias for a key":      "a: &a b\n*a : c\n",
		"a short text many times": "a: &a yes\nb: [" + strings.Repeat("*a, ", 1000) + "]\n",
	} {
		t.Run(name, func(t *testing.T) { same(t, []byte(source)) })
	}
}

// same compares a document as JSON with the library's result.
func same(t *testing.T, source []byte) {
	t.Helper()
	got, err := boundedyaml.ToJSON(source)
	if err != nil {
		t.Errorf("%q: %v", source, err)
		return
	}
	if limit := boundedyaml.Longest(len(source)); len(got) > limit+16*1024 && len(got) > 7*len(source) {
		t.Errorf("%d bytes become %d; want at most %d", len(source), len(got), limit)
	}
	for range 100 { // of the keys 1 and "1", which are the same in JSON, the library picks one at random
		want, err := kubernetes.YAMLToJSON(source)
		require.NoErrorf(t, err, "%q becomes %s, but the library fails", source, got)
		var ours, theirs any
		require.NoErrorf(t, json.Unmarshal(got, &ours), "%q becomes %s", source, got)
		require.NoError(t, json.Unmarshal(want, &theirs))
		if reflect.DeepEqual(theirs, ours) {
			return
		}
		if !bytes.ContainsAny(source, "0123456789.eyonE") {
			break
		}
	}
	want, _ := kubernetes.YAMLToJSON(source)
	t.Errorf("%q becomes\n%s\nbut by the library\n%s", source, got, want)
}

// FuzzAliases compares documents with aliases with the library's result: they must be equal unless they expand too
// much.
func FuzzAliases(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(hostile, "*.yaml"))
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(source)
	}
	for _, source := range []string{"a: &a b\nc: *a\n", "a: &a [1, 0x10, 1e3, .5, yes, ~, 010]\nb: [*a, *a]\n", "a: &a {b: c}\nd:\n  <<: *a\n  e: f\n", "a: &a {<<: {b: c}}\nd: [*a]\n",
		"1: a\n\"1\": b\n", "true: a\n1.5: b\n0x10: c\n", "a: !!binary aGk=\nb: !!str 5\nc: !!int \"5\"\nd: !thing x\n", "a: 1e999\n", "a: 99999999999999999999\nb: -9223372036854775808\nc: 18446744073709551615\n",
		"\ufeffa: b\n", "a: \"\\u2028\\0<&>\"\n", "a: 2001-01-01\nb: 2001-01-01T00:00:00Z\n", "&a a: *a\n", "*a", "a: &a\nb: *a\n",
		strings.Repeat("[", 24) + "a" + strings.Repeat("]", 24)} {
		f.Add([]byte(source))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		if _, err := boundedyaml.ToJSON(source); err == nil {
			same(t, source)
			return
		}
		assert.Errorf(t, boundedyaml.Unmarshal(source, new(any)), "Unmarshal reads %q, but ToJSON does not", source)
	})
}

// TestReadFile: files that never end are rejected.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link, large, fine := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "large"), filepath.Join(dir, "fine")
	require.NoError(t, syscall.Mkfifo(pipe, 0o644))
	require.NoError(t, os.Symlink("/dev/zero", link))
	for file, size := range map[string]int64{large: 32<<20 + 1, fine: 3} {
		require.NoError(t, os.WriteFile(file, nil, 0o644))
		require.NoError(t, os.Truncate(file, size))
	}
	for file, want := range map[string]string{
		pipe:  pipe + " is not a regular file (prw-r--r--); expected files and folders only: remove it",
		link:  link + " is not a regular file (Dcrw-rw-rw-); expected files and folders only: remove it",
		large: large + " is longer than 32 MiB; expected a shorter file",
	} {
		_, err := boundedyaml.ReadFile(file)
		assert.EqualError(t, err, want, file)
	}
	for file, want := range map[string]string{
		"pipe":  pipe + " is not a regular file (prw-r--r--); expected files and folders only: remove it",
		"link":  link + " is a symbolic link to /dev/zero, which is missing or outside of " + dir + "; expected files and folders only: put the file there itself",
		"large": large + " is longer than 32 MiB; expected a shorter file",
	} {
		_, err := boundedyaml.ReadFileIn(dir, file)
		assert.EqualErrorf(t, err, want, "%s in a folder", file)
	}
	if data, err := boundedyaml.ReadFileIn(dir, "fine"); err != nil || len(data) != 3 {
		t.Errorf("in a folder: got %d bytes and error %v", len(data), err)
	}
	if data, err := boundedyaml.ReadFile(fine); err != nil || len(data) != 3 {
		t.Errorf("got %d bytes and error %v", len(data), err)
	}
}
