package main

import (
	"io"

	"github.com/spf13/cobra"
)

// hushed is the standard error of a command with --quiet. It discards messages, and errors holds the writer for errors.
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

// unhush makes a command write to standard error again, even with --quiet, because an error is printed next.
func unhush(root *cobra.Command) {
	if quiet, is := root.ErrOrStderr().(hushed); is {
		root.SetErr(quiet.errors)
	}
}
