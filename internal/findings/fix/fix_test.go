package fix

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
)

func finding(file string, edits ...findings.Edit) *findings.Finding {
	return (&findings.Finding{File: file, Rule: "rule", Message: "message"}).Fixed(edits)
}

// one returns the only corrected file for findings about a text.
func one(t *testing.T, text string, found ...*findings.Finding) File {
	t.Helper()
	files, err := Of(found, func(string) ([]byte, error) { return []byte(text), nil })
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// TestOf: all edits are applied together, an edit of two findings once, and only the first of overlapping ones.
func TestOf(t *testing.T) {
	const text = "a: 1\nb: 2\n"
	for name, tc := range map[string]struct {
		found []*findings.Finding
		want  string
		fixed int
	}{
		"in any order":       {[]*findings.Finding{finding("f", findings.Edit{Offset: 8, Old: "2", New: "3"}), finding("f", findings.Edit{Offset: 3, Old: "1", New: `"1"`})}, "a: \"1\"\nb: 3\n", 2},
		"the same twice":     {[]*findings.Finding{finding("f", findings.Edit{Offset: 8, Old: "2", New: "3"}), finding("f", findings.Edit{Offset: 8, Old: "2", New: "3"})}, "a: 1\nb: 3\n", 2},
		"overlapping":        {[]*findings.Finding{finding("f", findings.Edit{Offset: 5, Old: "b: 2", New: "c: 2"}), finding("f", findings.Edit{Offset: 8, Old: "2", New: "3"})}, "a: 1\nc: 2\n", 1},
		"an insertion":       {[]*findings.Finding{finding("f", findings.Edit{Offset: 5, New: "x: 0\n"})}, "a: 1\nx: 0\nb: 2\n", 1},
		"nothing mechanical": {[]*findings.Finding{finding("f"), finding("f", findings.Edit{Offset: 8, Old: "2", New: "3"})}, "a: 1\nb: 3\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := one(t, text, tc.found...)
			if string(f.After) != tc.want || len(f.Fixed) != tc.fixed {
				t.Errorf("got %q, and %d are corrected; want %q and %d", f.After, len(f.Fixed), tc.want, tc.fixed)
			}
		})
	}
	_, err := Of([]*findings.Finding{finding("f", findings.Edit{Offset: 8, Old: "3", New: "4"})}, func(string) ([]byte, error) { return []byte(text), nil })
	assert.ErrorContains(t, err, "f changed while it was being checked", "of a file that changed")
	gone := errors.New("it is gone")
	_, err = Of([]*findings.Finding{finding("f", findings.Edit{})}, func(string) ([]byte, error) { return nil, gone })
	assert.ErrorIs(t, err, gone, "of a file that is gone")
}

// TestDiff: git applies the diff, and the result is the file that Write writes.
func TestDiff(t *testing.T) {
	numbered := func(n int) string {
		var text strings.Builder
		for i := range n {
			text.WriteString("line " + strings.Repeat("x", i%7) + "\n")
		}
		return text.String()
	}
	for name, tc := range map[string]struct {
		before string
		edits  []findings.Edit
	}{
		"the first line":    {"a: 1\n", []findings.Edit{{Offset: 3, Old: "1", New: "2"}}},
		"no end":            {"a: 1\nb: 2", []findings.Edit{{Offset: 8, Old: "2", New: "3"}}},
		"far apart":         {numbered(40), []findings.Edit{{Offset: 0, Old: "line", New: "row"}, {Offset: int64(len(numbered(30))), Old: "line", New: "row"}}},
		"near":              {numbered(40), []findings.Edit{{Offset: int64(len(numbered(10))), Old: "line", New: "row"}, {Offset: int64(len(numbered(15))), Old: "line", New: "row"}}},
		"a line more":       {numbered(10), []findings.Edit{{Offset: int64(len(numbered(5))), New: "new\n"}}},
		"two lines, equal":  {"a\na\na\nb\n", []findings.Edit{{Offset: 2, New: "a\n"}}},
		"ends of Windows":   {"a: 1\r\nb: 2\r\n", []findings.Edit{{Offset: 3, Old: "1", New: "2"}}},
		"of an empty line":  {"\n\n\n", []findings.Edit{{Offset: 1, New: "a"}}},
		"several in a line": {"a: 1, b: 2\n", []findings.Edit{{Offset: 3, Old: "1", New: "2"}, {Offset: 9, Old: "2", New: "3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := one(t, tc.before, finding("sea/file.yaml", tc.edits...))
			t.Chdir(t.TempDir())
			require.NoError(t, os.MkdirAll("sea", 0o755))
			require.NoError(t, os.WriteFile("sea/file.yaml", f.Before, 0o644))
			apply := exec.CommandContext(t.Context(), "git", "apply", "--whitespace=nowarn", "-")
			diff, err := f.Diff()
			require.NoError(t, err)
			apply.Stdin = strings.NewReader(diff)
			if out, err := apply.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, diff)
			}
			got, err := os.ReadFile("sea/file.yaml")
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(string(f.After), string(got)), "-written +applied")
		})
	}
}

// TestDiffIsNoCommand: a diff is refused if a line of it is a command for a CI system, and only then.
func TestDiffIsNoCommand(t *testing.T) {
	for line, refused := range map[string]bool{
		"::error::tide":                        true,
		"   ::set-output name=x::y":            true,
		"\u3000::error::tide":                  true,
		"x: y ##[error]tide":                   true,
		"# ##vso[task.setvariable variable=x]": true,
		"# tide\r::error::tide":                true,
		"x: a::b":                              false,
		"# ## tide [x]\r":                      false,
	} {
		f := one(t, line+"\na: 1\n", finding("sea/file.yaml", findings.Edit{Offset: int64(len(line)) + 4, Old: "1", New: "2"}))
		diff, err := f.Diff()
		if refused && (err == nil || !strings.Contains(err.Error(), "sea/file.yaml: a line near a correction is one that CI systems take for a command") || diff != "") || !refused && err != nil {
			t.Errorf("%q: got %q, %v", line, diff, err)
		}
	}
}

// TestWrite: a file keeps its mode, and neither a link nor a name that leads out of the folder is written.
func TestWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"in", "out"} {
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("a: 1\n"), 0o600))
	}
	require.NoError(t, os.Symlink("../out/file", "in/link"))
	require.NoError(t, os.Symlink("../out", "in/folder"))
	f := one(t, "a: 1\n", finding("in/file", findings.Edit{Offset: 3, Old: "1", New: "2"}))
	require.NoError(t, f.Write("in"))
	text, err := os.ReadFile("in/file")
	if info, errStat := os.Stat("in/file"); err != nil || errStat != nil || string(text) != "a: 2\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("got %q, %v, %v", text, err, errStat)
	}
	if left, err := filepath.Glob("in/*fix"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, name := range []string{"in/link", "in/folder/file", "out/file", "in/gone"} {
		f.Name = name
		assert.Errorf(t, f.Write("in"), "%s was written", name)
	}
	require.NoError(t, errors.Join(os.WriteFile("in/other", nil, 0o600), os.Symlink("other", "in/file.berth-fix")))
	f.Name = "in/file"
	assert.ErrorContains(t, f.Write("in"), "in the way", "through a link to another file of the folder, it wrote")
	if text, err := os.ReadFile("in/other"); err != nil || len(text) > 0 {
		t.Errorf("the other file has %q, %v", text, err)
	}
	if text, err := os.ReadFile("out/file"); err != nil || string(text) != "a: 1\n" {
		t.Errorf("out of the folder: %q, %v", text, err)
	}
}
