// Command play runs Berth's demonstrations on local clusters that stay up for inspection: the main job, the switch from
// the community's operator to the certified one, the drivers of a platform, the hand-over of a driver from OLM to the
// cluster storage operator, a file system from its creation to its removal, CSI migration, and the move of an operator
// to OLM v1 and back. Command demo builds its programs and runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/progress"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

func main() {
	cluster.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// script is the work of a demonstration: run in the process that the user sees, and cloud in the process that plays the cloud.
type script struct {
	folder     string                             // below .demo
	run, cloud func(context.Context, *demo) error // cloud may be nil
}

// demos returns the demonstrations.
func demos() map[string]script {
	all := map[string]script{
		"up":            {"", runMainJob, runCloud},
		"switch":        {"switch", runSwitch, runCloud},
		"adopt":         {"adopt", runAdopt, runAdoptionCloud},
		"aws":           {"aws", runAWS, runAWSCloud},
		"csi-migration": {"csi-migration", runCSIMigration, nil},
		"move":          {"move", runMove, nil},
	}
	for _, name := range testbed.Platforms() {
		p := onPlatform{name}
		all["platform "+name] = script{"platform-" + name, p.run, p.runCloud}
	}
	return all
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want two arguments, the demonstration (or \"down\") and the time when it began; got %q", args)
	}
	began, err := time.Parse(time.RFC3339Nano, args[1])
	if err != nil {
		return err
	}
	root, err := tools.Root()
	if err != nil {
		return err
	}
	printer := progress.New(os.Stdout, began)
	home := filepath.Join(root, ".demo")
	if args[0] == "down" {
		return down(ctx, printer, home)
	}
	name, isCloud := strings.CutPrefix(args[0], cloudOf)
	if platform, ok := strings.CutPrefix(name, "platform "); ok {
		if _, err := testbed.PlatformOf(platform); err != nil {
			return err
		}
	}
	chosen, found := demos()[name]
	if !found {
		return fmt.Errorf("there is no demonstration %q, want one of %q", name, slices.Sorted(maps.Keys(demos())))
	}
	driver, err := registry.Get(driverName)
	if err != nil {
		return err
	}
	d := &demo{name: name, root: root, home: home, folder: filepath.Join(home, chosen.folder), printer: printer, driver: driver}
	if isCloud && chosen.cloud != nil {
		return chosen.cloud(ctx, d)
	}
	return chosen.run(ctx, d)
}

// down stops the clusters of all demonstrations.
func down(ctx context.Context, printer *progress.Printer, home string) error {
	ctx, cancel := context.WithTimeout(ctx, stageLimit)
	defer cancel()
	return printer.Stage("local clusters", func() (string, error) {
		result := "were not up"
		for _, p := range demos() {
			err := cluster.Stop(ctx, clusterFolder(filepath.Join(home, p.folder)))
			switch {
			case err == nil:
				result = "are down"
			case !errors.Is(err, cluster.ErrNotRunning):
				return "", err
			}
		}
		return result, nil
	})
}
