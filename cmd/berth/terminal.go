package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

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

// palette returns the colours of marks, which are for terminals only.
func palette(w io.Writer) findings.Palette {
	if isTerminal(w) && os.Getenv("NO_COLOR") == "" {
		return findings.Colours
	}
	return findings.Plain
}

// Work that takes longer than this is worth a word.
const progressDelay = time.Second

// startProgress shows on a terminal that the command is still working, and for how long, once it has taken a second. It
// returns the function that ends that and clears the line. Where w is not a terminal it says nothing.
func startProgress(w io.Writer, what string) (stop func()) {
	return startLive(w, func(taken time.Duration) string {
		return fmt.Sprintf("%s … %ds", cut(escape.Line(what), columnsOf(w)), int(taken.Seconds()))
	})
}

// startLive is like startProgress, for a line that says more than that.
func startLive(w io.Writer, say func(taken time.Duration) string) (stop func()) {
	if !isTerminal(w) {
		return func() {}
	}
	file := fileOf(w)
	ended, cleared := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cleared)
		showProgress(file, say, time.Now(), ended)
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-cleared
	})
}

// cut shortens a text so that it fits into a line of the terminal with the time: a wrapped line could not be cleared.
func cut(what string, columns int) string {
	const time = len("… 9999s") // of which the ellipsis is three bytes, and one column
	if said := []rune(what); columns > time && len(said) > columns-time {
		return string(said[:columns-time])
	}
	return what
}

// showProgress says each second how far work is that has begun, until it has ended.
func showProgress(w io.Writer, say func(taken time.Duration) string, begin time.Time, ended <-chan struct{}) {
	tick := time.NewTicker(progressDelay)
	defer tick.Stop()
	for shown := false; ; shown = true {
		select {
		case <-ended:
			if shown {
				fmt.Fprint(w, "\r\x1b[K")
			}
			return
		case now := <-tick.C:
			fmt.Fprintf(w, "\r\x1b[K%s", say(now.Sub(begin)))
		}
	}
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
