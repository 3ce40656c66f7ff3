package page

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// follower names the tests that follow a block of a page, or the reason why no test does.
type follower struct {
	pkg   string // the folder with the tests
	tests []string
	none  string
	quiet bool // the page does not show the commands' output
}

func by(pkg string, tests ...string) follower { return follower{pkg: pkg, tests: tests} }

// printingNothing returns a follower of a block whose commands print nothing, or output for a console that differs in
// each cluster.
func (f follower) printingNothing() follower {
	f.quiet = true
	return f
}

func nobody(why string) follower { return follower{none: why} }

// includes reports whether a test, which may be part of another one, is among these.
func (f follower) includes(test string) bool {
	whole, _, _ := strings.Cut(test, "/")
	return slices.Contains(f.tests, whole)
}

// BlocksFor returns the blocks below a heading of a page that the running test follows, as the table of followers says.
func BlocksFor(t testing.TB, root, page, below string) (blocks []Block) {
	t.Helper()
	for i, block := range commandBlocks(Blocks(t, pathOf(root, page), below, strings.NewReplacer())) {
		if all := followers[page][below]; i < len(all) && all[i].includes(t.Name()) {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// mustFollow fails the test unless the table of followers says that it follows the number-th block of commands below a heading.
func mustFollow(t testing.TB, page, below string, number int) {
	t.Helper()
	if all := followers[page][below]; number >= len(all) || !all[number].includes(t.Name()) {
		t.Fatalf("test/page/followers.go does not say that %s follows block %d of commands of %s, %s: add it", t.Name(), number, page, below)
	}
}

// commandBlocks are the blocks of shell commands among blocks.
func commandBlocks(blocks []Block) (found []Block) {
	for _, block := range blocks {
		if block.ofCommands() {
			found = append(found, block)
		}
	}
	return found
}

// pathOf is where a page is.
func pathOf(root, page string) string {
	if page == "README.md" {
		return filepath.Join(root, page)
	}
	return filepath.Join(root, "docs", page)
}
