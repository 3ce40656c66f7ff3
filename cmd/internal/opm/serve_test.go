package opm_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/cmd/internal/probe"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/ports"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/catalogs/clients"
)

// TestServe: opm serve answers and is healthy even if it cannot write and the folder of its cache belongs to somebody else, and also
// after it was killed. It leaves no files.
func TestServe(t *testing.T) {
	built, err := tools.Programs(t.Context(), "./cmd/opm")
	require.NoError(t, err)
	root := t.TempDir()
	catalogs.Write(t, filepath.Join(root, "configs", "tide.yaml"), tide)
	catalogs.Write(t, filepath.Join(root, "cache", "digest"), "of somebody else")
	nobody := restrict(t, root)
	address := ports.Address(t)
	_, port, _ := net.SplitHostPort(address)
	before := catalogs.Tree(t, root)
	for _, run := range []string{"first", "after a kill"} {
		cmd := exec.CommandContext(t.Context(), built.Path("opm"), "serve", filepath.Join(root, "configs"), "--cache-dir="+filepath.Join(root, "cache"), "-p", port, "-t", os.DevNull)
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), "TMPDIR="+filepath.Join(root, "nowhere")), nobody
		var messages strings.Builder
		cmd.Stderr = &messages
		require.NoError(t, cmd.Start())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		dial := func(ctx context.Context, _ int) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
		packages, err := clients.Packages(ctx, dial)
		if err == nil {
			_, err = clients.Ask(ctx, dial, 1, packages, 50*time.Millisecond)
		}
		var said strings.Builder
		code := probe.Run(ctx, []string{"-addr=:" + port, "-rpc-timeout=5s"}, &said, &said)
		cancel()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err != nil || code != 0 || !cmp.Equal(packages, []string{"tide"}) {
			t.Errorf("%s: packages %q, %v; the probe ends with %d: %s\n%s", run, packages, err, code, &said, &messages)
		}
	}
	assert.Empty(t, cmp.Diff(before, catalogs.Tree(t, root)), "it has changed what is there")
}

// restrict makes a folder read-only for the program, and returns the attributes to run it with.
func restrict(t *testing.T, root string) *syscall.SysProcAttr {
	t.Helper()
	require.NoError(t, os.Chmod(filepath.Join(root, "cache"), 0o700))
	if os.Geteuid() != 0 {
		require.NoError(t, os.Chmod(root, 0o555))
		t.Cleanup(func() { _ = os.Chmod(root, 0o755) })
		return nil
	}
	for folder := root; folder != os.TempDir() && len(folder) > 1; folder = filepath.Dir(folder) {
		require.NoError(t, os.Chmod(folder, 0o755))
	}
	const nobody = 65534
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// TestCacheOnly: the real opm serves from the cache that is made while an image is built.
func TestCacheOnly(t *testing.T) {
	dir, real := t.TempDir(), catalogs.OPM(t)
	catalogs.Write(t, filepath.Join(dir, "catalog", "tide.yaml"), tide)
	t.Chdir(dir)
	if _, _, exit := inProcess(t, nil, strings.Fields("serve catalog --cache-dir=cache --cache-only")); exit != 0 {
		t.Fatalf("exit code %d", exit)
	}
	check := exec.CommandContext(t.Context(), real, "serve", "catalog", "--cache-dir=cache", "--cache-enforce-integrity", "--cache-only", "--pprof-addr=", "-t", os.DevNull)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("opm refuses the cache: %v\n%s", err, out)
	}
}
