package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// show makes the commands write to the standard streams. Each message on standard error is one line, whatever text it quotes. On standard
// output, reports escape foreign text as their formats require, and data, such as the output of "berth catalog render", reaches files and
// programs unchanged. If standard output is a terminal, it gets only visible characters of either.
func show(root *cobra.Command) {
	root.SetErr(stream{escape.Messages(os.Stderr), os.Stderr})
	root.SetOut(os.Stdout)
	if isTerminal(os.Stdout) {
		root.SetOut(stream{escape.Screen(os.Stdout, findings.Sequences...), os.Stdout})
	}
}

// stream writes to a file through another writer.
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

// writeFindings writes a report to standard output. Text for a terminal is wrapped and has colours.
func writeFindings(cmd *cobra.Command, report findings.Report, format string) error {
	out := cmd.OutOrStdout()
	if columns := columnsOf(out); format == findings.Text && columns > 0 {
		return report.WriteTerminal(out, columns, os.Getenv("NO_COLOR") == "")
	}
	return report.Write(out, format)
}

// printFindings prints findings to standard error, wrapped and with colours if that is a terminal. With --quiet, it prints only errors.
func printFindings(cmd *cobra.Command, found []*findings.Finding) {
	w := cmd.ErrOrStderr()
	if quiet, is := w.(hushed); is {
		w, found = quiet.errors, slices.DeleteFunc(slices.Clone(found), func(f *findings.Finding) bool { return f.Severity != findings.Error })
	}
	if columns := columnsOf(w); columns > 0 {
		// Nothing can be done about a terminal that takes no text.
		_ = findings.Report{Findings: found}.WriteTerminal(escape.Screen(fileOf(w), findings.Sequences...), columns, os.Getenv("NO_COLOR") == "")
		return
	}
	for _, f := range found {
		fmt.Fprintln(w, f.String())
	}
}

// progressDelay is the time after which progress is shown, and then the time between updates.
const progressDelay = time.Second

// startProgress shows on a terminal that the command is still working, and for how long, if that takes more than a second. The returned
// function ends this and clears the line. If w is not a terminal, startProgress shows nothing.
func startProgress(w io.Writer, what string) (stop func()) {
	return startLive(w, func(taken time.Duration) string {
		return fmt.Sprintf("%s … %ds", cut(escape.Line(what), columnsOf(w)), int(taken.Seconds()))
	})
}

// startLive is like startProgress, but the text of the line comes from say.
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

// cut shortens a text so that it and the time fit into one line of the terminal: a wrapped line could not be cleared.
func cut(what string, columns int) string {
	const time = len("… 9999s") // the ellipsis takes three bytes, and one column
	if said := []rune(what); columns > time && len(said) > columns-time {
		return string(said[:columns-time])
	}
	return what
}

// showProgress prints the text from say every second, until the work has ended. begin is when the work began.
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

// notValid returns the error for a catalog that cannot be used, with all its faults.
func notValid(dir string, found error) error {
	return &faults.Listed{Head: fmt.Sprintf("%s is not a valid catalog:", dir), Faults: found}
}
