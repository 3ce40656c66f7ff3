package main

import (
	"io"

	"github.com/spf13/cobra"
)

// hushed is the standard error of a command with --quiet. Nothing is written to it but what went wrong.
type hushed struct {
	io.Writer
	errors io.Writer
}

func addQuiet(root *cobra.Command) {
	root.PersistentFlags().BoolP("quiet", "q", false, "write no progress, no messages and no warnings to standard error, only errors")
}

// hush keeps a command with --quiet from writing messages.
func hush(cmd *cobra.Command) {
	root := cmd.Root()
	if quiet, err := root.PersistentFlags().GetBool("quiet"); quiet && err == nil {
		root.SetErr(hushed{io.Discard, root.ErrOrStderr()})
	}
}

// unhush has the errors of a command written, whatever its flags are.
func unhush(root *cobra.Command) {
	if quiet, is := root.ErrOrStderr().(hushed); is {
		root.SetErr(quiet.errors)
	}
}
