package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is a program of a cluster, and how to find out that it is ready.
type program struct {
	name string
	path string
	args []string
	env  []string // added to the environment, "NAME=value"
}

// Durations of a process's life.
const (
	stopGrace    = 3 * time.Second // between SIGTERM and SIGKILL
	restartDelay = time.Second     // like kubelet's first backoff, but shorter
)

// processes runs the programs of a cluster, each in its own process group and with its own log, and stops them. If
// this process is killed, the kernel kills them.
type processes struct {
	logs  string   // folder
	env   []string // added to the environment of all programs, "NAME=value"
	spawn chan func()

	mu      sync.Mutex
	running []*process // in the order of their start
}

// process is a program that runs, or will be restarted after its delay.
type process struct {
	program
	stop context.CancelFunc
	done chan struct{} // closed when it has ended and will not be restarted
}

// end stops the process and waits until it has ended.
func (p *process) end() {
	p.stop()
	<-p.done
}

// newProcesses returns the processes of a cluster with logs in a folder. With yields, they give way to the processes of other clusters:
// each process uses one processor, and a process that wakes up lets the running one finish its time slice. Otherwise many clusters spend
// much of their time on switching between processes.
func newProcesses(logs string, yields bool) *processes {
	p := &processes{logs: logs, spawn: make(chan func())}
	if yields {
		p.env = []string{"GOMAXPROCS=1"}
	}
	go func() {
		// The parent-death signal of a child is tied to the thread that forked it. This thread forks all children and
		// lives as long as the process. They inherit its scheduling policy.
		runtime.LockOSThread()
		if yields {
			if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0); err != nil {
				note("let processes finish their time slices: %v", err)
			}
		}
		for fork := range p.spawn {
			fork()
		}
	}()
	return p
}

// run starts a program and restarts it until stopAll, like a kubelet. While ctx lives (the cluster starts), it calls
// died instead of restarting the program.
func (p *processes) run(ctx context.Context, program program, died func(error)) error {
	first, err := p.start(program)
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(context.Background())
	proc := &process{program: program, stop: stop, done: make(chan struct{})}
	p.mu.Lock()
	p.running = append(p.running, proc)
	p.mu.Unlock()
	go func() {
		defer close(proc.done)
		for cmd := first; ; {
			err := waitOrStop(life, cmd)
			if life.Err() != nil {
				return
			}
			if ctx.Err() == nil {
				died(fmt.Errorf("%s ended while the cluster started: %w\n%s", program.name, err, p.tail(program.name, 15)))
			}
			note("%s ended: %v; restarting it", program.name, err)
			for cmd = nil; cmd == nil; {
				if !pause(life, restartDelay) {
					return
				}
				if cmd, err = p.start(program); err != nil {
					note("start %s again: %v", program.name, err)
				}
			}
		}
	}()
	return nil
}

// start forks one program.
func (p *processes) start(program program) (*exec.Cmd, error) {
	log, err := os.OpenFile(p.logPath(program.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program.path, program.args...)
	cmd.Dir = p.logs // programs write at most logs to their working folder
	cmd.Env = slices.Concat(inherited(os.Environ()), p.env, program.env)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	forked := make(chan error)
	p.spawn <- func() { forked <- cmd.Start() }
	if err := <-forked; err != nil {
		return nil, fmt.Errorf("start %s: %w", program.name, err)
	}
	return cmd, nil
}

// stop stops the processes of one program, which run does not restart then.
func (p *processes) stop(program string) {
	p.mu.Lock()
	var stopped []*process
	p.running = slices.DeleteFunc(p.running, func(proc *process) bool {
		if proc.name == program {
			stopped = append(stopped, proc)
		}
		return proc.name == program
	})
	p.mu.Unlock()
	for _, proc := range stopped {
		proc.end()
	}
}

// stopAll stops all processes, in reverse order of their start, as later ones are clients of earlier ones.
func (p *processes) stopAll() {
	p.mu.Lock()
	running := p.running
	p.running = nil
	p.mu.Unlock()
	for i := len(running) - 1; i >= 0; i-- {
		running[i].end()
	}
}

// waitOrStop waits until a process has ended. If ctx ends first, it stops the process and its group.
func waitOrStop(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("exit status 0")
		}
		return err
	case <-ctx.Done():
	}
	cmd.Process.Signal(syscall.SIGTERM)
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case err := <-ended:
		return err
	case <-grace.C:
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return <-ended
}

// pause waits. It returns false if ctx ended first.
func pause(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (p *processes) logPath(name string) string { return filepath.Join(p.logs, name+".log") }

// note writes a line to the keeper's own log, its standard error.
func note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.RFC3339)+" "+format+"\n", args...)
}

// tail returns the last lines of a program's log.
func (p *processes) tail(name string, lines int) string {
	return tailOfFile(p.logPath(name), lines)
}

func tailOfFile(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// droppedVariables are the user's variables that a cluster's programs do not get: with CI, OLM panics when it creates
// an object without its label, and a user's proxy reaches neither a real node nor a Service.
var droppedVariables = []string{"CI", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}

// inherited returns the variables of an environment that a cluster's programs get. Programs read the names of proxies
// in lower case, too.
func inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(droppedVariables, strings.ToUpper(name))
	})
}
