package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), nearest.Hint(args[0], names))
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
	if args := cmd.Flags().Args(); isGroup(cmd) && len(args) > 0 {
		err = takesCommand(cmd, args)
	} else if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		err = fmt.Errorf("%w%s", err, nearest.Hint("--"+unknown.GetSpecifiedName(), flagsOf(cmd)))
	}
	return &usageError{command: cmd.CommandPath(), err: err}
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
