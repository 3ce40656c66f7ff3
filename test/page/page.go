// Package page generates parts of documentation pages from the code, such as tables of test results, reads the objects that a page tells
// its readers to create, and follows the instructions of pages. Marks in the pages say which test does that for each block of commands.
package page

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Part is the part of a page between two lines, which the page has once.
type Part struct {
	File       string
	Begin, End string
	// Update is the command that writes the part.
	Update string
}

// Check fails the test unless the part of the page is the given text. With update, it writes the text there.
func (p Part) Check(t testing.TB, want string, update bool) {
	t.Helper()
	content, err := os.ReadFile(p.File)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(content), p.Begin+"\n")
	shown, after, ended := strings.Cut(rest, p.End+"\n")
	if !found || !ended {
		t.Fatalf("%s lacks the lines %q and %q", p.File, p.Begin, p.End)
	}
	if update {
		require.NoError(t, os.WriteFile(p.File, []byte(before+p.Begin+"\n"+want+p.End+"\n"+after), 0o644))
		return
	}
	assert.Emptyf(t, cmp.Diff(shown, want), "%s is out of date; run %s (- page, + code)", p.File, p.Update)
}
