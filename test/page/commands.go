package page

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Commands returns the shell commands of the only such block below a heading of a page, such as "## Install", with other names.
func Commands(t testing.TB, path, heading string, names *strings.Replacer) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s lacks the heading %q", path, heading)
	}
	if next := regexp.MustCompile(fmt.Sprintf("(?m)^#{1,%d} ", strings.Index(heading, " "))).FindStringIndex(section); next != nil {
		section = section[:next[0]]
	}
	parts := strings.Split("\n"+section, "\n```\n")
	if len(parts) != 3 {
		t.Fatalf("%s has %d blocks of commands below %q, want one", path, len(parts)/2, heading)
	}
	return names.Replace(parts[1])
}
