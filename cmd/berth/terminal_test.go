package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestTerminalShowsVisibleCharacters has data go to a terminal and to a file: the latter gets it byte by byte.
func TestTerminalShowsVisibleCharacters(t *testing.T) {
	dir := t.TempDir()
	const hostile = "\u202eebit\u200b"
	catalog := fmt.Sprintf(`{"schema":"olm.package","name":"tide","defaultChannel":"stable","description":"%s"}`, hostile)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(catalog), 0o644))
	for _, test := range []struct{ format, file, terminal string }{
		{"json", `"description": "` + hostile + `"`, `"description": "\u202eebit\u200b"`},
		{"yaml", "description: " + hostile, `description: \u202eebit\u200b`},
	} {
		file, err := exec.Command("berth", "catalog", "render", dir, "-o", test.format).Output()
		assert.NoError(t, err)
		assert.Containsf(t, string(file), test.file, "%s to a file", test.format)
		terminal := onTerminal(t, 80, exec.Command("berth", "catalog", "render", dir, "-o", test.format))
		assert.Containsf(t, terminal, test.terminal, "%s to a terminal", test.format)
	}
}

// TestListFitsTerminal: no line of a list is wider than the terminal, unless it must not be cut.
func TestListFitsTerminal(t *testing.T) {
	const columns = 100
	list := func(options ...string) (widest int, shown string) {
		t.Helper()
		shown = onTerminal(t, columns, exec.Command("berth", append([]string{"catalog", "list", "bundles", "../../catalog/community"}, options...)...))
		for line := range strings.Lines(shown) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimSpace(line)))
		}
		return widest, shown
	}
	if widest, shown := list(); widest > columns || !strings.Contains(shown, "…") {
		t.Errorf("%d columns, want %d at most, and a value that is cut:\n%s", widest, columns, shown)
	}
	if widest, shown := list("-o", "wide"); widest <= columns || strings.Contains(shown, "…") {
		t.Errorf("wide: %d columns, want more than %d, and no value that is cut:\n%s", widest, columns, shown)
	}
}

// TestListKeepsNames: on a terminal of the usual width, no list cuts what the next command needs.
func TestListKeepsNames(t *testing.T) {
	for kind, names := range map[string][]string{
		"packages": {"aws-ebs-csi-driver-operator", "manila-csi-driver-operator", "stable"},
		"channels": {"aws-ebs-csi-driver-operator", "staging", "aws-ebs-csi-driver-operator.v5.0.0"},
		"bundles":  {"aws-ebs-csi-driver-operator", "staging", "aws-ebs-csi-driver-operator.v5.0.0"},
	} {
		shown := onTerminal(t, 80, exec.Command("berth", "catalog", "list", kind, "../../catalog/community"))
		for _, name := range names {
			assert.Regexp(t, `(^|\s)`+regexp.QuoteMeta(name)+`\s`, shown, kind)
		}
	}
}

// TestFindingsFitTerminal: every command that finds something shows it on a terminal in the same way: wrapped, each below its place, and
// with colours. In a file, a finding is a line.
func TestFindingsFitTerminal(t *testing.T) {
	const columns = 60
	t.Chdir(t.TempDir())
	var repository, bundles []string
	for _, version := range []string{"1.0.0", "1.1.0"} {
		for in, dirs := range map[string]*[]string{"operators/tide": &repository, "b": &bundles} {
			*dirs = append(*dirs, filepath.Join(in, version))
			catalogs.WriteBundle(t, filepath.Join(in, version), "tide", version, "")
		}
	}
	catalogs.Write(t, "c/catalog.yaml", "schema: olm.package\nname: tide\ndefaultChannel: stable\n")
	catalogs.Write(t, "tide.yaml", "schema: berth.template\npackage: tide\nbundles:\n- folder: b/1.0.0\nchannels:\n- name: stable\n  entries:\n  - version: 1.2.0\n")
	for _, test := range []struct {
		args []string
		find string // a place and the severity
	}{
		{[]string{"bundle", "validate", "b/1.0.0"}, "b/1.0.0/manifests/csv.yaml:4:1\n  \x1b[33mwarning\x1b[0m: "},
		{[]string{"check", "."}, "operators/tide/1.0.0/manifests/csv.yaml:4:1\n  \x1b[33mwarning\x1b[0m: "},
		{[]string{"catalog", "validate", "c"}, "c/catalog.yaml:1\n  \x1b[31merror\x1b[0m: "},
		{append([]string{"catalog", "build", "--output-dir", "out"}, bundles...), "b/1.1.0/manifests/csv.yaml:4:1\n  \x1b[31merror\x1b[0m: "},
		{[]string{"catalog", "build", "--output-dir", "out", "tide.yaml"}, "tide.yaml:8:5\n  \x1b[31merror\x1b[0m: "},
	} {
		t.Run(strings.Join(test.args[:2], "_"), func(t *testing.T) {
			shown, _ := shownOn(t, columns, exec.Command("berth", test.args...)) // with any exit code
			shown = strings.ReplaceAll(shown, "\r\n", "\n")
			assert.Contains(t, shown, test.find)
			written, _ := exec.Command("berth", test.args...).CombinedOutput()
			first, rest, _ := strings.Cut(test.find, "\n")
			severity := strings.NewReplacer("\x1b[33m", "", "\x1b[31m", "", "\x1b[0m", "").Replace(strings.TrimSpace(rest))
			assert.Contains(t, string(written), first+": "+severity+" ")
			assert.NotContains(t, string(written), "\x1b")
		})
	}
}

// onTerminal returns what a command writes to a terminal of some columns. The command must not fail.
func onTerminal(t *testing.T, columns uint16, cmd *exec.Cmd) string {
	t.Helper()
	shown, err := shownOn(t, columns, cmd)
	if err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, shown)
	}
	return shown
}

// shownOn returns what a command writes to a terminal of some columns, and how it has ended.
func shownOn(t *testing.T, columns uint16, cmd *exec.Cmd) (string, error) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	cmd.Stdout, cmd.Stderr = terminal, terminal
	err = cmd.Start()
	_ = terminal.Close() // it is the command's now
	require.NoError(t, err)
	shown, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, unix.EIO) { // which is how it ends
		t.Fatal(err)
	}
	return string(shown), cmd.Wait()
}

func TestLinesOfErrors(t *testing.T) {
	one, two := errors.New("one\nforged"), errors.New("two")
	joined := errors.Join(one, two)
	for _, test := range []struct {
		err  error
		want []string
	}{
		{one, []string{"one\nforged"}},
		{joined, []string{"one\nforged", "two"}},
		{fmt.Errorf("before %w after", joined), []string{"before one\nforged", "two after"}},
		{fmt.Errorf("before %w after", one), []string{"before one\nforged after"}},
		{fmt.Errorf("%w and %w", one, two), []string{"one\nforged and two"}},
		{&faults.Listed{Head: "head\nforged", Faults: errors.Join(joined, two)}, []string{"head\nforged", "one\nforged", "two", "two"}},
		{&usageError{err: joined}, []string{"one\nforged", "two"}},
	} {
		assert.Emptyf(t, cmp.Diff(test.want, faults.Lines(test.err)), "%q (-want +got)", test.err)
	}
}
