package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/sanity"
)

// driver is the driver's process, and a client of it.
type driver struct {
	csi.ControllerClient
	csi.NodeClient
	socket  string
	folder  string // with the volumes
	process *os.Process
}

var build = sync.OnceValues(func() (string, error) {
	programs, err := tools.Programs(context.Background(), "./lab/sample")
	return programs.Path("sample"), err
})

// start starts the driver as root of a user namespace and with mounts of its own, which need no root and leave nothing
// behind.
func start(t *testing.T, args ...string) driver {
	t.Helper()
	program, err := build()
	require.NoError(t, err)
	d := driver{folder: t.TempDir(), socket: filepath.Join(t.TempDir(), "csi.sock")}
	cmd := exec.Command(program, append(args, "--endpoint=unix://"+d.socket, "--folder="+d.folder, "--node=pier", "--v=4")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	d.process = cmd.Process
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the driver's log:\n%s", log.String())
		}
	})
	connection := connect(t, d.socket)
	d.ControllerClient, d.NodeClient = csi.NewControllerClient(connection), csi.NewNodeClient(connection)
	return d
}

// connect returns a connection that waits until a socket is served.
func connect(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var mounted = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
}

// create creates a volume, and returns its ID and the folder with its content.
func (d driver) create(t *testing.T, name string, source *csi.VolumeContentSource) (id, content string) {
	t.Helper()
	response, err := d.CreateVolume(limited(t), &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{mounted}, VolumeContentSource: source})
	require.NoError(t, err)
	return response.Volume.VolumeId, filepath.Join(d.folder, folders.Volumes, response.Volume.VolumeId, "content")
}

// seen returns a path as the driver's process sees it, with its mounts.
func (d driver) seen(path string) string {
	return filepath.Join("/proc", strconv.Itoa(d.process.Pid), "root", path)
}

// TestSanity: the driver keeps the rules of the CSI that csi-sanity knows.
func TestSanity(t *testing.T) {
	d := start(t)
	sanity.Check(t, sanity.Options{Socket: d.socket, Least: 40})
	for _, kind := range folders.Kinds {
		if left, err := os.ReadDir(filepath.Join(d.folder, kind)); err != nil || len(left) > 0 {
			t.Errorf("in the folder %s are still %v, %v", kind, left, err)
		}
	}
}

// TestMounts: two pods share a volume, one of them only reads, and repeated requests change nothing.
func TestMounts(t *testing.T) {
	d := start(t)
	id, content := d.create(t, "hold", nil)
	pods := t.TempDir()
	staging, writer, reader := filepath.Join(pods, "staging"), filepath.Join(pods, "writer"), filepath.Join(pods, "reader")
	require.NoError(t, os.Mkdir(staging, 0o755))
	for range 2 {
		_, err := d.NodeStageVolume(limited(t), &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staging, VolumeCapability: mounted})
		require.NoError(t, err)
		for _, target := range []string{writer, reader} {
			if _, err := d.NodePublishVolume(limited(t), &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging, TargetPath: target,
				VolumeCapability: mounted, Readonly: target == reader}); err != nil {
				t.Fatal(err)
			}
		}
	}
	assert.NoError(t, os.WriteFile(d.seen(filepath.Join(writer, "cargo")), []byte("tea"), 0o644))
	for _, file := range []string{d.seen(filepath.Join(reader, "cargo")), filepath.Join(content, "cargo")} {
		if got, err := os.ReadFile(file); err != nil || string(got) != "tea" {
			t.Errorf("%s has %q, %v; want what the other pod wrote", file, got, err)
		}
	}
	assert.ErrorIs(t, os.WriteFile(d.seen(filepath.Join(reader, "cargo")), nil, 0o644), syscall.EROFS, "writing to a read-only volume")
	for range 2 {
		for _, target := range []string{writer, reader} {
			_, err := d.NodeUnpublishVolume(limited(t), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
			require.NoError(t, err)
			_, err = os.Stat(target)
			assert.ErrorIsf(t, err, fs.ErrNotExist, "%s is still there", target)
		}
		_, err := d.NodeUnstageVolume(limited(t), &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging})
		require.NoError(t, err)
	}
	if left, err := os.ReadDir(d.seen(staging)); err != nil || len(left) > 0 {
		t.Errorf("in the staging path are %v, %v; want nothing, as nothing is mounted", left, err)
	}
}

// TestSnapshot: a volume that is restored from a snapshot has the volume's content at the time of the snapshot, with
// its modes and links, and nothing from outside of it.
func TestSnapshot(t *testing.T) {
	d := start(t)
	id, content := d.create(t, "hold", nil)
	for _, err := range []error{
		os.MkdirAll(filepath.Join(content, "deck", "cabin"), 0o750),
		os.WriteFile(filepath.Join(content, "deck", "log"), []byte("day 1"), 0o600),
		os.Chmod(filepath.Join(content, "deck", "log"), 0o640|fs.ModeSetgid),
		os.Symlink("/etc/passwd", filepath.Join(content, "away")),
		os.Symlink("/etc", filepath.Join(content, "folder")),
		syscall.Mkfifo(filepath.Join(content, "pipe"), 0o600),
	} {
		require.NoError(t, err)
	}
	want := slices.DeleteFunc(listing(t, content), func(line string) bool { return strings.HasPrefix(line, "pipe ") })
	snapshot, err := d.CreateSnapshot(limited(t), &csi.CreateSnapshotRequest{Name: "day-1", SourceVolumeId: id})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(content, "deck", "log"), []byte("day 2"), 0o640))
	source := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot.Snapshot.SnapshotId}}}
	_, restored := d.create(t, "restored", source)
	assert.Empty(t, cmp.Diff(want, listing(t, restored)), "the restored volume (-want +got)")
}

// listing returns a line for each entry of a folder: its path, mode, and content.
func listing(t *testing.T, folder string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case info.Mode().IsRegular():
			content, err = os.ReadFile(path)
		case info.Mode()&fs.ModeSymlink != 0:
			var link string
			link, err = os.Readlink(path)
			content = []byte(link)
		}
		name, relErr := filepath.Rel(folder, path)
		lines = append(lines, name+" "+info.Mode().String()+" "+string(content))
		return errors.Join(err, relErr)
	})
	require.NoError(t, err)
	return lines
}

// TestForeignIDs: an ID from a PersistentVolume that somebody wrote leads nowhere.
func TestForeignIDs(t *testing.T) {
	d := start(t)
	_, content := d.create(t, "hold", nil)
	for _, id := range []string{"..", "../volumes", "/", ".", strings.Repeat("0", 32)} {
		_, err := d.DeleteVolume(limited(t), &csi.DeleteVolumeRequest{VolumeId: id})
		assert.NoErrorf(t, err, "delete %q", id)
		_, err = d.NodeStageVolume(limited(t), &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: t.TempDir(), VolumeCapability: mounted})
		assert.Equalf(t, codes.NotFound, status.Code(err), "stage %q: %v", id, err)
	}
	_, err := os.Stat(content)
	assert.NoError(t, err, "the volume is gone")
}

// TestRegistration: the kubelet learns where the driver's socket is.
func TestRegistration(t *testing.T) {
	folder := t.TempDir()
	start(t, "--registration="+folder, "--kubelet-path=/var/lib/kubelet/plugins/sample/csi.sock")
	client := registration.NewRegistrationClient(connect(t, filepath.Join(folder, driverName+"-reg.sock")))
	info, err := client.GetInfo(limited(t), &registration.InfoRequest{})
	require.NoError(t, err)
	if info.Type != registration.CSIPlugin || info.Name != driverName || info.Endpoint != "/var/lib/kubelet/plugins/sample/csi.sock" {
		t.Errorf("the kubelet learns %v", info)
	}
	_, err = client.NotifyRegistrationStatus(limited(t), &registration.RegistrationStatus{PluginRegistered: true})
	assert.NoError(t, err)
}
