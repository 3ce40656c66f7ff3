package nfs

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// node is a network namespace with the program's names in a folder.
type node struct {
	server *Server
	folder string
}

// newNode enters a network namespace of its own on a thread of the test's own, and starts a server in it.
func newNode(t *testing.T, exports Exports) node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	programs, err := tools.Programs(t.Context(), "./lab/nfs/nfsclient")
	require.NoError(t, err)
	runtime.LockOSThread() // and never unlock it
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	loopback, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(loopback))
	n := node{Start(t, exports), t.TempDir()}
	for _, name := range []string{"mount.nfs", "mount.nfs4", "efs-proxy"} {
		require.NoError(t, os.Symlink(programs.Path("nfsclient"), filepath.Join(n.folder, name)))
	}
	listener, err := net.Listen("unix", Socket)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	n.server.ServeNode(listener)
	return n
}

// run runs a shell script in a mount namespace of its own. It finds $TARGET, an empty folder, $PORT, the server's, and
// $DIR, a folder that stays.
func (n node) run(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	_, port, _ := strings.Cut(n.server.Address(), ":")
	cmd.Env = append(os.Environ(), "PATH="+n.folder+":"+os.Getenv("PATH"), "TARGET="+t.TempDir(), "PORT="+port, "DIR="+n.folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	output, _ := cmd.CombinedOutput() // scripts print their findings
	return strings.TrimSpace(string(output))
}

func TestNodesShareAnExport(t *testing.T) {
	files := t.TempDir()
	n := newNode(t, func(r Request) (string, error) {
		if r.Path != "/share" {
			return "", syscall.ENOENT
		}
		return files, nil
	})
	if got := n.run(t, `mount.nfs4 127.0.0.1:/share $TARGET -o rw,nfsvers=4.1,hard,port=$PORT && echo one >$TARGET/file && echo written`); got != "written" {
		t.Fatalf("the first node: %s", got)
	}
	if got := n.run(t, `mount.nfs -o ro,port=$PORT 127.0.0.1:/share $TARGET && cat $TARGET/file; (echo two >$TARGET/file) 2>/dev/null || echo read-only; umount $TARGET; ls $TARGET`); got != "one\nread-only" {
		t.Errorf("the second node: %s", got)
	}
	if left, err := os.ReadFile(filepath.Join(files, "file")); err != nil || string(left) != "one\n" {
		t.Errorf("the server has %q, error %v", left, err)
	}
	if got := n.server.Requests(); len(got) != 2 || got[0] != (Request{Path: "/share", Version: "4.1"}) {
		t.Errorf("the server was asked for %+v", got)
	}
}

// TestErrors: messages and exit codes are the same as mount.nfs's.
func TestErrors(t *testing.T) {
	n := newNode(t, func(r Request) (string, error) {
		return "", map[string]error{"/denied": syscall.EACCES, "/broken": os.ErrInvalid}[r.Path]
	})
	for _, tc := range []struct{ args, want string }{
		{`127.0.0.1:/denied $TARGET -o port=$PORT`, "mount.nfs4: access denied by server while mounting 127.0.0.1:/denied\n32"},
		{`127.0.0.1:/broken $TARGET -o port=$PORT`, "mount.nfs4: Connection reset by peer\n32"},
		{`127.0.0.1:/share $TARGET -o port=9,retry=0`, "mount.nfs4: Connection refused\n32"},
		{`127.0.0.1:/share $TARGET -o port=$PORT,accesspoint=fsap-1`, "mount.nfs4: an incorrect mount option was specified\n32"},
		{`127.0.0.1:/share $TARGET -o port=$PORT,vers=5`, "mount.nfs4: an incorrect mount option was specified\n32"},
		{`127.0.0.1:/share /nowhere -o port=$PORT`, "mount.nfs4: mount point /nowhere does not exist\n32"},
		{`share.example:/share $TARGET`, "mount.nfs4: Failed to resolve server share.example: Name or service not known\n32"},
		{`/share $TARGET`, "mount.nfs4: remote share not in 'host:dir' format\n1"},
	} {
		assert.Equalf(t, tc.want, n.run(t, "mount.nfs4 "+tc.args+"; echo $?"), "mount.nfs4 %s prints", tc.args)
	}
}
