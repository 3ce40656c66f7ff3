package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Annotations of flags, for the help.
const (
	// placeholderAnnotation marks a flag with the placeholder for its value.
	placeholderAnnotation = "berth/placeholder"
	// connectionAnnotation marks flags that only "berth options" lists.
	connectionAnnotation = "berth/connection"
)

// helpColumns is the maximum width of help, so that it fits into a window beside another one, and into a quotation in an issue.
const helpColumns = 100

// addHelp makes a command and its subcommands write their help with the functions below: Cobra's functions do not wrap it.
func addHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := reflow(cmp.Or(cmd.Long, cmd.Short), helpColumns) + "\n"
		if cmd.Runnable() || cmd.HasSubCommands() {
			text += "\n" + usage(cmd)
		}
		cmd.Print(text)
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usage(cmd))
		return err
	})
	describeFlags(root)
}

// describeFlags moves the placeholders of all flags from their descriptions to an annotation, because completion shows the descriptions. A
// word between backquotes is the placeholder. If it is in lower case, the word also stays in the description.
func describeFlags(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(describeFlag)
	}
	for _, sub := range cmd.Commands() {
		describeFlags(sub)
	}
}

func describeFlag(f *pflag.Flag) {
	before, rest, found := strings.Cut(f.Usage, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !found || !closed {
		return
	}
	f.Usage = before + name + after
	if name != strings.ToLower(name) {
		f.Usage = before + strings.TrimPrefix(after, " ")
	}
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[placeholderAnnotation] = []string{strings.ToUpper(name)}
	if name != strings.ToLower(name) {
		f.Annotations[placeholderAnnotation] = []string{name}
	}
}

// usage returns how a command is called, with examples, subcommands and flags.
func usage(cmd *cobra.Command) string {
	var text strings.Builder
	text.WriteString("Usage:\n")
	if cmd.Runnable() && !isGroup(cmd) {
		fmt.Fprintf(&text, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "  %s COMMAND\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&text, "\nAliases:\n  %s\n", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	text.WriteString(commandLists(cmd))
	if flags := flagList(cmd.LocalFlags(), isListed); flags != "" {
		fmt.Fprintf(&text, "\nFlags:\n%s", flags)
	}
	if flags := flagList(cmd.InheritedFlags(), isListed); flags != "" {
		fmt.Fprintf(&text, "\nGlobal flags:\n%s", flags)
	}
	if hasConnection(cmd) {
		fmt.Fprintf(&text, "\n\"%s options\" lists kubectl's other flags for the connection, such as --as, --token and --server.\n", cmd.Root().CommandPath())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\nUse \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
	return text.String()
}

// commandLists lists the subcommands: commands that do something, commands that only have subcommands, and help topics.
func commandLists(cmd *cobra.Command) string {
	var all strings.Builder
	for _, list := range []struct {
		title string
		holds func(*cobra.Command) bool
	}{
		{"Commands", func(c *cobra.Command) bool { return c.IsAvailableCommand() && !isGroup(c) }},
		{"Groups of commands", func(c *cobra.Command) bool { return c.IsAvailableCommand() && isGroup(c) }},
		{"Help on", (*cobra.Command).IsAdditionalHelpTopicCommand},
	} {
		var rows strings.Builder
		for _, sub := range cmd.Commands() {
			if list.holds(sub) {
				rows.WriteString(row("  "+sub.Name(), sub.NamePadding()+3, sub.Short))
			}
		}
		if rows.Len() > 0 {
			fmt.Fprintf(&all, "\n%s:\n%s", list.title, rows.String())
		}
	}
	return all.String()
}

// isListed reports whether the help of a command lists a flag.
func isListed(f *pflag.Flag) bool { return !f.Hidden && !isConnection(f) }

// isConnection reports whether "berth options" lists a flag.
func isConnection(f *pflag.Flag) bool { return f.Annotations[connectionAnnotation] != nil }

func hasConnection(cmd *cobra.Command) (has bool) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { has = has || isConnection(f) })
	return has
}

// widestFlag is the maximum width of the column of flags. The description of a wider flag begins on the next line.
const widestFlag = 36

// flagList lists flags with their descriptions, wrapped.
func flagList(flags *pflag.FlagSet, listed func(*pflag.Flag) bool) string {
	width := 0
	each := func(do func(name string, f *pflag.Flag)) {
		flags.VisitAll(func(f *pflag.Flag) {
			if listed(f) {
				do(flagName(f), f)
			}
		})
	}
	each(func(name string, _ *pflag.Flag) {
		if length := utf8.RuneCountInString(name); length <= widestFlag {
			width = max(width, length)
		}
	})
	var text strings.Builder
	each(func(name string, f *pflag.Flag) { text.WriteString(row(name, width+3, f.Usage+defaultOf(f))) })
	return text.String()
}

// flagName returns a flag as it is written on a command line.
func flagName(f *pflag.Flag) string {
	name := "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	switch placeholder := f.Annotations[placeholderAnnotation]; {
	case len(placeholder) == 0:
		return name
	case f.NoOptDefVal != "":
		return name + "[=" + placeholder[0] + "]"
	default:
		return name + " " + placeholder[0]
	}
}

// defaultOf returns the default of a flag, in parentheses, unless it is the zero value.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// row returns a row of a table with two columns. It wraps the second one.
func row(first string, column int, second string) string {
	if second == "" {
		return first + "\n"
	}
	text, indent := first, strings.Repeat(" ", column)
	if used := utf8.RuneCountInString(first); used < column {
		text += indent[used:]
	} else {
		text += "\n" + indent
	}
	return text + strings.Join(wrap(second, helpColumns-column), "\n"+indent) + "\n"
}

// reflow wraps the paragraphs of a text. Indented lines, such as lists and examples of files, stay as they are.
func reflow(text string, columns int) string {
	var lines []string
	paragraph := ""
	flush := func() {
		if paragraph != "" {
			lines = append(lines, wrap(paragraph, columns)...)
		}
		paragraph = ""
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if line == "" || strings.HasPrefix(line, " ") {
			flush()
			lines = append(lines, line)
			continue
		}
		paragraph = strings.TrimPrefix(paragraph+" "+line, " ")
	}
	flush()
	return strings.Join(lines, "\n")
}

// wrap breaks a text between words, into lines of at most the given number of columns.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// newOptionsCommand returns the help on the flags for the connection to a cluster, under the name that it has in kubectl.
func newOptionsCommand() *cobra.Command {
	scratch := &cobra.Command{}
	(&clusterFlags{}).addConnection(scratch)
	scratch.Flags().VisitAll(describeFlag)
	return &cobra.Command{
		Use:   "options",
		Short: "the flags for the connection to a cluster, which are kubectl's",
		Long: "Commands that talk to a cluster have kubectl's flags for the connection. Without them, they use the current context of the kubeconfig file, " +
			"as kubectl does.\n\n" + flagList(scratch.Flags(), func(*pflag.Flag) bool { return true }),
	}
}

// newExitCodesCommand returns the help on exit codes.
func newExitCodesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "what the exit codes mean",
		Long:  "All commands have the same exit codes. The help of a command says when it ends with 1." + listExitCodes(exitCodes),
	}
}
