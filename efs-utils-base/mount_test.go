package base

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/authority"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/nfs"
)

// options are the driver's mount options, with the earlier kind of tunnel.
var options = "tls,stunnel,tlsport=" + port + ",region=eu-central-1,accesspoint=" + accessPoint

// mount mounts the file system, as the driver does.
func mount(t *testing.T, c container) (string, error) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(c.root, "mnt"), 0o755))
	return c.run(t, "mount", "-t", "efs", "-o", options, fileSystem+":/", "/mnt")
}

// checkStranger: a server with a certificate of another authority gets no data.
func checkStranger(t *testing.T, root string) {
	stranger, err := authority.New("Stranger")
	require.NoError(t, err)
	c := start(t, root)
	startServer(t, c, stranger)
	if out, err := mount(t, c); err == nil || !strings.Contains(out, "reset by peer") {
		t.Errorf("mount: %v\n%s\nwant that the tunnel ends the connection", err, out)
	}
	forget(t, root)
}

// forget removes the state of a mount from the node.
func forget(t *testing.T, root string) {
	t.Helper()
	for _, folder := range []string{"run/efs", "var/log/amazon/efs"} {
		require.NoError(t, os.RemoveAll(filepath.Join(root, folder)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(root, "var/log/amazon/efs"), 0o755))
	for _, file := range []string{"test/mounts", "test/commands"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, file), nil, 0o644))
	}
}

// checkMount: mount.efs resolves the file system's name, writes its state and a certificate, starts stunnel, and runs
// mount.nfs4.
func checkMount(t *testing.T, root string, ca *authority.Authority) {
	c := start(t, root)
	s := startServer(t, c, ca)
	if out, err := mount(t, c); err != nil {
		t.Fatalf("mount: %v\n%s\n%s", err, out, c.logs())
	}
	var command []string
	content, err := os.ReadFile(filepath.Join(root, "test/commands"))
	require.NoError(t, err)
	require.NoErrorf(t, json.Unmarshal(content, &command), "mount.nfs4 ran as %q, want once", content)
	want := []string{"/sbin/mount.nfs4", "127.0.0.1:/", "/mnt", "-o",
		"rw,nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,port=" + port}
	assert.Empty(t, cmp.Diff(want, command), "mount.nfs4 (-want +got)")
	s.mu.Lock()
	certificate := s.certificate
	s.mu.Unlock()
	if fs, ap, err := nfs.ReadCertificate(certificate); err != nil || fs != fileSystem || ap != accessPoint {
		t.Errorf("the server saw a certificate for %q, %q (%v), want %s, %s", fs, ap, err, fileSystem, accessPoint)
	}

	got := c.readState(t)
	for key, want := range (state{
		"cmd":         []any{"/usr/bin/stunnel", "/var/run/efs/stunnel-config." + fileSystem + ".mnt." + port},
		"mountpoint":  "/mnt",
		"fsId":        fileSystem,
		"accessPoint": accessPoint,
		"region":      "eu-central-1",
		"privateKey":  "/etc/amazon/efs/privateKey.pem",
		"certificate": "/var/run/efs/" + fileSystem + ".mnt." + port + "+/certificate.pem",
	}) {
		assert.Emptyf(t, cmp.Diff(want, got[key]), "%s of the state (-want +got)", key)
	}
	onNode := "run/efs/" + fileSystem + ".mnt." + port + "+/certificate.pem"
	if written := strings.TrimSpace(c.read(t, onNode)); written == "" || !strings.Contains(string(certificate), written) {
		t.Errorf("the server saw\n%s\nand %s has\n%s", certificate, onNode, written)
	}
	if _, err := os.Stat(filepath.Join(root, "var/amazon/efs/privateKey.pem")); err != nil {
		t.Errorf("the key is not where the node keeps it: %v", err)
	}
}

// checkWatchdog: a tunnel that is killed comes back with the watchdog, and not without it.
func checkWatchdog(t *testing.T, root string, ca *authority.Authority) {
	forget(t, root)
	c := start(t, root)
	startServer(t, c, ca)
	if out, err := mount(t, c); err != nil {
		t.Fatalf("mount: %v\n%s\n%s", err, out, c.logs())
	}
	first := c.readState(t)["pid"]
	if out, err := c.run(t, "/bin/sh", "-c", fmt.Sprintf("kill -9 %v", first)); err != nil {
		t.Fatalf("kill the tunnel: %v\n%s", err, out)
	}
	cluster.Eventually(t, limit, "the tunnel to end", func(context.Context) error {
		if c.answers(t) {
			return errors.New("the server still answers")
		}
		return nil
	})
	c.spawn(t, "amazon-efs-mount-watchdog")
	c.mustAnswer(t)
	if second := c.readState(t)["pid"]; second == first {
		t.Errorf("the state has the tunnel's former process %v", first)
	}
}

// mustAnswer waits until the server answers at the tunnel's port.
func (c container) mustAnswer(t *testing.T) {
	t.Helper()
	began := time.Now()
	cluster.Eventually(t, limit, "the tunnel", func(context.Context) error {
		if !c.answers(t) {
			return fmt.Errorf("the server does not answer; logs:\n%s", c.logs())
		}
		return nil
	})
	t.Logf("the tunnel is back after %s", time.Since(began).Round(100*time.Millisecond))
}

// tunnels are the paths that the images of earlier versions of the driver had tunnels at, with the system that they were on.
var tunnels = map[string]string{
	"/usr/bin/stunnel":    "all but Amazon Linux 2",
	"/bin/stunnel":        "all but Amazon Linux 2",
	"/usr/bin/stunnel5":   "Amazon Linux 2",
	"/sbin/efs-proxy":     "Amazon Linux, RHEL",
	"/usr/sbin/efs-proxy": "Amazon Linux, RHEL",
	"/usr/bin/efs-proxy":  "Debian",
}

// checkAdopted: on a node with mounts by another image, whose tunnels ended with it, the watchdog restarts the tunnels
// from the node's folders alone.
func checkAdopted(t *testing.T, root string, ca *authority.Authority) {
	forget(t, root)
	earlier := start(t, root)
	startServer(t, earlier, ca)
	if out, err := mount(t, earlier); err != nil {
		t.Fatalf("mount: %v\n%s\n%s", err, out, earlier.logs())
	}
	left := earlier.readState(t)
	forProxy := filepath.Join(root, "run/efs/config-of-efs-proxy")
	stunnelConfig := left["cmd"].([]any)[1].(string)
	write(t, forProxy, earlier.read(t, strings.TrimPrefix(stunnelConfig, "/var"))+"\nfs_id = "+fileSystem+"\nregion = eu-central-1", 0o644)
	for _, path := range slices.Sorted(maps.Keys(tunnels)) {
		t.Run(path, func(t *testing.T) {
			c := start(t, root)
			startServer(t, c, ca)
			changed := maps.Clone(left)
			changed["cmd"] = []string{path, stunnelConfig}
			isProxy := strings.HasSuffix(path, "efs-proxy")
			if isProxy {
				changed["cmd"] = []string{path, strings.TrimPrefix(forProxy, root), "--tls", "--no-direct-s3-read"}
			}
			content, err := json.Marshal(changed)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(c.statePath(), content, 0o644))
			if c.answers(t) {
				t.Fatal("the server answers before there is a tunnel")
			}
			c.spawn(t, "amazon-efs-mount-watchdog")
			if isProxy {
				c.mustRun(t, path)
				return
			}
			c.mustAnswer(t)
		})
	}
}

// mustRun waits until the process of the state is a program that has started. The stand-in for efs-proxy speaks no TLS,
// so the server does not answer.
func (c container) mustRun(t *testing.T, program string) {
	t.Helper()
	pidFile := "run/efs/" + fileSystem + ".mnt." + port + "+/stunnel.pid"
	cluster.Eventually(t, limit, program+" to run", func(context.Context) error {
		pid, written := fmt.Sprint(c.readState(t)["pid"]), strings.TrimSpace(c.read(t, pidFile))
		line, err := c.run(t, "/bin/sh", "-c", "tr '\\0' ' ' </proc/"+pid+"/cmdline")
		if err != nil || pid != written || !strings.HasPrefix(line, program+" ") {
			return fmt.Errorf("the state has process %s, and %s has %q; its command is %q; logs:\n%s", pid, pidFile, written, line, c.logs())
		}
		return nil
	})
}
