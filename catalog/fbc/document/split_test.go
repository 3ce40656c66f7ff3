package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/test/catalogs"
)

// cut cuts a file, reading so many bytes at a time, and returns the sections and faults as text.
func cut(t *testing.T, data []byte, chunk int) (all []string) {
	t.Helper()
	s := splitter{window: newWindow(bytes.NewReader(data), nil), path: "f"}
	s.chunk = chunk
	s.fault = func(f *findings.Finding) { all = append(all, f.String()) }
	s.yield = func(s Section) bool {
		if source := data[s.Offset : s.Offset+int64(s.Length)]; !bytes.Equal(source, s.Source) {
			t.Errorf("at offset %d stands %q, not %q", s.Offset, source, s.Source)
		}
		assert.EqualValuesf(t, s.Line, 1+bytes.Count(data[:s.Offset], newline), "%q stands on line", s.Source)
		all = append(all, fmt.Sprintf("%d json=%v %q", s.Line, s.JSON, s.Source))
		return true
	}
	s.split()
	return all
}

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		want       []string
	}{
		{"nothing", "", nil},
		{"white space", " \n", []string{`1 json=false " \n"`}},
		{"yaml", "a: 1\n---\nb: 2\n", []string{`1 json=false "a: 1\n"`, `3 json=false "b: 2\n"`}},
		{"leading separator", "--- # one\na: 1\n---\n", []string{`2 json=false "a: 1\n"`}},
		{"separator without a line's end", "a: 1\n---", []string{`1 json=false "a: 1\n"`}},
		{"separator in a text", "a: |\n  ---\n", []string{`1 json=false "a: |\n  ---\n"`}},
		{"two separators", "a: 1\n---\n---\nb: 2\n", []string{`1 json=false "a: 1\n"`, `4 json=false "b: 2\n"`}},
		{"three separators", "a: 1\n---\n---\n---\nb: 2\n", []string{`1 json=false "a: 1\n"`, `3 json=false "---\n"`, `5 json=false "b: 2\n"`}},
		{"torn", "a: 1\n--- b: 2\nc: 3\n---\nd: 4\n", []string{`1 json=false "a: 1\n"`,
			`f:2:5: error: malformed YAML: "b: 2" follows the separator --- on its line; only a comment may (syntax)`, `5 json=false "d: 4\n"`}},
		{"torn at the beginning", "---a\nb: 1\n", []string{`f:1:4: error: malformed YAML: "a" follows the separator --- on its line; only a comment may (syntax)`}},
		{"json", " {}\n{\"a\": \"}\\\"{\"}[]", []string{`1 json=true "{}"`, `2 json=true "{\"a\": \"}\\\"{\"}"`,
			`f:2: error: the document is not an object, as all documents of a catalog are (field)`}},
		{"json and then separators", "{}\n---\n{}\n", []string{`1 json=true "{}"`, `3 json=false "{}\n"`}},
		{"separators come too late", "{}{}\n---\n{}\n", []string{`1 json=true "{}"`, `1 json=true "{}"`,
			`f:2:2: error: malformed JSON: invalid character '-' in numeric literal (in the document that begins at line 2) (syntax)`, `3 json=true "{}"`}},
		{"flow mappings", "{a: 1}\n---\n{b: 2}\n", []string{`1 json=false "{a: 1}\n"`, `3 json=false "{b: 2}\n"`}},
		{"backslashes", `{"a": "\\"}{"b": "\\\""}`, []string{`1 json=true "{\"a\": \"\\\\\"}"`, `1 json=true "{\"b\": \"\\\\\\\"\"}"`}},
		{"no end", "{}{}{\"a\": [", []string{`1 json=true "{}"`, `1 json=true "{}"`,
			`f:1:5: error: malformed JSON: the document that begins here has no end; a bracket or a quote is not closed (syntax)`}},
		{"no end, and another", "{}{}\n{\"a\": 1\n{}\n", []string{`1 json=true "{}"`, `1 json=true "{}"`,
			`f:3:1: error: malformed JSON: invalid character '{' after object key:value pair (in the document that begins at line 2) (syntax)`,
			`3 json=true "{}"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Empty(t, cmp.Diff(tc.want, cut(t, []byte(tc.data), usualChunk)), "-want +got")
		})
	}
}

// TestMalformedObjects: to find the end of a malformed object takes the time for all that follows it, so only some are looked for.
func TestMalformedObjects(t *testing.T) {
	const valid, count = "{}\n{}\n", 1000
	for name, data := range map[string]string{
		"without an end":  valid + strings.Repeat("{x\n", count),
		"in each other":   valid + strings.Repeat("{x\n", count) + strings.Repeat("}", count),
		"after a comma":   valid + strings.Repeat("{\"a\": 1,\n", count) + strings.Repeat("}", count),
		"after the first": "{x\n" + valid + strings.Repeat("{x\n", count) + "}",
	} {
		documents, faults := Parse("f", []byte(data))
		assert.Len(t, documents, 2, name)
		assert.LessOrEqual(t, len(faults), MaxFaults+2, name)
		assert.Contains(t, faults[len(faults)-1].Message, "neither the document that begins here nor what follows it was read", name)
	}
}

func TestSplitEndsWhenTold(t *testing.T) {
	for _, data := range []string{"{}{}{}", "{}\n---\n{}\n---\n{}", "a: 1\n---\nb: 2\n---\nc: 3\n"} {
		count := 0
		s := Splitter{Yield: func(Section) bool { count++; return count < 2 }, Fault: func(f *findings.Finding) { t.Error(f) }}
		err := s.Split("f", strings.NewReader(data))
		assert.NoError(t, err)
		assert.Equalf(t, 2, count, "sections of %q", data)
	}
}

func TestSplitFails(t *testing.T) {
	broken := errors.New("broken")
	for _, begin := range []string{"", "a: 1\n", `{}{}{"a": `} {
		file := io.MultiReader(strings.NewReader(begin), iotest.ErrReader(broken))
		s := Splitter{Yield: func(Section) bool { return true }, Fault: func(f *findings.Finding) { t.Errorf("%q: %v", begin, f) }}
		err := s.Split("f", file)
		assert.ErrorIs(t, err, broken, begin)
	}
}

// TestSize reads files of a gigabyte in which a document does not end. They are read only up to the greatest length of a
// document.
func TestSize(t *testing.T) {
	const text = "{\"a\": 1}{\"b\": 2}\n"
	for _, tc := range []struct{ name, begin, filler, want string }{
		{"yaml", "---\na: 1\n---\n", "b: |\n  more\n", "f:4: error: the document that begins here is longer than 32 MiB; neither it nor what follows it was read (document-size)"},
		{"json", text + "{\"c\": [", "{\"more\": [1,2,3]},\n", "f:2: error: the document that begins here is longer than 32 MiB; neither it nor what follows it was read (document-size)"},
		{"a quote is missing", text + "{\"c\": \"", "more ", "f:2: error: the document that begins here is longer than 32 MiB; neither it nor what follows it was read (document-size)"},
		{"a bracket is missing", text + "{\"c\": 5\n", "{\"more\": [1,2,3]}\n", "f:3:1: error: malformed JSON: invalid character '{' after object key:value pair (in the document that begins at line 2) (syntax)"},
		{"zeros", "", "\x00", "f:1: error: the document that begins here is longer than 32 MiB; neither it nor what follows it was read (document-size)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := &endless{rest: tc.begin, filler: tc.filler, left: 1 << 30}
			var faults []string
			count := 0
			s := Splitter{Yield: func(Section) bool { count++; return count < 10 }, Fault: func(f *findings.Finding) { faults = append(faults, f.String()) }}
			err := s.Split("f", file)
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff([]string{tc.want}, faults), "-want +got")
			if read := 1<<30 - file.left; read > maxLength+2*usualChunk {
				t.Errorf("%d MiB were read", read>>20)
			}
		})
	}
}

// endless is a file of so many bytes: the rest, then fillers.
type endless struct {
	rest, filler string
	left         int
}

func (e *endless) Read(into []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	if e.rest == "" {
		e.rest = strings.Repeat(e.filler, 1+1<<20/len(e.filler))
	}
	n := copy(into, e.rest)
	e.rest = e.rest[n:]
	e.left -= n
	return n, nil
}

// FuzzSplit splits a file that is read in usual chunks, and again byte by byte. The results must be equal.
func FuzzSplit(f *testing.F) {
	for _, file := range catalogs.Files(f, "../../rules/testdata/validate") {
		f.Add(file.Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		assert.Empty(t, cmp.Diff(cut(t, data, usualChunk), cut(t, data, 1)), "-usual +byte by byte")
	})
}
