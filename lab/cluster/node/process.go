package node

import (
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

	"golang.org/x/sys/unix"
)

// process is one run of a program, including everything in its process group.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	// ended is closed when the program and its whole process group have ended.
	ended chan struct{}
	// state and finished may be read once ended is closed.
	state    *os.ProcessState
	finished time.Time

	// mu guards reaped: once the process is reaped, its id may be reused.
	mu     sync.Mutex
	reaped bool
}

// spawner starts programs in their own namespaces.
type spawner struct {
	// calls run one after the other on one thread. The kernel kills a program when the thread that started it ends,
	// and Go ends threads at any time, unless a goroutine is locked to them.
	calls chan func()
	// dir is a folder for trying mounts.
	dir string

	// mu guards isolated, which is determined when the first program is started.
	mu       sync.Mutex
	isolated *syscall.SysProcAttr
}

func newSpawner(dir string) *spawner {
	s := &spawner{calls: make(chan func()), dir: dir}
	go func() {
		runtime.LockOSThread()
		for call := range s.calls {
			call()
		}
	}()
	return s
}

// close ends the thread, and with it any program that still runs.
func (s *spawner) close() { close(s.calls) }

// start runs the program with this environment and output. When it returns, the program is running, or the error says
// why it cannot.
func (s *spawner) start(l launch, env []string, output *os.File) (*process, error) {
	attr, err := s.isolation()
	if err != nil {
		return nil, err
	}
	return s.startIn(attr, l, env, output)
}

func (s *spawner) startIn(attr *syscall.SysProcAttr, l launch, env []string, output *os.File) (*process, error) {
	l.Parent = os.Getpid()
	order, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	report, reportEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer report.Close()

	cmd := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{launcherName, string(order)},
		Env:         env,
		Stdout:      output,
		Stderr:      output,
		ExtraFiles:  []*os.File{reportEnd},
		SysProcAttr: attr,
	}
	s.do(func() { err = cmd.Start() })
	reportEnd.Close()
	if err != nil {
		return nil, fmt.Errorf("starting the launcher: %w", err)
	}
	p := &process{cmd: cmd, started: time.Now(), ended: make(chan struct{})}
	go p.wait()

	// The launcher's end of the pipe is closed when it becomes the program.
	failure, err := io.ReadAll(report)
	if err != nil {
		return nil, fmt.Errorf("reading the launcher's report: %w", err)
	}
	if len(failure) > 0 {
		<-p.ended
		return nil, errors.New(string(failure))
	}
	return p, nil
}

// do runs f on the spawner's thread and waits for it.
func (s *spawner) do(f func()) {
	done := make(chan struct{})
	s.calls <- func() { f(); close(done) }
	<-done
}

// wait waits for the end of the program, kills its remaining processes, and reaps it, in this order: the group's id
// stays reserved until the program is reaped.
func (p *process) wait() {
	var err error
	for {
		err = unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	_ = p.cmd.Wait() // The state has the exit code, which Wait returns as an error.
	p.reaped = true
	p.mu.Unlock()

	p.state, p.finished = p.cmd.ProcessState, time.Now()
	close(p.ended)
}

// signal signals the program and everything in its group. It does nothing once the program has ended.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(-p.cmd.Process.Pid, sig)
	}
}

// stop asks the program to end, kills it if it still runs when the context ends, and returns when it has ended.
func (p *process) stop(ctx context.Context) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return
	case <-ctx.Done():
	}
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// exitCode returns the program's exit code, or, as in a shell, 128 plus the signal that killed it.
func (p *process) exitCode() int32 {
	if status := p.state.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(p.state.ExitCode())
}

// namespaceAdvice is the advice if programs cannot have their own view of the file system.
const namespaceAdvice = "run as root, or allow user namespaces: sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (those that this kernel has); in a container, allow CLONE_NEWUSER and mount"

// isolation returns the namespaces that let a program have its own mounts on this machine.
func (s *spawner) isolation() (*syscall.SysProcAttr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isolated != nil {
		return s.isolated, nil
	}
	ways := []struct {
		needs string
		flags uintptr
	}{
		{"a mount namespace", unix.CLONE_NEWNS},
		{"a user namespace with a mount namespace", unix.CLONE_NEWNS | unix.CLONE_NEWUSER},
	}
	var failures error
	for _, way := range ways {
		attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: way.flags}
		if way.flags&unix.CLONE_NEWUSER != 0 {
			// The launcher may mount only as root of its user namespace.
			attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
		}
		attempt := launch{Mounts: []mount{{Source: s.dir, Target: "/run"}}}
		p, err := s.startIn(attr, attempt, nil, nil)
		if err == nil {
			<-p.ended
			s.isolated = attr
			return attr, nil
		}
		failures = errors.Join(failures, fmt.Errorf("%s: %w", way.needs, err))
	}
	return nil, fmt.Errorf("a container's program needs its own view of the file system, and this machine refuses it: %w; %s", failures, namespaceAdvice)
}
