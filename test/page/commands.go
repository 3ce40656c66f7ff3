package page

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Block is a block of code of a page.
type Block struct {
	Heading  string // such as "## Install"
	Language string // yaml, json; "" for shell commands
	Text     string
	Output   string // the commands' output, if the page shows it in a block of the language "text" right after them

	mark           *mark  // nil if the page has none
	indent         string // of its lines in the page
	line           int    // the number of the line that begins it
	end, outputEnd int    // the numbers of the lines that end it and its output
}

// ofCommands reports whether a block has shell commands.
func (b Block) ofCommands() bool { return b.Language == "" || b.Language == "sh" }

var (
	heading = regexp.MustCompile(`^#+ `)
	fence   = regexp.MustCompile("^( *)```([a-z]*)$")
)

// Blocks returns the blocks below a heading of a page, such as "## Install", up to the next heading of any level. names replaces names
// in the blocks.
func Blocks(t testing.TB, path, below string, names *strings.Replacer) (found []Block) {
	t.Helper()
	headings, blocks := read(t, path, names)
	require.Containsf(t, headings, below, "%s lacks the heading %q", path, below)
	return slices.DeleteFunc(blocks, func(b Block) bool { return b.Heading != below })
}

// read returns the headings of a page, and all of its blocks except the outputs of other blocks. names replaces names in the blocks.
func read(t testing.TB, path string, names *strings.Replacer) (headings []string, blocks []Block) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var block *Block
	below, follows := "", false // whether there is no text between this line and the block before
	var last *mark              // of the line before
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		text := strings.TrimSuffix(line, "\n")
		at := fence.FindStringSubmatch(text)
		switch {
		case block != nil && at != nil:
			block.Text, block.end = names.Replace(block.Text), number
			if before := len(blocks) - 1; follows && block.Language == "text" && blocks[before].ofCommands() && blocks[before].Output == "" {
				blocks[before].Output, blocks[before].outputEnd = block.Text, number
			} else {
				blocks = append(blocks, *block)
			}
			block, follows = nil, true
		case block != nil:
			block.Text += strings.TrimPrefix(line, block.indent)
		case at != nil:
			block = &Block{Heading: below, Language: at[2], mark: last, indent: at[1], line: number}
		case heading.MatchString(text):
			below, follows = text, false
			headings = append(headings, text)
		case text != "":
			follows = false
		}
		last = markIn(text)
	}
	return headings, blocks
}

// Commands returns the only block of shell commands below a heading of a page. names replaces names in the block.
func Commands(t testing.TB, path, below string, names *strings.Replacer) string {
	t.Helper()
	var commands []string
	for _, block := range Blocks(t, path, below, names) {
		if block.ofCommands() {
			commands = append(commands, block.Text)
		}
	}
	require.Lenf(t, commands, 1, "%s has %d blocks of commands below %q, want one", path, len(commands), below)
	return commands[0]
}
