package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster/tools"
)

// keeperVariable marks a process as a keeper. Its value is the assignment, as JSON.
const keeperVariable = "BERTH_CLUSTER_KEEPER"

// assignment is what a keeper is to keep.
type assignment struct {
	Dir     string    `json:"dir"` // empty: a temporary one
	Tools   tools.Dir `json:"tools"`
	CRDs    []string  `json:"crds"` // files of definitions
	Options Options   `json:"options"`
}

// news is what a keeper tells the process that started it, a line of JSON on standard output each.
// The last is the state of a cluster that is ready, or an error.
type news struct {
	Progress *tools.Progress `json:"progress,omitempty"`
	Ready    *state          `json:"ready,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// detachOrder, written to a keeper's standard input, tells it to outlive the process that started
// it. Without it the end of the input, which comes however that process ends, ends the keeper.
const detachOrder = "detach\n"

// endingNote is the first thing that a keeper logs when it ends its cluster.
const endingNote = "ending the cluster"

// keepIfAsked makes this process a keeper, and never returns, if it was started as one.
func keepIfAsked() {
	order, asked := os.LookupEnv(keeperVariable)
	if !asked {
		return
	}
	os.Unsetenv(keeperVariable) // the processes of the cluster are none
	// A write to a starter that is gone must fail, not kill: there is a cluster to stop first.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	tell := json.NewEncoder(os.Stdout)
	var job assignment
	err := json.Unmarshal([]byte(order), &job)
	if err == nil {
		err = keep(job, func(n news) { tell.Encode(n) })
	}
	if err != nil {
		tell.Encode(news{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// keep starts a cluster, keeps it until the process is told to end it, and leaves nothing of it.
func keep(job assignment, tell func(news)) error {
	ctx, end := context.WithCancelCause(context.Background())
	go endOnSignal(end)
	go endWithStarter(os.Stdin, end)

	sweepDead()
	dir, err := claimFolder(job.Dir)
	if err != nil {
		return err
	}
	job.Dir = dir
	defer os.RemoveAll(dir)

	k := &keeper{job: job, tell: tell, residents: newResidents()}
	defer k.stop()
	ready, err := k.start(ctx, end)
	if err != nil {
		return err
	}
	tell(news{Ready: ready})
	<-ctx.Done()
	note(endingNote+": %v", context.Cause(ctx))
	return nil
}

// endOnSignal calls end when the process is asked to terminate.
func endOnSignal(end context.CancelCauseFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	end(fmt.Errorf("received the signal %q", <-signals))
}

// endWithStarter calls end when the input ends, unless it was told to detach before.
func endWithStarter(input io.Reader, end context.CancelCauseFunc) {
	if order, _ := bufio.NewReader(input).ReadString('\n'); order != detachOrder {
		end(errors.New("the process that started the cluster ended, or ended the cluster"))
	}
}

// keeper is a process that owns a cluster.
type keeper struct {
	job  assignment
	tell func(news)

	// starting ends when the cluster is ready. A part that ends before that calls fail.
	starting context.Context
	fail     context.CancelCauseFunc

	subnet    *subnet
	plane     *controlPlane
	processes *processes
	residents *residents
	blocked   io.Closer // see blockOLMPort
}

// readyLimit is how long one part of a cluster may take to become ready. It is far above what is
// seen on an idle machine, for those that are busy compiling.
const readyLimit = 2 * time.Minute

// part is something a cluster consists of that is brought up beside others.
type part struct {
	name  string
	bring func(context.Context) error
}

// start brings up a cluster. A part that ends before all are ready calls fail.
func (k *keeper) start(ctx context.Context, fail context.CancelCauseFunc) (*state, error) {
	ctx, started := context.WithCancel(ctx)
	defer started()
	k.starting, k.fail = ctx, fail
	if err := k.prepare(); err != nil {
		return nil, err
	}
	if err := k.bringAPIServer(ctx); err != nil {
		return nil, err
	}
	k.progress("kube-apiserver is ready")

	config, err := k.plane.restConfig(adminUser)
	if err != nil {
		return nil, err
	}
	api, err := newClient(config)
	if err != nil {
		return nil, err
	}
	definitions, err := readDefinitions(k.job.CRDs)
	if err != nil {
		return nil, err
	}
	// The definitions come before the controller manager: its garbage collector looks for new types
	// only every 30 seconds.
	if err := createDefinitions(ctx, config, definitions); err != nil {
		return nil, err
	}
	k.progress("custom resource definitions are served")

	all, ctx := errgroup.WithContext(ctx)
	for _, part := range k.parts(api) {
		all.Go(func() error {
			if err := part.bring(ctx); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
			k.progress(part.name + " is ready")
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return markReady(k.job)
}

// prepare makes everything that must be there before the first program starts.
func (k *keeper) prepare() (err error) {
	if k.processes, err = openLogs(k.job.Dir); err != nil {
		return err
	}
	if k.subnet, err = claimSubnet(); err != nil {
		return err
	}
	if k.plane, err = planControlPlane(k.job, k.subnet.controlPlane()); err != nil {
		return err
	}
	return k.plane.writeFiles()
}

// openLogs makes the folder of the logs and sends this process's own complaints there, too.
func openLogs(dir string) (*processes, error) {
	logs := filepath.Join(dir, logsFolder)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	own, err := os.OpenFile(filepath.Join(logs, "keeper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	return newProcesses(logs), unix.Dup3(int(own.Fd()), int(os.Stderr.Fd()), 0)
}

// run starts a program that belongs to the cluster.
func (k *keeper) run(program program) error { return k.processes.run(k.starting, program, k.fail) }

// host starts a part of the cluster that runs inside this process.
func (k *keeper) host(name string, part func(context.Context) error) {
	k.residents.run(k.starting, name, part, k.fail)
}

// bringAPIServer starts the API server and its store, and waits until it is ready.
func (k *keeper) bringAPIServer(ctx context.Context) error {
	for _, program := range []program{k.plane.etcd(), k.plane.apiServer()} {
		if err := k.run(program); err != nil {
			return err
		}
	}
	return k.plane.awaitHealthy(ctx, k.plane.apiPort, "/readyz")
}

// parts are those that need an API server with its definitions, but not each other.
func (k *keeper) parts(api client.Client) []part {
	parts := []part{
		{"kube-controller-manager", func(ctx context.Context) error {
			if err := k.run(k.plane.controllerManager()); err != nil {
				return err
			}
			if err := k.plane.awaitHealthy(ctx, k.plane.managerPort, "/healthz"); err != nil {
				return err
			}
			return awaitServiceAccount(ctx, api, "default", "default")
		}},
		{"kube-scheduler", func(ctx context.Context) error {
			if err := k.run(k.plane.scheduler()); err != nil {
				return err
			}
			return k.plane.awaitHealthy(ctx, k.plane.schedulerPort, "/healthz")
		}},
		{"openshift", func(ctx context.Context) error { return createOpenShift(ctx, api) }},
		{"cloud-credential-operator", k.bringCloudCredentials},
		{"process nodes", k.bringNodes},
	}
	if k.job.Options.OLM {
		parts = append(parts, part{"operator-lifecycle-manager", func(ctx context.Context) error { return k.bringOLM(ctx, api) }})
	}
	return parts
}

// progress tells the starter what has been achieved.
func (k *keeper) progress(detail string) {
	k.tell(news{Progress: &tools.Progress{Phase: "starting", Detail: detail}})
}

// stop ends all that runs, clients before servers.
func (k *keeper) stop() {
	k.residents.stop()
	if k.processes != nil {
		k.processes.stopAll()
	}
	if k.blocked != nil {
		k.blocked.Close()
	}
	if k.subnet != nil {
		k.subnet.release()
	}
}
