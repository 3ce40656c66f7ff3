package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Environment variables that make this program a node's supervisor or its first process. Their value is a system, as
// JSON.
const (
	supervisorVariable   = "BERTH_REAL_NODE_SUPERVISOR"
	firstProcessVariable = "BERTH_REAL_NODE"
)

// networkDescriptor is the node's network namespace in the supervisor.
const networkDescriptor = 3

// Files in a node's folder.
const (
	firstProcessFile = "pid"              // the id of the first process
	cgroupsFile      = "cgroups.json"     // the folders of the node's control groups
	filesystemsFile  = "filesystems.json" // the device numbers of file systems that only the node has
)

// Init must be called at the beginning of main by every program that starts a node. The program is started again as
// the node's supervisor and as its first process; then Init does not return.
func Init() {
	for variable, become := range map[string]func(system) error{
		supervisorVariable:   system.supervise,
		firstProcessVariable: system.run,
	} {
		order, asked := os.LookupEnv(variable)
		if !asked {
			continue
		}
		os.Unsetenv(variable)
		var s system
		err := json.Unmarshal([]byte(order), &s)
		if err == nil {
			err = become(s)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// supervise starts the node's first process, ends it when the standard input ends, and then cleans up.
func (s system) supervise() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	starterEnded := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(starterEnded)
	}()
	defer Sweep(s.Dir)
	first, err := s.startFirstProcess()
	if err != nil {
		return fmt.Errorf("start the first process of node %s: %w", s.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("the first process of node %s ended: %w", s.Name, errors.Join(err, errors.New("see its log")))
	case <-starterEnded:
		first.Process.Kill()
		<-ended // and with it all processes of its PID namespace
		return nil
	}
}

func (s system) startFirstProcess() (*exec.Cmd, error) {
	order, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	// The signal that the kernel sends when the parent dies is tied to the thread that forked. This goroutine, and with
	// it the thread, lives as long as the supervisor.
	runtime.LockOSThread()
	if err := unix.Setns(networkDescriptor, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the network namespace: %w", err)
	}
	groups, err := createControlGroups(s.Dir)
	if err != nil {
		return nil, err
	}
	if err := groups.enter(); err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "(first process of node " + s.Name + ")"}
	cmd.Env = append(os.Environ(), firstProcessVariable+"="+string(order))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// The process sees the control groups that it starts in as the roots of their hierarchies.
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	err = cmd.Start()
	if err := errors.Join(err, groups.leave()); err != nil {
		return nil, err
	}
	return cmd, os.WriteFile(filepath.Join(s.Dir, firstProcessFile), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644)
}

// Sweep cleans up after a node whose processes have ended. dir is its folder.
func Sweep(dir string) {
	for _, err := range []error{removeControlGroups(dir), detachLoopDevices(dir), os.RemoveAll(dir)} {
		if err != nil {
			fmt.Fprintf(os.Stderr, "remove what is left of the node in %s: %v\n", dir, err)
		}
	}
}

// readRecord reads one of the JSON files in a node's folder. If the file does not exist, it leaves the value unchanged.
func readRecord(dir, name string, into any) error {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

func writeRecord(dir, name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), content, 0o644)
}
