package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// show has the commands write to the standard streams. Messages, on standard error, are a line each, and all that
// they are put together from is text. Reports, on standard output, escape what comes from outside by their formats,
// and data, such as what "berth catalog render" writes, goes to files and programs byte by byte; a terminal gets
// nothing but visible characters of either.
func show(root *cobra.Command) {
	root.SetErr(stream{escape.Messages(os.Stderr), os.Stderr})
	root.SetOut(os.Stdout)
	if isTerminal(os.Stdout) {
		root.SetOut(stream{escape.Screen(os.Stdout, findings.Sequences...), os.Stdout})
	}
}

// stream is a writer to a file, by way of another writer.
type stream struct {
	io.Writer
	file *os.File
}

// fileOf returns the file that a writer writes to, or nil.
func fileOf(w io.Writer) *os.File {
	switch w := w.(type) {
	case stream:
		return w.file
	case *os.File:
		return w
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	file := fileOf(w)
	return file != nil && term.IsTerminal(int(file.Fd()))
}

// columnsOf returns the width of a terminal, or 0 for any other writer.
func columnsOf(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	columns, _, err := term.GetSize(int(fileOf(w).Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// printError prints an error, in a line for each fault, and with --verbose the wrapped errors.
func printError(cmd *cobra.Command, fault error) {
	unhush(cmd.Root())
	lines := faults.Lines(fault)
	lines[0] = cmd.Root().Name() + ": " + lines[0]
	for _, line := range lines {
		cmd.PrintErrln(line)
	}
	if verbosity(cmd) >= causesLevel {
		printCauses(cmd, fault)
	}
}

// notValid is the error for a catalog that cannot be worked with, for all that is wrong with it.
func notValid(dir string, found error) error {
	return &faults.Listed{Head: fmt.Sprintf("%s is not a valid catalog:", dir), Faults: found}
}
