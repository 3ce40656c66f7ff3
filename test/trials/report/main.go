// Command report prints each attack, and each failure in a hand-over, with its outcome in a run of the tests. It reads what
// `go test -json` wrote to a file. It fails if the run did not try an attack or did not stop it, and if the run does not show what comes
// of a failure. In a plain clone, which lacks what most tests of failures need, it says that they were not tried.
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
