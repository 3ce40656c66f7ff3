package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcherName is the argv[0] of a process that is to become a container's program.
const launcherName = "process-node-launcher"

// launcherReport is the launcher's file descriptor for the error that kept it from starting the program. It is closed
// when the program starts.
const launcherReport = 3

// launch tells the launcher which program to run, with which view of the file system.
type launch struct {
	// Parent is the process that the program must not outlive.
	Parent int
	// Program is a path, or a name to look up in PATH. If it is empty, the launcher exits after the mounts, which is
	// how the node finds out whether it may mount.
	Program string
	// Args are the program's arguments, without the program itself.
	Args []string
	// Dir is the working directory.
	Dir string
	// Mounts are mounted in this order.
	Mounts []mount
}

// mount mounts the local file or folder Source at Target.
type mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// Launcher turns this process into a container's program if the node started it for that: it gives the process its
// own view of the file system and executes the program. Otherwise it returns at once. A program that calls Run must
// call Launcher at the beginning of main, because the node starts the running executable again to launch programs.
func Launcher() {
	if os.Args[0] != launcherName {
		return
	}
	// The parent-death signal is tied to a thread, not to a process. So this thread must also execute the program.
	runtime.LockOSThread()
	report := os.NewFile(launcherReport, "report")
	unix.CloseOnExec(launcherReport)
	if err := becomeProgram(os.Args[1]); err != nil {
		fmt.Fprint(report, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// becomeProgram returns only if the program cannot be started or does not exist.
func becomeProgram(arg string) error {
	var l launch
	if err := json.Unmarshal([]byte(arg), &l); err != nil {
		return fmt.Errorf("reading the launch order: %w", err)
	}
	if err := dieWithParent(l.Parent); err != nil {
		return err
	}
	program, err := openProgram(l.Program)
	if err != nil {
		return err
	}
	if err := mountAll(l.Mounts); err != nil {
		return err
	}
	if l.Program == "" {
		return nil
	}
	if err := os.Chdir(l.Dir); err != nil {
		return fmt.Errorf("container.workingDir: %w", err)
	}
	argv := append([]string{program.path}, l.Args...)
	return fmt.Errorf("starting %s: %w", program.path, syscall.Exec(program.reachable(), argv, os.Environ()))
}

// dieWithParent makes the kernel kill this process when the node ends, even if the node is killed.
func dieWithParent(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("asking to be killed with the node: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the node is gone")
	}
	return nil
}

// program is an executable that was opened before a mount could hide its path.
type program struct {
	path string
	fd   int
}

func openProgram(name string) (program, error) {
	if name == "" {
		return program{}, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return program{}, fmt.Errorf("the program is not on this machine: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return program{}, err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	return program{path: path, fd: fd}, err
}

// reachable returns a path of the program after the mounts: its own, so that process lists show it, or the open file's
// if a mount hides it.
func (p program) reachable() string {
	var opened, found unix.Stat_t
	if unix.Fstat(p.fd, &opened) == nil && unix.Stat(p.path, &found) == nil &&
		opened.Dev == found.Dev && opened.Ino == found.Ino {
		return p.path
	}
	return fmt.Sprintf("/proc/self/fd/%d", p.fd)
}

// mountAll mounts all sources, in this process's mount namespace only.
func mountAll(mounts []mount) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	// All sources are opened first: a mount on /tmp must not hide the source of the next one.
	sources := make([]*os.File, len(mounts))
	for i, m := range mounts {
		fd, err := unix.Open(m.Source, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("source of the mount at %s: %s: %w", m.Target, m.Source, err)
		}
		sources[i] = os.NewFile(uintptr(fd), m.Source)
	}
	var done []string
	for i, m := range mounts {
		target, err := mountPoint(m.Target, sources[i], done)
		if err != nil {
			return err
		}
		if err := bind(sources[i], target, m.ReadOnly); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", m.Source, m.Target, err)
		}
		done = append(done, target)
	}
	return nil
}

// mountPoint resolves the target of a mount. It creates the target only where that leaves nothing on the machine: below the targets of
// earlier mounts.
func mountPoint(target string, source *os.File, earlier []string) (string, error) {
	path := filepath.Clean(target)
	var missing []string
	for {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = resolved
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("mountPath %s: %w", target, err)
		}
		missing = append([]string{filepath.Base(path)}, missing...)
		path = filepath.Dir(path)
	}
	if len(missing) == 0 {
		return path, nil
	}
	if !belowAny(path, earlier) {
		return "", fmt.Errorf("mountPath %s: %s does not exist on this machine; the process node creates mount points only below /run, /tmp and other volumes, so mount it there or create the folder",
			target, filepath.Join(path, missing[0]))
	}
	path = filepath.Join(append([]string{path}, missing...)...)
	info, err := source.Stat()
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return path, os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, nil, 0o644)
}

func belowAny(path string, roots []string) bool {
	for _, root := range roots {
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

func bind(source *os.File, target string, readOnly bool) error {
	from := fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil || !readOnly {
		return err
	}
	// A remount must repeat the existing flags of the mount, which are locked in a user namespace.
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return err
	}
	const kept = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME
	flags := uintptr(stat.Flags)&kept | unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY
	return unix.Mount("", target, "", flags, "")
}
