package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-csi/berth/cmd/internal/opm"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

// takes returns a function that checks the arguments of a command. names are the arguments as help shows them: [NAME] is optional, NAME...
// stands for one or more, and (NAME | NAME) for one of several.
func takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && strings.HasPrefix(name, "(") {
				return fmt.Errorf("an argument is missing: want %s", strings.Join(names, " "))
			}
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return fmt.Errorf("%s is missing: want %s", strings.TrimSuffix(name, "..."), strings.Join(names, " "))
			}
		}
		if len(args) > len(names) && !strings.Contains(names[len(names)-1], "...") {
			return fmt.Errorf("unexpected argument %q: want %s", args[len(names)], strings.Join(names, " "))
		}
		return nil
	}
}

// takesNothing checks that a command gets no arguments.
func takesNothing(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: want none", args[0])
	}
	return nil
}

// takesCommand checks the arguments of a command with subcommands: any argument is an unknown subcommand.
func takesCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names, paths []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
		if slices.Contains(sub.SuggestFor, args[0]) {
			paths = append(paths, sub.CommandPath())
		}
	}
	if len(paths) == 0 {
		paths = commandsNamed(cmd.Root(), args[0])
	}
	hint := nearest.Hint(args[0], names)
	if hint == "" && len(paths) > 0 {
		hint = "; did you mean " + strings.Join(paths, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// commandsNamed returns the full names of the commands with a name below another command. It omits opm's commands, which are for people who
// know them.
func commandsNamed(above *cobra.Command, name string) (paths []string) {
	for _, sub := range above.Commands() {
		switch {
		case !sub.IsAvailableCommand() || sub.Name() == opm.Name:
		case sub.Name() == name || sub.HasAlias(name):
			paths = append(paths, sub.CommandPath())
		default:
			paths = append(paths, commandsNamed(sub, name)...)
		}
	}
	return paths
}

// checkHelp makes the help command refuse commands that do not exist. Cobra would print the help of the nearest parent instead.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Long = "Print the help of a command, as COMMAND --help does."
	help.Args = func(_ *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err == nil && len(rest) == 0 {
			return nil
		}
		return &usageError{command: found.CommandPath(), err: takesCommand(found, rest)}
	}
}

// isGroup reports whether a command only groups subcommands, and takes no arguments itself.
func isGroup(cmd *cobra.Command) bool {
	return cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ")
}

// checkFlags returns the error for a command line whose flags cannot be parsed. If the subcommand is unknown, the error is about the
// subcommand, because the flags may belong to the intended one.
func checkFlags(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch args := cmd.Flags().Args(); {
	case isGroup(cmd) && len(args) > 0:
		err = takesCommand(cmd, args)
	case errors.As(err, &unknown):
		err = fmt.Errorf("%w%s", err, otherFlag(cmd, unknown))
	case errors.As(err, &missing):
		err = fmt.Errorf("--%s needs a value: want %s", missing.GetFlag().Name, wantedValue(missing.GetFlag()))
	case errors.As(err, &invalid) && valuesOf[invalid.GetFlag().Value.Type()] != "":
		err = fmt.Errorf("--%s is %q, want %s", invalid.GetFlag().Name, invalid.GetValue(), valuesOf[invalid.GetFlag().Value.Type()])
	}
	return &usageError{command: cmd.CommandPath(), err: err}
}

// valuesOf says what flags take, by their types in pflag.
var valuesOf = map[string]string{"int": "a whole number", "int64": "a whole number", "bool": "true or false", "duration": "a time with its unit, such as 30s or 5m"}

// wantedValue returns the description of a flag's value.
func wantedValue(flag *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(flag)
	return usage
}

// elsewhere are flags of other tools, and what they are called here.
var elsewhere = map[string]string{"--format": "--output", "--port": "--address", "--only": "--package"}

// needless are flags that a command does without, and what to do instead.
var needless = map[string]string{
	"berth bundle bump --version": "; the next z-version follows from DIR, and `berth bundle generate` takes any version of a driver of this project",
}

// otherFlag returns a hint at the flag that may be meant by an unknown one.
func otherFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	known := flagsOf(cmd)
	if unknown.GetSpecifiedShortnames() != "" {
		return nearest.Hint("--"+unknown.GetSpecifiedName(), known)
	}
	given := "--" + unknown.GetSpecifiedName()
	if hint := needless[cmd.CommandPath()+" "+given]; hint != "" {
		return hint
	}
	if called := elsewhere[given]; slices.Contains(known, called) {
		return "; did you mean " + called + "?"
	}
	return nearest.Hint(given, known)
}

// flagsOf returns the flags of a command that are not hidden, with their dashes.
func flagsOf(cmd *cobra.Command) (names []string) {
	add := func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// requiredFlags makes a missing flag a fault of the command line, like a missing argument.
func requiredFlags(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, required := flag.Annotations[cobra.BashCompOneRequiredFlag]; required && !flag.Changed && err == nil {
			err = fmt.Errorf("--%s is missing: want the %s", flag.Name, strings.TrimSuffix(flag.Usage, " (required)"))
		}
	})
	return err
}
