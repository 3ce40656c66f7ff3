package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// addOutputFlag gives a command the flag -o, for one of several formats. Another one is a fault of
// the command line.
func addOutputFlag(cmd *cobra.Command, into *string, value string, formats []string) {
	cmd.Flags().StringVarP(into, "output", "o", value, "`FORMAT` of what is printed to standard output: "+strings.Join(formats, ", "))
	completeFlag(cmd, "output", oneOf(formats...))
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, *into) {
			return fmt.Errorf("--output is %q, want one of %s", *into, strings.Join(formats, ", "))
		}
		return check(cmd, args)
	}
}
