package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/berth-csi/berth/test/cluster/crds"
	"github.com/berth-csi/berth/test/cluster/realnode"
	"github.com/berth-csi/berth/test/cluster/tools"
)

// startedKeeper is a keeper, in the process that started it.
type startedKeeper struct {
	cmd    *exec.Cmd
	orders io.WriteCloser // see detachOrder
}

// endLimit is the time limit for a keeper to stop its cluster.
const endLimit = time.Minute

// launch starts a keeper and waits until its cluster is ready. An empty dir means a temporary one.
func launch(ctx context.Context, dir string, options Options, report func(tools.Progress)) (*Cluster, error) {
	if _, asked := os.LookupEnv(keeperVariable); asked {
		return nil, errors.New("this process was started as a cluster's keeper, but does something else: call cluster.Init first thing in main, or cluster.Main in TestMain")
	}
	if report == nil {
		report = func(tools.Progress) {}
	}
	job, err := newAssignment(ctx, dir, options, report)
	if err != nil {
		return nil, err
	}
	keeper, output, err := startKeeper(job)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { keeper.orders.Close() })()
	ready, err := awaitReady(output, report)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster: %w", err), keeper.end())
	}
	c, err := open(*ready)
	if err != nil {
		return nil, errors.Join(err, keeper.end())
	}
	c.started = keeper
	return c, nil
}

// newAssignment prepares what would take a keeper too long.
func newAssignment(ctx context.Context, dir string, options Options, report func(tools.Progress)) (assignment, error) {
	built, err := tools.Ensure(ctx, report)
	if err != nil {
		return assignment{}, err
	}
	job := assignment{Dir: dir, Tools: built, Options: options}
	if options.RealNodes > 0 {
		if err := realnode.Missing(); err != nil {
			return assignment{}, err
		}
		if job.NodePrograms, err = nodePrograms(ctx, report); err != nil {
			return assignment{}, err
		}
	}
	sets := []crds.Set{crds.OpenShift}
	if options.OLM {
		sets = append(sets, crds.OLM)
	}
	for _, set := range sets {
		file, err := set.Ensure(ctx)
		if err != nil {
			return assignment{}, err
		}
		job.CRDs = append(job.CRDs, file)
	}
	return job, nil
}

// startKeeper starts this program as a keeper, and returns its output.
func startKeeper(job assignment) (*startedKeeper, io.Reader, error) {
	order, err := json.Marshal(job)
	if err != nil {
		return nil, nil, err
	}
	// Not os.Executable: the program's file may have been removed, as "go run" does.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "(cluster keeper)"}
	cmd.Env = append(os.Environ(), keeperVariable+"="+string(order))
	cmd.Stderr = os.Stderr
	// Its own session: an interrupt from the keyboard is for the starter, which then stops the keeper.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start a cluster's keeper: %w", err)
	}
	return &startedKeeper{cmd: cmd, orders: orders}, output, nil
}

// awaitReady passes on a keeper's progress until its cluster is ready or has failed.
func awaitReady(output io.Reader, report func(tools.Progress)) (*state, error) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n message
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return nil, fmt.Errorf("expected a message of the cluster's keeper, found %q: call cluster.Init first thing in main, or cluster.Main in TestMain", lines.Text())
		}
		switch {
		case n.Progress != nil:
			report(*n.Progress)
		case n.Ready != nil:
			return n.Ready, nil
		case n.Error != "":
			return nil, errors.New(n.Error)
		}
	}
	return nil, errors.Join(lines.Err(), errors.New("the cluster's keeper ended without a message"))
}

// detach lets the cluster keep running after this process.
func (k *startedKeeper) detach() error {
	if _, err := io.WriteString(k.orders, detachOrder); err != nil {
		return fmt.Errorf("detach the cluster's keeper: %w", err)
	}
	k.orders.Close()
	return k.cmd.Process.Release()
}

// end stops the cluster and waits until nothing of it is left.
func (k *startedKeeper) end() error {
	k.orders.Close()
	late := time.AfterFunc(endLimit, func() { k.cmd.Process.Kill() })
	defer late.Stop()
	err := k.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // it has reported why
	}
	return err
}
