package page

import (
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// TestAllPages: the page of all pages leads to each other one.
func TestAllPages(t *testing.T) {
	text, err := os.ReadFile(allPages)
	require.NoError(t, err)
	for _, path := range inFolders(t) {
		name, err := filepath.Rel(filepath.Dir(allPages), path)
		require.NoError(t, err)
		assert.Containsf(t, string(text), "]("+filepath.ToSlash(name)+")", "%s does not lead to %s", allPages, name)
	}
}

// TestEachBlockHasAMark: each block of shell commands of each page has a mark, which says which tests run it, or why none does. Nothing
// else has one.
func TestEachBlockHasAMark(t *testing.T) {
	for _, path := range pages(t) {
		_, blocks := read(t, path, strings.NewReplacer())
		marked := 0
		for _, b := range blocks {
			switch {
			case b.ofCommands() && b.mark == nil:
				t.Errorf("%s:%d: no mark before these commands: want a line <!-- test: FOLDER TEST --> with a test that runs them, or <!-- no test: WHY -->", path, b.line)
			case b.mark != nil && !b.ofCommands():
				t.Errorf("%s:%d: a mark before what are no commands", path, b.line)
			case b.mark != nil:
				marked++
			}
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		marks := 0
		for line := range strings.Lines(string(text)) {
			if markIn(strings.TrimSuffix(line, "\n")) != nil {
				marks++
			}
		}
		assert.Equalf(t, marked, marks, "%s: marks, and those in the line before a block of commands", path)
	}
}

// TestEachBlockShowsWhatItPrints: a page shows the output of its commands, as a test has seen it.
func TestEachBlockShowsWhatItPrints(t *testing.T) {
	for path, b := range tested(t) {
		if shows := b.Output != "" || len(b.Transcript()) > 0; shows == b.mark.quiet {
			t.Errorf("%s:%d: it shows what commands print: %t; its mark says that they have no output: %t. Run its test with -update-pages", path, b.line, shows, b.mark.quiet)
		}
	}
}

// TestMarkedTestsExist: each test that a mark names exists, and its package names the page and the heading.
func TestMarkedTestsExist(t *testing.T) {
	packages := map[string]string{}
	for path, b := range tested(t) {
		if _, read := packages[b.mark.pkg]; !read {
			packages[b.mark.pkg] = tests(t, b.mark.pkg)
		}
		source := packages[b.mark.pkg]
		assert.NotEmptyf(t, b.mark.tests, "%s:%d: the mark names no test", path, b.line)
		for _, test := range b.mark.tests {
			assert.Containsf(t, source, "\nfunc "+test+"(t *testing.T)", "%s:%d: there is no %s in %s", path, b.line, test, b.mark.pkg)
		}
		if !strings.Contains(source, strconv.Quote(b.Heading)) || !strings.Contains(source, filepath.Base(path)+`"`) {
			t.Errorf("%s:%d: no test in %s names both the page and the heading %q", path, b.line, b.mark.pkg, b.Heading)
		}
	}
}

// TestNamedTestsExist: each test that a page names is one, or the beginning of one, as the go command takes it. Code in Go is an example.
func TestNamedTestsExist(t *testing.T) {
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		all.Write(source)
		return err
	}))
	named := regexp.MustCompile(`\bTest[A-Z]\w+`)
	examples := regexp.MustCompile("(?ms)^```go\n.*?^```$")
	for _, path := range pages(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range named.FindAllString(examples.ReplaceAllString(string(text), ""), -1) {
			assert.Containsf(t, all.String(), "\nfunc "+name, "%s names %s, which is no test", path, name)
		}
	}
}

// allPages is the page that leads to all others. GitHub shows it below the list of the folder's files.
const allPages = root + "/docs/README.md"

// inFolders are the paths of the pages in the folders of docs/.
func inFolders(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(pathOf(root, "*/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages, "found no pages")
	return pages
}

// pages are the paths of all pages.
func pages(t *testing.T) []string {
	t.Helper()
	return append(inFolders(t), allPages, pathOf(root, "README.md"))
}

// tested are the blocks that tests run, with the paths of their pages.
func tested(t *testing.T) iter.Seq2[string, Block] {
	return func(yield func(string, Block) bool) {
		for _, path := range pages(t) {
			_, blocks := read(t, path, strings.NewReplacer())
			for _, b := range blocks {
				if b.mark != nil && b.mark.none == "" && !yield(path, b) {
					return
				}
			}
		}
	}
}

// tests returns the source of the tests of a package.
func tests(t *testing.T, pkg string) (source string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	require.NoErrorf(t, err, "tests of %s", pkg)
	assert.NotEmptyf(t, files, "tests of %s", pkg)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		source += string(content)
	}
	return source
}
