package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/internal/findings/nearest"
)

// takes returns a check of the arguments of a command by their names: [NAME] is optional, and NAME... is one or more.
func takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for i, name := range names {
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

// isGroup reports whether a command is only there for its subcommands, and takes no arguments.
func isGroup(cmd *cobra.Command) bool {
	return cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ")
}

// checkFlags returns the fault of a command line whose flags cannot be parsed. If it has an unknown subcommand, that is the fault,
// because the flags may be the subcommand's.
func checkFlags(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); isGroup(cmd) && len(args) > 0 {
		err = takesCommand(cmd, args)
	}
	return &usageError{command: cmd.CommandPath(), err: err}
}
