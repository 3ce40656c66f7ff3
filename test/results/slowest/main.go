// Command slowest prints the packages whose tests took longest, and their slowest test. It reads what `go test -json`
// wrote to a file.
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/berth-csi/berth/test/results"
)

// listed is the number of packages that are printed.
const listed = 10

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "slowest: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("want the file that go test -json wrote; got %d arguments", len(args))
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	packages, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	fmt.Fprintln(out, "The slowest packages:")
	for _, p := range packages[:min(listed, len(packages))] {
		fmt.Fprintf(out, "  %6.1f s  %-28s of which %.1f s %s\n", p.seconds, p.name, p.slowest.seconds, p.slowest.name)
	}
	return nil
}

// timed is a package or a test, and how long it took, in seconds.
type timed struct {
	name    string
	seconds float64
}

type testedPackage struct {
	timed
	slowest timed
}

// read returns the packages with tests, the slowest first.
func read(from io.Reader) ([]testedPackage, error) {
	found := map[string]*testedPackage{}
	err := results.Each(from, func(event results.Event) {
		if event.Action != "pass" && event.Action != "fail" {
			return
		}
		p := found[event.Package]
		if p == nil {
			p = &testedPackage{timed: timed{name: event.Package}}
			found[event.Package] = p
		}
		isTop := event.Test != "" && !strings.Contains(event.Test, "/")
		switch {
		case event.Test == "":
			p.seconds = event.Elapsed
		case isTop && event.Elapsed > p.slowest.seconds:
			p.slowest = timed{event.Test, event.Elapsed}
		}
	})
	var packages []testedPackage
	for _, p := range found {
		packages = append(packages, *p)
	}
	slices.SortFunc(packages, func(a, b testedPackage) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), strings.Compare(a.name, b.name))
	})
	return packages, err
}
