package disks_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/aws/disks"
	"github.com/berth-csi/berth/lab/aws/ec2"
)

// newDisks returns disks of instances whose roots are folders.
func newDisks(t *testing.T) (d *disks.Disks, root func(instance string) string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make loop devices")
	}
	dir := t.TempDir()
	root = func(instance string) string { return filepath.Join(dir, instance) }
	d = disks.New(func(instance string) (string, error) { return root(instance), nil })
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, root
}

// device opens the device of a volume in the root of an instance, found as the driver finds it.
func device(t *testing.T, root, volume string) *os.File {
	t.Helper()
	link := filepath.Join(root, "dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"+strings.ReplaceAll(volume, "-", ""))
	path, err := filepath.EvalSymlinks(link)
	require.NoError(t, err)
	require.Equalf(t, filepath.Join(root, "dev"), filepath.Dir(path), "the device of %s", volume)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func size(t *testing.T, device *os.File) int64 {
	t.Helper()
	end, err := device.Seek(0, 2)
	require.NoError(t, err)
	return end
}

const gib = 1 << 30

func write(t *testing.T, device *os.File, text string, at int64) {
	t.Helper()
	_, err := device.WriteAt([]byte(text), at)
	require.NoError(t, err)
	require.NoError(t, device.Sync())
}

func wantText(t *testing.T, device *os.File, text string, at int64) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := device.ReadAt(got, at); err != nil || !bytes.Equal(got, []byte(text)) {
		t.Errorf("at %d there is %q (error %v), want %q", at, got, err, text)
	}
}

// TestVolumes: data written to a volume is there on the next instance, in snapshots and in volumes made from these, and the device of a
// volume grows while it is open.
func TestVolumes(t *testing.T) {
	t.Parallel()
	d, root := newDisks(t)
	volume, first, second := ec2.Volume{ID: "vol-0a", Size: 1}, ec2.Attachment{InstanceID: "i-1"}, ec2.Attachment{InstanceID: "i-2"}
	require.NoError(t, d.Create(volume))
	require.NoError(t, d.Attach(volume, first))
	there := device(t, root("i-1"), volume.ID)
	assert.EqualValues(t, gib, size(t, there), "the device has")
	write(t, there, "first", gib/2)

	volume.Size = 3
	require.NoError(t, d.Resize(volume))
	assert.EqualValues(t, 3*gib, size(t, there), "after the modification, the device has")
	write(t, there, "last", 3*gib-4096)
	require.NoError(t, d.Snapshot(ec2.Snapshot{ID: "snap-0a", VolumeID: volume.ID, Size: 3}))
	write(t, there, "later", gib/2)
	clone, restored := ec2.Volume{ID: "vol-0b", Size: 3, SourceID: volume.ID}, ec2.Volume{ID: "vol-0c", Size: 4, SnapshotID: "snap-0a"}
	require.NoError(t, d.Create(clone))
	require.NoError(t, d.Create(restored))
	require.NoError(t, there.Close())
	require.NoError(t, d.Detach(volume, first))

	for _, v := range []ec2.Volume{volume, clone, restored} {
		require.NoError(t, d.Attach(v, second))
	}
	wantText(t, device(t, root("i-2"), volume.ID), "later", gib/2)
	wantText(t, device(t, root("i-2"), clone.ID), "later", gib/2)
	wantText(t, device(t, root("i-2"), restored.ID), "first", gib/2)
	wantText(t, device(t, root("i-2"), restored.ID), "last", 3*gib-4096)
	assert.EqualValues(t, 4*gib, size(t, device(t, root("i-2"), restored.ID)), "the restored volume has")
	left, _ := filepath.Glob(root("i-1") + "/dev/*/*/*")
	assert.Empty(t, left, "the first instance still has")
}

// TestSharedVolume: two instances with one volume see each other's writes.
func TestSharedVolume(t *testing.T) {
	t.Parallel()
	d, root := newDisks(t)
	volume := ec2.Volume{ID: "vol-0a", Size: 1, MultiAttach: true}
	require.NoError(t, d.Create(volume))
	for _, instance := range []string{"i-1", "i-2"} {
		require.NoError(t, d.Attach(volume, ec2.Attachment{InstanceID: instance}))
	}
	write(t, device(t, root("i-1"), volume.ID), "shared", 0)
	require.NoError(t, d.Detach(volume, ec2.Attachment{InstanceID: "i-1"}))
	wantText(t, device(t, root("i-2"), volume.ID), "shared", 0)
}

// TestVolumeInUse: a volume that is in use is not detached before that ends.
func TestVolumeInUse(t *testing.T) {
	t.Parallel()
	d, root := newDisks(t)
	volume, attachment := ec2.Volume{ID: "vol-0a", Size: 1}, ec2.Attachment{InstanceID: "i-1"}
	require.NoError(t, d.Create(volume))
	require.NoError(t, d.Attach(volume, attachment))
	there := device(t, root("i-1"), volume.ID)
	assert.ErrorContains(t, d.Detach(volume, attachment), "vol-0a is still in use", "while it is in use, Detach returns")
	require.NoError(t, there.Close())
	require.NoError(t, d.Detach(volume, attachment))
	require.NoError(t, d.Attach(volume, ec2.Attachment{InstanceID: "i-2"}))
}

// TestMissing: disks and instances that do not exist are errors.
func TestMissing(t *testing.T) {
	d, _ := newDisks(t)
	for name, err := range map[string]error{
		"Create":   d.Create(ec2.Volume{ID: "vol-0a", Size: 1, SnapshotID: "snap-0a"}),
		"Snapshot": d.Snapshot(ec2.Snapshot{ID: "snap-0a", VolumeID: "vol-0a"}),
		"Resize":   d.Resize(ec2.Volume{ID: "vol-0a", Size: 1}),
		"Attach":   d.Attach(ec2.Volume{ID: "vol-0a", Size: 1}, ec2.Attachment{InstanceID: "i-1"}),
		"Delete":   d.Delete("vol-0a"),
	} {
		assert.ErrorContainsf(t, err, "no content of", "%s returns", name)
	}
}

// TestNothingIsLeft: a program that is killed while a volume is attached leaves nothing behind.
func TestNothingIsLeft(t *testing.T) {
	if dir, killed := os.LookupEnv("DISKS_KILLED"); killed {
		d := disks.New(func(string) (string, error) { return dir, nil })
		volume := ec2.Volume{ID: "vol-0a", Size: 1}
		require.NoError(t, d.Create(volume))
		require.NoError(t, d.Attach(volume, ec2.Attachment{InstanceID: "i-1"}))
		var stat unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(dir, "dev/nvme1n1"), &stat))
		fmt.Printf("loop%d\n", unix.Minor(stat.Rdev))
		require.NoError(t, unix.Kill(os.Getpid(), unix.SIGKILL))
		select {}
	}
	newDisks(t) // skips without root
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingIsLeft$")
	cmd.Env = append(os.Environ(), "DISKS_KILLED="+t.TempDir(), "TMPDIR="+temp)
	out, err := cmd.Output()
	name := strings.TrimSpace(string(out))
	if exit, ok := err.(*exec.ExitError); !ok || exit.String() != "signal: killed" || !strings.HasPrefix(name, "loop") {
		t.Fatalf("the program printed %q and ended with %v", out, err)
	}
	// A loop device of somebody else may have that name now.
	if file, err := os.ReadFile(filepath.Join("/sys/block", name, "loop/backing_file")); err == nil && strings.Contains(string(file), temp) {
		t.Errorf("%s still has %s", name, file)
	}
	left, _ := os.ReadDir(temp)
	assert.Empty(t, left)
}
