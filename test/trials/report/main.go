// Command report prints the table of attacks with the outcome of each in a run of the tests. It reads what
// `go test -json` wrote to a file, and fails if the run did not try an attack, or did not stop it.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/berth-csi/berth/test/attacks"
	"github.com/berth-csi/berth/test/results"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "attacks: %v\n", err)
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
	outcomes, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	text, open := attacks.Report(outcomes)
	fmt.Print(text)
	if len(open) > 0 {
		return fmt.Errorf("of %d attacks, %d were not tried or not stopped", len(attacks.All()), len(open))
	}
	fmt.Printf("\n%d attacks tried, each stopped\n", len(attacks.All()))
	return nil
}

// read returns the outcomes by test, as Attack.Test names them.
func read(from io.Reader) (map[string]attacks.Outcome, error) {
	outcomes := map[string]attacks.Outcome{}
	err := results.Each(from, func(event results.Event) {
		test := event.Package + " " + event.Test
		switch {
		case event.Action == "pass" && outcomes[test] == "":
			outcomes[test] = attacks.Stopped
		case event.Action == "fail":
			outcomes[test] = attacks.NotStopped
		}
	})
	return outcomes, err
}
