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
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// startedKeeper is a keeper, in the process that started it.
type startedKeeper struct {
	cmd    *exec.Cmd
	orders io.WriteCloser // see order and detachOrder

	obeying sync.Mutex     // locked from an order until its answer
	answers *bufio.Scanner // once the cluster is ready
}

// endLimit is the time limit for a keeper to stop its cluster. On a busy machine, that took more than a minute with two real nodes.
const endLimit = 3 * time.Minute

// launch starts a keeper and waits until its cluster is ready. An empty dir means a temporary one.
//
// A starting cluster keeps a processor busy. At most one cluster for each processor starts at a time: more would not be ready earlier, and
// their API servers would exceed the time limits of their own requests.
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
	release, err := tools.Slot(ctx, "starting", runtime.NumCPU(), func() { report(tools.Progress{Phase: "waiting for other clusters to start"}) })
	if err != nil {
		return nil, err
	}
	defer release()
	keeper, output, err := startKeeper(job)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { keeper.orders.Close() })()
	keeper.answers = bufio.NewScanner(output)
	keeper.answers.Buffer(nil, 1<<20)
	ready, err := awaitReady(keeper.answers, report)
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

// newAssignment prepares everything that would take a keeper too long.
func newAssignment(ctx context.Context, dir string, options Options, report func(tools.Progress)) (assignment, error) {
	built, err := tools.Ensure(ctx, report)
	if err != nil {
		return assignment{}, err
	}
	root, err := tools.Root()
	if err != nil {
		return assignment{}, err
	}
	cache, err := tools.CacheFolder("")
	if err != nil {
		return assignment{}, err
	}
	job := assignment{Dir: dir, Tools: built, Options: options, Kept: []string{root, cache}}
	if options.RealNodes > 0 {
		if err := machine.Missing(); err != nil {
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
func awaitReady(lines *bufio.Scanner, report func(tools.Progress)) (*state, error) {
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

// obey gives the keeper an order, and returns when it has obeyed.
func (k *startedKeeper) obey(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	k.obeying.Lock()
	defer k.obeying.Unlock()
	if _, err := k.orders.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("give the cluster's keeper an order: %w", err)
	}
	if !k.answers.Scan() {
		return errors.Join(k.answers.Err(), errors.New("the cluster's keeper ended without an answer"))
	}
	var answer message
	if err := json.Unmarshal(k.answers.Bytes(), &answer); err != nil {
		return fmt.Errorf("read the answer of the cluster's keeper: %w", err)
	}
	if !answer.Obeyed {
		return errors.New(answer.Error)
	}
	return nil
}

// detach lets the cluster keep running after this process.
func (k *startedKeeper) detach() error {
	if _, err := io.WriteString(k.orders, detachOrder); err != nil {
		return fmt.Errorf("detach the cluster's keeper: %w", err)
	}
	k.orders.Close()
	return k.cmd.Process.Release()
}

// end stops the cluster and waits until all of its processes and files are gone.
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
