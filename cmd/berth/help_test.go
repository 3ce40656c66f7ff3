package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// allCommands returns a command and all commands below it, including commands that Cobra adds when it runs.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	if !cmd.HasParent() {
		cmd.InitDefaultHelpCmd()
		cmd.InitDefaultCompletionCmd()
	}
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

// helpOf returns what --help prints.
func helpOf(cmd *cobra.Command) string {
	var out bytes.Buffer
	cmd.Root().SetOut(&out)
	cmd.InitDefaultHelpFlag()
	cmd.HelpFunc()(cmd, nil)
	return out.String()
}

// TestHelpFits: no line of help is wider than a narrow window.
func TestHelpFits(t *testing.T) {
	for _, cmd := range allCommands(newCommand()) {
		if strings.HasPrefix(cmd.CommandPath(), "berth completion ") {
			continue // Cobra's words, with commands of shells
		}
		for line := range strings.Lines(helpOf(cmd)) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > helpColumns {
				t.Errorf("%s --help has a line of %d columns, want at most %d: %s", cmd.CommandPath(), utf8.RuneCountInString(line), helpColumns, line)
			}
		}
	}
}

// TestDescriptionsSayMore: a flag's description does not say its placeholder again, and a flag with a value has one.
func TestDescriptionsSayMore(t *testing.T) {
	for _, cmd := range allCommands(newCommand()) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			placeholder := f.Annotations[placeholderAnnotation]
			switch {
			case strings.Contains(f.Usage, "`"):
				t.Errorf("%s --%s: the description has a backquote: %s", cmd.CommandPath(), f.Name, f.Usage)
			case f.Hidden || f.Value.Type() == "bool":
			case len(placeholder) == 0:
				t.Errorf("%s --%s: nothing stands for its value", cmd.CommandPath(), f.Name)
			case regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(placeholder[0]) + `(\W|$)`).MatchString(f.Usage):
				t.Errorf("%s --%s says %s twice: %s", cmd.CommandPath(), f.Name, placeholder[0], f.Usage)
			}
		})
	}
}

// TestGroupsSayThatTheyAre: help lists commands that only have subcommands apart, and their usage asks for one.
func TestGroupsSayThatTheyAre(t *testing.T) {
	root := newCommand()
	_, groups, found := strings.Cut(helpOf(root), "\nGroups of commands:\n")
	require.Truef(t, found, "the help lists no groups:\n%s", helpOf(root))
	groups, _, _ = strings.Cut(groups, "\n\n")
	for _, cmd := range root.Commands() {
		listed := regexp.MustCompile(`(?m)^  ` + cmd.Name() + ` `).MatchString(groups)
		assert.Equalf(t, listed, isGroup(cmd), "%s is a group; it is listed as one: %t", cmd.Name(), listed)
		if isGroup(cmd) && !strings.Contains(helpOf(cmd), "Usage:\n  berth "+cmd.Name()+" COMMAND\n\n") && !cmd.HasExample() {
			t.Errorf("the usage of %s is not that of a group:\n%s", cmd.Name(), helpOf(cmd))
		}
	}
}

// TestConnectionFlags: whatever talks to a cluster has kubectl's flags for the connection, and its help says where they are.
func TestConnectionFlags(t *testing.T) {
	options := helpOf(find(t, newCommand(), "options"))
	for _, cmd := range allCommands(newCommand()) {
		if cmd.Flags().Lookup("kubeconfig") == nil {
			continue
		}
		help := helpOf(cmd)
		if !strings.Contains(help, `"berth options" lists kubectl's other flags`) || strings.Contains(help, "--as-group") {
			t.Errorf("%s --help lists flags of the connection, or does not say where they are:\n%s", cmd.CommandPath(), help)
		}
		for _, known := range connectionFlags {
			if cmd.Flags().Lookup(known.name) == nil || !strings.Contains(options, "--"+known.name) {
				t.Errorf("%s has no flag --%s, or berth options does not list it", cmd.CommandPath(), known.name)
			}
		}
	}
}

func find(t *testing.T, root *cobra.Command, name string) *cobra.Command {
	t.Helper()
	cmd, _, err := root.Find([]string{name})
	require.NoError(t, err)
	return cmd
}

func TestReflow(t *testing.T) {
	const text = "one two\nthree four\n\n  a list stays\n  as it is, however long\nfive six seven"
	const want = "one two three\nfour\n\n  a list stays\n  as it is, however long\nfive six seven"
	assert.Equal(t, want, reflow(text, 14))
}
