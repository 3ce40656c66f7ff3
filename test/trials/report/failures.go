// Command report prints the table of what can go wrong in a hand-over, with the outcome of the tests of each failure. It reads what
// `go test -json` wrote to a file, and fails if the run does not show what comes of a failure. In a plain clone, which lacks what most
// of these tests need, it says that they were not tried.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/berth-csi/berth/test/failures"
	"github.com/berth-csi/berth/test/openshift45"
	"github.com/berth-csi/berth/test/results"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "failures: %v\n", err)
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
	outcomes, plainClone := map[int]failures.Outcome{}, false
	err = results.Each(file, func(event results.Event) {
		failures.Add(outcomes, event.Test, event.Action)
		plainClone = plainClone || strings.Contains(event.Output, openshift45.Missing)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	text, open := failures.Report(outcomes)
	fmt.Printf("\nWhat can go wrong in a hand-over\n%s", text)
	failed := slices.ContainsFunc(open, func(n int) bool { return outcomes[n].Failed > 0 })
	if plainClone && !failed && len(open) > 0 {
		fmt.Printf("\n%d failures not tried: %s\n", len(open), openshift45.Missing)
		return nil
	}
	if len(open) > 0 {
		return fmt.Errorf("of %d failures, the run does not show what comes of %v", len(failures.All), open)
	}
	fmt.Printf("\n%d failures tried, each survived or refused\n", len(failures.All))
	return nil
}
