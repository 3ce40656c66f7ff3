package realnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
)

// system is the configuration of a node's first process.
type system struct {
	Name     string   `json:"name"`
	Address  string   `json:"address"`
	Dir      string   `json:"dir"`
	Logs     string   `json:"logs"`
	Programs Programs `json:"programs"`
	// Files are the contents of files, by their paths in the node.
	Files map[string]string `json:"files"`
}

// Folders of the node's programs in the node.
const (
	kubeletFolder    = "/opt/node/kubelet"
	containerdFolder = "/opt/node/containerd"
	containerdSocket = "/run/containerd/containerd.sock"
)

// ownFolders are the folders on the disk that only the node has, by their names in system.Dir. The node's other own folders are in memory.
// containerd needs such a folder, because it cannot keep images in a layer above other files.
var ownFolders = map[string]string{
	"kubelet":    "/var/lib/kubelet",
	"containerd": "/var/lib/containerd",
	"log":        "/var/log",
}

// run is the node's first process. It makes the file system that the node sees, and starts its programs.
func (s system) run() error {
	containerd, err := s.service("containerd", filepath.Join(containerdFolder, "containerd"))
	if err != nil {
		return err
	}
	kubelet, err := s.service("kubelet", filepath.Join(kubeletFolder, "kubelet"),
		"--config="+kubeletConfigFile, "--kubeconfig="+kubeconfigFile, "--hostname-override="+s.Name, "--node-ip="+s.Address)
	if err != nil {
		return err
	}
	if err := s.makeRoot(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return err
	}
	for path, content := range s.Files {
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	if err := containerd.start(); err != nil {
		return err
	}
	// A kubelet ends if it finds no runtime.
	if err := awaitSocket(containerdSocket); err != nil {
		return err
	}
	if err := kubelet.start(); err != nil {
		return err
	}
	return keepRunning(containerd, kubelet)
}

// writeFile replaces a file, or a link.
func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// Times of services.
const (
	socketLimit  = time.Minute // until containerd listens
	socketRetry  = 20 * time.Millisecond
	restartDelay = time.Second
	// A service that ends mostFailures times in succession, each time within shortestRun of its start, ends the node.
	shortestRun  = 10 * time.Second
	mostFailures = 5
)

func awaitSocket(path string) error {
	for began := time.Now(); ; time.Sleep(socketRetry) {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn.Close()
		}
		if time.Since(began) > socketLimit {
			return fmt.Errorf("waited %s for containerd; see its log: %w", socketLimit, err)
		}
	}
}

// service is a program that the node starts again when it ends.
type service struct {
	path     string
	args     []string
	log      *os.File
	pid      int
	started  time.Time
	failures int // in succession
}

// service opens the log of a service, in a folder that the node does not see.
func (s system) service(name, path string, args ...string) (*service, error) {
	log, err := os.OpenFile(filepath.Join(s.Logs, s.Name+"-"+name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &service{path: path, args: args, log: log}, err
}

// start starts a service. It does not use package os/exec, whose Wait would compete with keepRunning.
func (s *service) start() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(s.path, append([]string{s.path}, s.args...), &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=" + containerdFolder + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
		Files: []uintptr{null.Fd(), s.log.Fd(), s.log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", s.path, err)
	}
	s.pid, s.started = pid, time.Now()
	return nil
}

// keepRunning starts services again when they end, and collects the exit status of all processes without a parent, as
// the first process must. It returns if a service keeps ending at once.
func keepRunning(services ...*service) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		for _, s := range services {
			if s.pid != pid {
				continue
			}
			s.failures++
			if time.Since(s.started) > shortestRun {
				s.failures = 0
			}
			if s.failures == mostFailures {
				return fmt.Errorf("%s ended %d times at once; see its log", s.path, s.failures)
			}
			fmt.Fprintf(os.Stderr, "%s %s ended %s after its start (exit status %d, signal %d); starting it again\n", time.Now().Format(time.RFC3339),
				s.path, time.Since(s.started).Round(time.Millisecond), status.ExitStatus(), status.Signal())
			time.Sleep(restartDelay)
			if err := s.start(); err != nil {
				return err
			}
		}
	}
}

// makeRoot makes the file system that the node sees, and makes it this process's root.
func (s system) makeRoot() error {
	// Nothing that is mounted from now on appears on the machine.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	root, err := s.mountRoot()
	if err != nil {
		return err
	}
	steps := []func(root string) error{s.mountOwnFolders, mountMemory, mountDevices, mountKernel}
	for _, step := range steps {
		if err := step(root); err != nil {
			return err
		}
	}
	if err := s.recordFilesystems(root); err != nil {
		return err
	}
	if err := enterRoot(root); err != nil {
		return err
	}
	// As on a machine with systemd: containers can share their mounts below a shared mount.
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// mountRoot mounts a layer in memory above the machine's files, and returns where.
func (s system) mountRoot() (string, error) {
	layer, root := filepath.Join(s.Dir, "layer"), filepath.Join(s.Dir, "root")
	if err := errors.Join(os.Mkdir(layer, 0o755), os.Mkdir(root, 0o755)); err != nil {
		return "", err
	}
	if err := mount("node", layer, "tmpfs", 0, "mode=755"); err != nil {
		return "", err
	}
	// Relative paths: in the options of a mount, a comma in a path would end it.
	if err := os.Chdir(layer); err != nil {
		return "", err
	}
	if err := errors.Join(os.Mkdir("upper", 0o755), os.Mkdir("work", 0o755)); err != nil {
		return "", err
	}
	return root, mount("node", root, "overlay", 0, "lowerdir=/,upperdir=upper,workdir=work")
}

// mountOwnFolders mounts the node's folders on the disk and the folders of its programs.
func (s system) mountOwnFolders(root string) error {
	folders := map[string]string{
		filepath.Dir(s.Programs.Kubelet): kubeletFolder,
		s.Programs.Containerd:            containerdFolder,
	}
	for name, in := range ownFolders {
		folder := filepath.Join(s.Dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		folders[folder] = in
	}
	for folder, in := range folders {
		if err := mountAt(folder, filepath.Join(root, in), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// mountMemory mounts the folders that are in memory.
func mountMemory(root string) error {
	return errors.Join(
		mountAt("run", filepath.Join(root, "run"), "tmpfs", unix.MS_NOSUID, "mode=755"),
		mountAt("tmp", filepath.Join(root, "tmp"), "tmpfs", unix.MS_NOSUID, "mode=1777"),
	)
}

// loopDevices is the number of loop devices in a node's /dev. They are the machine's.
const loopDevices = 64

// mountDevices makes the node's /dev. It has no disks of the machine. Links that appear in it, such as udev's links for a disk that a cloud
// attaches, belong to the node.
func mountDevices(root string) error {
	dev := filepath.Join(root, "dev")
	if err := mountAt("dev", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	type node struct {
		name         string
		mode         uint32
		major, minor uint32
	}
	nodes := []node{
		{"null", unix.S_IFCHR | 0o666, 1, 3}, {"zero", unix.S_IFCHR | 0o666, 1, 5}, {"full", unix.S_IFCHR | 0o666, 1, 7},
		{"random", unix.S_IFCHR | 0o666, 1, 8}, {"urandom", unix.S_IFCHR | 0o666, 1, 9}, {"kmsg", unix.S_IFCHR | 0o644, 1, 11},
		{"tty", unix.S_IFCHR | 0o666, 5, 0}, {"fuse", unix.S_IFCHR | 0o666, 10, 229}, {"loop-control", unix.S_IFCHR | 0o660, 10, 237},
	}
	for i := range uint32(loopDevices) {
		nodes = append(nodes, node{"loop" + strconv.Itoa(int(i)), unix.S_IFBLK | 0o660, 7, i})
	}
	for _, n := range nodes {
		path := filepath.Join(dev, n.name)
		if err := unix.Mknod(path, n.mode, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return fmt.Errorf("make the device %s: %w", path, err)
		}
		if err := os.Chmod(path, os.FileMode(n.mode&0o777)); err != nil { // the umask applies to Mknod
			return err
		}
	}
	for link, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(to, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	return errors.Join(
		mountAt("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"),
		mountAt("shm", filepath.Join(dev, "shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		mountAt("mqueue", filepath.Join(dev, "mqueue"), "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
	)
}

// kernelSettings are the settings of the machine that a kubelet sets or checks when it starts, with the values that it wants. The node's
// kubelet finds these values, and the machine's settings do not change.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// mountKernel mounts the kernel's file systems: processes, network devices and control groups are the node's.
func mountKernel(root string) error {
	hierarchies, err := machine.Hierarchies() // before /proc is the node's
	if err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	proc, sys := filepath.Join(root, "proc"), filepath.Join(root, "sys")
	if err := errors.Join(
		mountAt("proc", proc, "proc", flags, ""),
		mountAt("sysfs", sys, "sysfs", flags, ""),
		mount("cgroup", filepath.Join(root, machine.CgroupFolder), "tmpfs", flags, "mode=755"),
	); err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := mountAt("cgroup", filepath.Join(root, h.MountPoint()), "cgroup", flags, h.Controllers); err != nil {
			return err
		}
	}
	for name, value := range kernelSettings {
		file := filepath.Join(root, "run", "kernel-settings", name)
		if err := writeFile(file, value+"\n"); err != nil {
			return err
		}
		if err := mount(file, filepath.Join(proc, "sys", name), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// recordFilesystems records the file systems that only the node has, for the supervisor.
func (s system) recordFilesystems(root string) error {
	var devices []uint64
	for _, name := range []string{"", "run", "tmp", "dev", "dev/shm"} {
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(root, name), &stat); err != nil {
			return err
		}
		devices = append(devices, stat.Dev)
	}
	return writeRecord(s.Dir, filesystemsFile, devices)
}

// enterRoot makes a mount this process's root, and detaches the former root.
func enterRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make %s the root: %w", root, err)
	}
	// The machine's root is mounted above the node's.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the machine's root: %w", err)
	}
	return os.Chdir("/")
}

// mountAt mounts on a folder, and creates it if necessary.
func mountAt(source, target, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return mount(source, target, kind, flags, options)
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s: %w", strings.TrimSpace(strings.Join([]string{kind, source, "on", target, options}, " ")), err)
	}
	return nil
}
