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
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster/realnode"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// keeperVariable marks a process as a keeper. Its value is the assignment, as JSON.
const keeperVariable = "BERTH_CLUSTER_KEEPER"

// assignment describes the cluster that a keeper runs.
type assignment struct {
	Dir     string    `json:"dir"` // empty: a temporary folder
	Tools   tools.Dir `json:"tools"`
	CRDs    []string  `json:"crds"` // files of definitions
	Options Options   `json:"options"`
	// Kept are the folders of the project and of its cache. Pods always see them, even below /run or /tmp.
	Kept []string `json:"kept"`
	// NodePrograms are set for real nodes.
	NodePrograms realnode.Programs `json:"nodePrograms"`
}

// message is a line of JSON that a keeper writes to its standard output, for the process that started the keeper. The last message of a
// start has the state of the ready cluster, or an error. After that, there is a message for each order.
type message struct {
	Progress *tools.Progress `json:"progress,omitempty"`
	Ready    *state          `json:"ready,omitempty"`
	Obeyed   bool            `json:"obeyed,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// detachOrder, on a keeper's standard input, makes the keeper outlive its starter, the process that started it. Without this order, the
// keeper stops when the input ends, which happens however the starter ends.
const detachOrder = "detach\n"

// endingNote is the first log line of a keeper that stops its cluster.
const endingNote = "ending the cluster"

// keepIfAsked runs the keeper, and never returns, if this process was started as one.
func keepIfAsked() {
	order, asked := os.LookupEnv(keeperVariable)
	if !asked {
		return
	}
	os.Unsetenv(keeperVariable) // the cluster's processes are not keepers
	// A write to a starter that has ended must return an error and not kill the keeper, which must stop its cluster.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	tell := json.NewEncoder(os.Stdout)
	var job assignment
	err := json.Unmarshal([]byte(order), &job)
	if err == nil {
		err = keep(job, func(n message) { tell.Encode(n) })
	}
	if err != nil {
		tell.Encode(message{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// keep starts a cluster, keeps it until the process is told to stop, and removes it.
func keep(job assignment, tell func(message)) error {
	ctx, end := context.WithCancelCause(context.Background())
	go endOnSignal(end)
	k := &keeper{job: job, tell: tell, inProcess: newInProcess()}
	go endWithStarter(os.Stdin, end, func(line string) {
		if err := k.obey(ctx, line); err != nil {
			tell(message{Error: err.Error()})
			return
		}
		tell(message{Obeyed: true})
	})

	sweepDead()
	dir, err := acquireFolder(job.Dir)
	if err != nil {
		return err
	}
	k.job.Dir = dir
	defer os.RemoveAll(dir)

	defer k.stop()
	ready, err := k.start(ctx, end)
	if err != nil {
		return err
	}
	tell(message{Ready: ready})
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

// endWithStarter calls obey with each line of the input, and calls end when the input ends. It stops reading at the order to detach.
func endWithStarter(input io.Reader, end context.CancelCauseFunc, obey func(line string)) {
	lines := bufio.NewReader(input)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case line == detachOrder:
			return
		case err != nil:
			end(errors.New("the process that started the cluster ended, or ended the cluster"))
			return
		}
		go obey(line) // the input may end meanwhile
	}
}

// keeper is the process that owns a cluster.
type keeper struct {
	job  assignment
	tell func(message)

	// starting ends when the cluster is ready. A component that ends earlier calls fail.
	starting context.Context
	fail     context.CancelCauseFunc
	// obeying is locked while an order is obeyed.
	obeying sync.Mutex

	subnet       *subnet
	plane        *controlPlane
	processes    *processes
	inProcess    *inProcess
	realNodes    *realNodes // nil without real nodes
	processNodes map[string]*processNode
	blocked      io.Closer // see blockOLMPort
}

// readyLimit is the time limit for a component to become ready. It is far above the usual time, for machines that are
// busy compiling.
const readyLimit = 5 * time.Minute

// component is a part of a cluster that is started concurrently with others.
type component struct {
	name  string
	start func(context.Context) error
}

// start starts a cluster. A component that ends before all are ready calls fail.
func (k *keeper) start(ctx context.Context, fail context.CancelCauseFunc) (*state, error) {
	ctx, started := context.WithCancel(ctx)
	defer started()
	k.starting, k.fail = ctx, fail
	if err := k.prepare(); err != nil {
		return nil, err
	}
	if err := k.startAPIServer(ctx); err != nil {
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
	// The definitions are created before the controller manager starts: its garbage collector looks for new types
	// only every 30 seconds.
	if err := createDefinitions(ctx, config, definitions); err != nil {
		return nil, err
	}
	k.progress("custom resource definitions are served")

	all, ctx := errgroup.WithContext(ctx)
	for _, component := range k.components(api) {
		all.Go(func() error {
			if err := component.start(ctx); err != nil {
				return fmt.Errorf("%s: %w", component.name, err)
			}
			k.progress(component.name + " is ready")
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return markReady(k.job, k.plane.etcdURL())
}

// prepare creates everything that the programs need.
func (k *keeper) prepare() (err error) {
	logs, err := openLogs(k.job.Dir)
	if err != nil {
		return err
	}
	k.processes = newProcesses(logs, !k.job.Options.Durable) // programs yield, except in benchmarks, which measure them at full speed
	if k.subnet, err = acquireSubnet(); err != nil {
		return err
	}
	if k.plane, err = planControlPlane(k.job, k.subnet); err != nil {
		return err
	}
	if k.job.Options.RealNodes > 0 {
		if k.realNodes, err = connectRealNodes(k.job, k.plane); err != nil {
			return err
		}
	}
	return k.plane.writeFiles()
}

// openLogs creates and returns the folder of the logs, and redirects the keeper's own log to it.
func openLogs(dir string) (string, error) {
	logs := filepath.Join(dir, logsFolder)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return "", err
	}
	own, err := os.OpenFile(filepath.Join(logs, "keeper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer own.Close()
	return logs, unix.Dup3(int(own.Fd()), int(os.Stderr.Fd()), 0)
}

// run starts a program of the cluster.
func (k *keeper) run(program program) error { return k.processes.run(k.starting, program, k.fail) }

// host starts a component of the cluster inside of this process.
func (k *keeper) host(name string, component func(context.Context) error) {
	k.inProcess.run(k.starting, name, component, k.fail)
}

// startAPIServer starts the API server and etcd, and waits until they are ready.
func (k *keeper) startAPIServer(ctx context.Context) error {
	for _, program := range []program{k.plane.etcd(), k.plane.apiServer()} {
		if err := k.run(program); err != nil {
			return err
		}
	}
	return k.plane.awaitHealthy(ctx, k.plane.apiPort, "/readyz")
}

// components returns the components that need an API server with its definitions, but not each other.
func (k *keeper) components(api client.Client) []component {
	components := []component{
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
		{"cloud-credential-operator", k.startCloudCredentials},
		{"process nodes", k.startNodes},
	}
	if k.realNodes != nil {
		components = append(components, component{"real nodes", func(ctx context.Context) error { return k.realNodes.start(ctx, api, k.fail) }})
	}
	if k.job.Options.OLM {
		components = append(components, component{"operator-lifecycle-manager", func(ctx context.Context) error { return k.startOLM(ctx, api) }})
	}
	return components
}

// progress reports progress to the starter.
func (k *keeper) progress(detail string) {
	k.tell(message{Progress: &tools.Progress{Phase: "starting", Detail: detail}})
}

// stop stops everything, clients before servers.
func (k *keeper) stop() {
	k.obeying.Lock() // for ever: no cluster is left to give orders to
	k.inProcess.stop()
	if k.realNodes != nil {
		k.realNodes.stop()
	}
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
