// Command report prints each attack, and each failure in a hand-over, with its outcome in a run of the tests. It reads
// the output of `go test -json` from a file. It fails if the run did not try an attack or did not stop it, or does not
// show the outcome of a failure. In a plain clone, which lacks the requirements of most tests of failures, it says that
// they were not tried.
package main

import (
	"fmt"
	"os"

	"github.com/berth-csi/berth/test/openshift45"
	"github.com/berth-csi/berth/test/trials"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "report: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the file that go test -json wrote; got %d arguments", len(args))
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	tried, err := trials.Read(file, openshift45.Missing)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return tried.Report(os.Stdout)
}
