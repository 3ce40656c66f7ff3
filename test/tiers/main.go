// Command tiers runs the project's tests in tiers, by the questions that they answer:
//
//   - "first" is make test: all tests that take little time, and one journey for each promise of Berth,
//   - "second" is make test-all: other tests of failures,
//   - "third" is make test-long: all other tests,
//   - "lab" is make test-lab: the tests of the lab itself,
//   - "race" is make test-race: the packages that need no cluster, and three journeys, with Go's race detector; of the
//     command line, only the tests that do several things at once.
//
// It shows how far it is and about how long is left, and ends with the number of tests that passed, failed and were
// skipped. The tests' events are in bin/test-TIER.json, as go test -json writes them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "tiers: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 || !isTier(args[0]) {
		return fmt.Errorf("want one of %s; got %q", strings.Join(tiers, ", "), args)
	}
	tier := args[0]
	root, err := tools.Root()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	packages, err := listPackages(ctx)
	if err != nil {
		return err
	}
	labChanged := labHasChanged(ctx)
	jobs, err := plan(tier, packages, labChanged)
	if err != nil {
		return err
	}
	began := time.Now()
	printer := progress.New(os.Stdout, began)
	err = printer.Stage("tests", func() (string, error) {
		return "compiled", tools.CompileTests(ctx, printer.Progress, flags(tier), jobPackages(jobs)...)
	})
	if err != nil {
		return err
	}
	events := filepath.Join("bin", "test-"+tier+".json")
	report, err := runAll(ctx, tier, jobs, events)
	if err != nil {
		return err
	}
	fmt.Print(report.slowest())
	if tier == first {
		rest, err := restOf(root, labChanged)
		if err != nil {
			return err
		}
		fmt.Println("\n" + rest)
	}
	fmt.Printf("\n%s in %s, compiling included\n", tier+" tier", time.Since(began).Round(time.Second))
	fmt.Printf("%d passed, %d failed, %d skipped\n", report.passed, report.failed, report.skipped)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if report.failed > 0 || len(report.broken) > 0 {
		return errors.New(report.complaint())
	}
	return nil
}
