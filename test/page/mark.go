package page

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A mark is a comment in a page, in the line before a block of commands. It names the tests that run these, or the
// reason why no test does:
//
//	<!-- test: test/e2e TestSwitchByHand TestSwitchWithKilledOperator -->
//	<!-- test without output: migrate/move TestFollowPage -->
//	<!-- no test: needs a cluster in a cloud -->
//
// Commands "without output" print nothing, or output for a console that differs in each cluster; the page does not show
// it. Readers of the site and of GitHub do not see marks.
type mark struct {
	pkg   string // the folder with the tests
	tests []string
	none  string // why no test runs it
	quiet bool   // without output
}

// comment matches a line with a mark. hack/site leaves out such lines.
var comment = regexp.MustCompile(`^ *<!-- (test|test without output|no test): (.+) -->$`)

// markIn returns the mark in a line of a page, or nil.
func markIn(line string) *mark {
	is := comment.FindStringSubmatch(line)
	if is == nil {
		return nil
	}
	if is[1] == "no test" {
		return &mark{none: is[2]}
	}
	words := strings.Fields(is[2])
	return &mark{pkg: words[0], tests: words[1:], quiet: is[1] == "test without output"}
}

// names reports whether a mark names a test, which may be part of another one.
func (m *mark) names(test string) bool {
	whole, _, _ := strings.Cut(test, "/")
	return m != nil && slices.Contains(m.tests, whole)
}

// BlocksFor returns the blocks below a heading of a page whose marks name the running test.
func BlocksFor(t testing.TB, root, page, below string) []Block {
	t.Helper()
	return slices.DeleteFunc(Blocks(t, pathOf(root, page), below, strings.NewReplacer()), func(b Block) bool { return !b.mark.names(t.Name()) })
}

// pathOf returns the path of a page.
func pathOf(root, page string) string {
	if page == "README.md" {
		return filepath.Join(root, page)
	}
	return filepath.Join(root, "docs", page)
}
