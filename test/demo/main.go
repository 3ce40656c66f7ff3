// Command demo runs one of Berth's demonstrations on a local cluster; see command play. It builds the needed programs,
// which takes minutes the first time, and prints the progress. So that it starts quickly, it imports almost nothing
// itself. `make demo`, `make demo-switch` and the other targets with such names run it, and `make test` uses it to build
// the tools.
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

	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	syscall.Umask(0o022) // other users' processes, such as pods, read some of the files
	root, err := tools.Root()
	if err != nil {
		return err
	}
	d := &demo{folder: filepath.Join(root, ".demo"), began: time.Now()}
	d.printer = progress.New(os.Stdout, d.began)
	what := strings.Join(args, " ")
	if said, err := predict(what, machine.Missing(), os.Geteuid() == 0); err != nil {
		return err
	} else if said != "" {
		fmt.Println(said)
	}
	if strings.HasPrefix(what, "platform ") {
		return d.up(ctx, what)
	}
	switch what {
	case "up", "switch", "adopt", "aws", "csi-migration", "move":
		return d.up(ctx, what)
	case "down":
		return d.down(ctx)
	case "tools":
		if _, err := d.buildControlPlane(ctx); err != nil {
			return err
		}
		return d.buildForTests(ctx)
	}
	return fmt.Errorf("want \"up\", \"switch\", \"adopt\", \"aws\", \"csi-migration\", \"move\", \"platform NAME\", \"down\" or \"tools\"; got %q", args)
}

// predict names the parts that will only be reported as running, because this machine lacks requirements of real nodes, and says how to
// see them. It returns an error if nothing would be left.
func predict(what string, missing error, root bool) (string, error) {
	if missing == nil {
		return "", nil
	}
	see := ""
	if !root {
		// sudo has another PATH, which may lack go.
		see = "; with sudo: " + `sudo env "PATH=$PATH" make ` + target(what)
	}
	switch name, _, _ := strings.Cut(what, " "); name {
	case "up", "switch":
		return fmt.Sprintf("The driver, its sidecars and pods with volumes will only be reported as running: %v%s", missing, see), nil
	case "tools":
		return fmt.Sprintf("Tests that need real nodes will be skipped: %v%s", missing, see), nil
	case "adopt", "aws", "platform":
		return "", fmt.Errorf("this demonstration runs drivers in containers: %w%s", missing, see)
	}
	return "", nil
}

// target returns the target of the Makefile that runs this program with arguments.
func target(what string) string {
	switch name, argument, _ := strings.Cut(what, " "); name {
	case "up":
		return "demo"
	case "tools":
		return "test"
	case "platform":
		return "demo-platform PLATFORM=" + argument
	default:
		return "demo-" + name
	}
}

type demo struct {
	folder  string // of all demonstrations
	began   time.Time
	printer *progress.Printer
}

func (d *demo) up(ctx context.Context, play string) error {
	built, err := d.buildControlPlane(ctx)
	if err != nil {
		return err
	}
	if err := d.buildCommands(ctx); err != nil {
		return err
	}
	// For users without kubectl, and as a plugin for users with it.
	for name, program := range map[string]string{"kubectl": built.Path("kubectl"), "kubectl-berth": filepath.Join("bin", "berth")} {
		if err := link(program, filepath.Join(d.folder, name)); err != nil {
			return err
		}
	}
	return d.play(play)
}

// link makes path a link to target. An earlier version may have linked something else there.
func link(target, path string) error {
	if found, err := os.Readlink(path); err == nil && found == target {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

func (d *demo) down(ctx context.Context) error {
	if _, err := os.Stat(d.folder); errors.Is(err, os.ErrNotExist) {
		return d.printer.Stage("local clusters", func() (string, error) { return "were not up", nil })
	}
	if _, err := os.Stat(d.program()); err != nil {
		if err := d.buildCommands(ctx); err != nil {
			return err
		}
	}
	return d.play("down")
}

func (d *demo) buildControlPlane(ctx context.Context) (built tools.Dir, err error) {
	err = d.printer.Stage("control plane: etcd, Kubernetes, OLM", func() (string, error) {
		built, err = tools.Ensure(ctx, d.printer.Progress)
		return "built", err
	})
	return built, err
}

// buildForTests builds programs that only tests run.
func (d *demo) buildForTests(ctx context.Context) error {
	return d.printer.Stage("opm, promtool", func() (string, error) {
		_, err := tools.OPM(ctx, d.printer.Progress)
		if err == nil {
			_, err = tools.Promtool(ctx, d.printer.Progress)
		}
		return "built", err
	})
}

func (d *demo) buildCommands(ctx context.Context) error {
	return d.printer.Stage("berth, berth-operator, local cluster", func() (string, error) {
		return "built", tools.Build(ctx, filepath.Join(d.folder, "bin"), d.printer.Progress,
			"./test/demo/play", "./cmd/berth", "./cmd/berth-operator", "./lab/user", "./test/community/aws-efs-operator")
	})
}

// play replaces this process by the command play, which is a much larger program.
func (d *demo) play(what string) error {
	return syscall.Exec(d.program(), []string{d.program(), what, d.began.Format(time.RFC3339Nano)}, os.Environ())
}

func (d *demo) program() string { return filepath.Join(d.folder, "bin", "play") }
