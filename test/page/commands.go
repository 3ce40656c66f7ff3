package page

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Block is a block of code of a page.
type Block struct {
	Language string // yaml, json; nothing for shell commands
	Text     string
}

var (
	heading = regexp.MustCompile(`^#+ `)
	fence   = regexp.MustCompile("^( *)```([a-z]*)$")
)

// Blocks returns the blocks below a heading of a page, such as "## Install", up to the next heading of any level, with other names.
func Blocks(t testing.TB, path, below string, names *strings.Replacer) (found []Block) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reading, exists := false, false
	var block *Block
	indent := ""
	for line := range strings.Lines(string(content)) {
		text := strings.TrimSuffix(line, "\n")
		at := fence.FindStringSubmatch(text)
		switch {
		case block != nil && at != nil:
			block.Text = names.Replace(block.Text)
			if reading {
				found = append(found, *block)
			}
			block = nil
		case block != nil:
			block.Text += strings.TrimPrefix(line, indent)
		case at != nil:
			block, indent = &Block{Language: at[2]}, at[1]
		case heading.MatchString(text):
			reading = text == below
			exists = exists || reading
		}
	}
	if !exists {
		t.Fatalf("%s lacks the heading %q", path, below)
	}
	return found
}

// Commands returns the shell commands of the only such block below a heading of a page, with other names.
func Commands(t testing.TB, path, below string, names *strings.Replacer) string {
	t.Helper()
	var commands []string
	for _, block := range Blocks(t, path, below, names) {
		if block.Language == "" {
			commands = append(commands, block.Text)
		}
	}
	if len(commands) != 1 {
		t.Fatalf("%s has %d blocks of commands below %q, want one", path, len(commands), below)
	}
	return commands[0]
}
