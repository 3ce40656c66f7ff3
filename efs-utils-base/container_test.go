package base

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// container is a container with files of an image, in namespaces of its own. Its network is a loopback device.
type container struct {
	root string // the files
	pid  int
}

// createRoot adds the files to an image that a container needs: a stand-in for the kernel's NFS client, and the name of
// the server.
func createRoot(t *testing.T, b *Builder, image string) string {
	t.Helper()
	name, err := b.Run(t.Context(), "from", "--pull-never", image)
	require.NoError(t, err)
	root, err := b.Run(t.Context(), "mount", name)
	require.NoError(t, err)
	for _, file := range []struct{ source, target string }{
		{"null.py", "test/null.py"}, {"init.py", "test/init.py"}, {"mount.nfs4", "usr/sbin/mount.nfs4"},
	} {
		content, err := os.ReadFile(filepath.Join("testdata", file.source))
		require.NoError(t, err)
		write(t, filepath.Join(root, file.target), string(content), 0o755)
	}
	write(t, filepath.Join(root, "test/mounts"), "", 0o644)
	write(t, filepath.Join(root, "etc/hosts"), "127.0.0.1 localhost "+serverName+"\n", 0o644)
	return root
}

// write replaces a file, which may be a link.
func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
}

// enter is how the first process gets to see the container's files only.
const enter = `set -e
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" /test/init.py`

// start starts a container until the test ends. All of its processes end with the first one.
func start(t *testing.T, root string) container {
	t.Helper()
	first := exec.Command("/bin/sh", "-c", enter, "sh", root)
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
	first.Stderr = os.Stderr
	out, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	t.Cleanup(func() {
		first.Process.Kill()
		first.Wait() // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the container's first process says %q (%v), want that it is ready", line, err)
	}
	c := container{root, first.Process.Pid}
	network, err := netns.GetFromPid(c.pid)
	require.NoError(t, err)
	defer network.Close()
	devices, err := netlink.NewHandleAt(network)
	require.NoError(t, err)
	defer devices.Close()
	loopback, err := devices.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, devices.LinkSetUp(loopback))
	return c
}

// listen returns a listener in the container's network, until the test ends.
func (c container) listen(t *testing.T, address string) net.Listener {
	t.Helper()
	type result struct {
		listener net.Listener
		err      error
	}
	results := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with this
		network, err := netns.GetFromPid(c.pid)
		if err == nil {
			defer network.Close()
			err = unix.Setns(int(network), unix.CLONE_NEWNET)
		}
		if err != nil {
			results <- result{err: err}
			return
		}
		listener, err := net.Listen("tcp", address)
		results <- result{listener, err}
	}()
	r := <-results
	require.NoError(t, r.err)
	t.Cleanup(func() { r.listener.Close() })
	return r.listener
}

// command returns a command in the container.
func (c container) command(t *testing.T, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), "nsenter", append([]string{"--target", strconv.Itoa(c.pid), "--mount", "--net", "--pid", "--root", "--wd"}, args...)...)
}

// run runs a command in the container and returns its output.
func (c container) run(t *testing.T, args ...string) (string, error) {
	out, err := c.command(t, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// spawn starts a command in the container that runs until the container ends.
func (c container) spawn(t *testing.T, args ...string) {
	t.Helper()
	command := c.command(t, args...)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait() // it was killed
	})
}

// answers reports whether the NFS server answers at a tunnel's port.
func (c container) answers(t *testing.T) bool {
	_, err := c.run(t, "/test/null.py", port)
	return err == nil
}

// state is the file about a mount that mount.efs writes for the watchdog.
type state map[string]any

func (c container) statePath() string {
	return filepath.Join(c.root, "run/efs", fileSystem+".mnt."+port)
}

func (c container) readState(t *testing.T) state {
	t.Helper()
	content, err := os.ReadFile(c.statePath())
	require.NoError(t, err)
	s := state{}
	if err := json.Unmarshal(content, &s); err != nil {
		t.Fatalf("%s: %v", c.statePath(), err)
	}
	return s
}

// logs returns the ends of efs-utils' logs, for tests that fail.
func (c container) logs() string {
	var all strings.Builder
	found, _ := filepath.Glob(filepath.Join(c.root, "var/log/amazon/efs/*.log"))
	for _, file := range found {
		content, _ := os.ReadFile(file)
		all.WriteString(filepath.Base(file) + ":\n" + string(content[max(0, len(content)-2000):]))
	}
	return all.String()
}
