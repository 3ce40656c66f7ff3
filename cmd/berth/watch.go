package main

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// watchEvery is the time between two looks at the cluster of a command with --watch.
const watchEvery = 5 * time.Second

// watchFlag is the flag --watch, for commands that show something that may still change.
type watchFlag struct{ on bool }

// add adds the flag. until says in its help when watching ends.
func (f *watchFlag) add(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVarP(&f.on, "watch", "w", false, "show it again whenever it has changed, until "+until)
}

// run shows once what look writes or, with --watch, shows it again whenever it has changed, until look returns that nothing is awaited. It
// returns the error of the last look. If look fails after the first report, run tries again: the API servers may be restarting.
func (f *watchFlag) run(cmd *cobra.Command, look func(io.Writer) (awaited bool, err error)) error {
	var shown []byte
	for {
		var report bytes.Buffer
		awaited, err := look(&report)
		switch {
		case report.Len() == 0 && err != nil && shown == nil:
			return err
		case report.Len() == 0 && err != nil:
			cmd.PrintErrf("warning: %v; looking again\n", explain(err))
			awaited = true
		case !bytes.Equal(report.Bytes(), shown):
			if err := showAgain(cmd.OutOrStdout(), shown, report.Bytes()); err != nil {
				return err
			}
			shown = report.Bytes()
		}
		if !f.on || !awaited {
			return err
		}
		select {
		case <-cmd.Context().Done():
			return errInterrupted
		case <-time.After(watchEvery):
		}
	}
}

// showAgain writes a report. If it is not the first one and is not JSON, an empty line comes before it.
func showAgain(w io.Writer, before, report []byte) error {
	if before != nil && !bytes.HasPrefix(report, []byte("{")) {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	_, err := w.Write(report)
	return err
}
