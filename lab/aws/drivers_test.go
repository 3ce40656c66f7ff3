package aws_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/lab/sanity"
)

var runDrivers = flag.Bool("drivers", false, "build the real EBS driver and run it against the cloud")

// ebsProgram returns the EBS driver's program.
func ebsProgram(t *testing.T) string {
	t.Helper()
	if !*runDrivers {
		t.Skip("without -drivers: the driver takes minutes to build; see make prove SUITE=aws")
	}
	return programs.For(t, "aws-ebs-csi-driver")
}

// run starts a driver with nothing in its environment but the variables, in a mount namespace whose /etc is empty: the
// EFS driver writes there. It returns a connection to its socket.
func run(t *testing.T, environment []string, command ...string) *grpc.ClientConn {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a driver in a mount namespace")
	}
	socket := filepath.Join(t.TempDir(), "csi.sock")
	command = append(command, "--endpoint=unix://"+socket, "--v=4")
	process := exec.Command("unshare", append([]string{"--mount", "sh", "-c", `mount -t tmpfs tmpfs /etc && exec "$0" "$@"`}, command...)...)
	process.Env = append(slices.Clone(environment), "PATH="+os.Getenv("PATH"))
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, process.Start())
	ended := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		<-ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the driver's log:\n%s", text)
		}
	})
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	cluster.Eventually(t, time.Minute, "the driver answers", func(ctx context.Context) error {
		select {
		case <-ended:
			return errors.New("it has ended")
		default:
		}
		_, err := csi.NewIdentityClient(connection).Probe(ctx, &csi.ProbeRequest{})
		return err
	})
	return connection
}

// socketOf returns the path of a driver's socket.
func socketOf(connection *grpc.ClientConn) string {
	return strings.TrimPrefix(connection.Target(), "unix://")
}

// made returns how often each action was called, and how it ended.
func made(calls []gateway.Call) string {
	counts := map[string]int{}
	for _, call := range calls {
		name := call.Service + ":" + call.Action
		if call.Error != "" {
			name += " (" + call.Error + ")"
		}
		counts[name]++
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%3d %s", counts[name], name))
	}
	return strings.Join(lines, "\n")
}

var mounted = &csi.VolumeCapability{
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
}

const gib = 1 << 30

// TestEBSDriver: the real controller makes a volume, attaches, expands, snapshots, clones and deletes it, in a private
// region with a CA of its own. Then the cloud is empty again.
func TestEBSDriver(t *testing.T) {
	driver := ebsProgram(t)
	c := aws.Start(t, aws.Options{Region: "sea-west-1", TLS: true, Settle: 200 * time.Millisecond})
	instance, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: "sea-west-1a"})
	require.NoError(t, err)
	user := c.AddUser(t, "ebs", "ec2:*")
	connection := run(t, slices.Concat(c.Environment(t, nil), aws.Variables(user)), driver, "controller", "--extra-tags=team=harbour", "--batching=true")
	client := csi.NewControllerClient(connection)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	create := func(name string, size int64, source *csi.VolumeContentSource) *csi.Volume {
		t.Helper()
		response, err := client.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapabilities: []*csi.VolumeCapability{mounted}, VolumeContentSource: source})
		require.NoErrorf(t, err, "CreateVolume %s", name)
		return response.Volume
	}
	volume := create("pvc-1", 4*gib, nil)
	assert.Equal(t, volume.VolumeId, create("pvc-1", 4*gib, nil).VolumeId, "the second request made")
	if all := c.EC2.Volumes(); len(all) != 1 || all[0].Tags["team"] != "harbour" || all[0].Tags["CSIVolumeName"] != "pvc-1" {
		t.Errorf("the cloud has %+v", all)
	}

	// The cloud throttles for a while, and the driver gets over it.
	c.Inject(gateway.Fault{Action: "AttachVolume", Times: 2, Kind: gateway.Throttled})
	published, err := client.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: volume.VolumeId, NodeId: instance.ID, VolumeCapability: mounted, VolumeContext: volume.VolumeContext})
	require.NoError(t, err)
	require.Equalf(t, c.EC2.Volumes()[0].Attachments[0].Device, published.PublishContext["devicePath"], "got %+v", published)
	_, err = client.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: "vol-0123456789abcdef0", NodeId: instance.ID, VolumeCapability: mounted})
	assert.NotEqual(t, codes.OK, status.Code(err), "a volume that does not exist is attached")
	expanded, err := client.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: volume.VolumeId, CapacityRange: &csi.CapacityRange{RequiredBytes: 8 * gib}})
	if err != nil || expanded.CapacityBytes != 8*gib || c.EC2.Volumes()[0].Size != 8 {
		t.Fatalf("got %+v, error %v", expanded, err)
	}
	snapshot, err := client.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: volume.VolumeId})
	require.NoError(t, err)
	cluster.Eventually(t, time.Minute, "the snapshot is ready", func(ctx context.Context) error {
		again, err := client.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: volume.VolumeId})
		switch {
		case err != nil:
			return err
		case again.Snapshot.SnapshotId != snapshot.Snapshot.SnapshotId || !again.Snapshot.ReadyToUse:
			return fmt.Errorf("it is %+v", again.Snapshot)
		}
		return nil
	})
	restored := create("pvc-2", 8*gib, &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot.Snapshot.SnapshotId}}})
	clone := create("pvc-3", 8*gib, &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume.VolumeId}}})

	_, err = client.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: volume.VolumeId, NodeId: instance.ID})
	require.NoError(t, err)
	_, err = client.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot.Snapshot.SnapshotId})
	require.NoError(t, err)
	for _, v := range []*csi.Volume{restored, clone, volume, volume} { // the last is gone already
		_, err := client.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.VolumeId})
		assert.NoError(t, err, "DeleteVolume")
	}
	if volumes, snapshots := c.EC2.Volumes(), c.EC2.Snapshots(); len(volumes) != 0 || len(snapshots) != 0 {
		t.Errorf("the cloud still has %+v and %+v", volumes, snapshots)
	}
	t.Logf("the driver called:\n%s", made(c.Calls()))
}

// TestEFSDriver: the controller makes an access point with tags and deletes it.
func TestEFSDriver(t *testing.T) {
	driver := programs.For(t, "aws-efs-csi-driver-v3.4.1")
	c := aws.Start(t, aws.Options{Region: "sea-west-1", TLS: true})
	instance, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: "sea-west-1a"})
	require.NoError(t, err)
	fs := c.EFS.AddFileSystem(fileSystem)
	m := c.StartMetadata(t, instance)
	user := c.AddUser(t, "efs", "elasticfilesystem:*")
	connection := run(t, slices.Concat(c.Environment(t, &m), aws.Variables(user)), driver, `--tags=team:harbour path:a\:b`, "--efs-utils-static-files-path="+t.TempDir())
	client := csi.NewControllerClient(connection)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request := &csi.CreateVolumeRequest{Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: gib}, VolumeCapabilities: []*csi.VolumeCapability{mounted},
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fs.ID, "directoryPerms": "700"}}
	volume, err := client.CreateVolume(ctx, request)
	require.NoError(t, err)
	points := c.EFS.AccessPoints()
	if len(points) != 1 || !strings.HasSuffix(volume.Volume.VolumeId, fs.ID+"::"+points[0].ID) || fmt.Sprint(points[0].Tags) != "map[efs.csi.aws.com/cluster:true path:a:b team:harbour]" {
		t.Fatalf("got %+v; the cloud has %+v", volume, points)
	}
	_, err = client.CreateVolume(ctx, request)
	assert.NoError(t, err, "the second request")
	assert.Len(t, c.EFS.AccessPoints(), 1, "after the second request, the cloud has")
	missing := &csi.CreateVolumeRequest{Name: "pvc-2", CapacityRange: request.CapacityRange, VolumeCapabilities: request.VolumeCapabilities, Parameters: maps.Clone(request.Parameters)}
	missing.Parameters["fileSystemId"] = "fs-0aaaaaaaaaaaaaaaa"
	_, err = client.CreateVolume(ctx, missing)
	assert.Equalf(t, codes.InvalidArgument, status.Code(err), "for a file system that does not exist: %v", err)
	denied := c.Inject(gateway.Fault{Action: "DeleteAccessPoint", Kind: gateway.Denied})
	_, err = client.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume.Volume.VolumeId})
	assert.Equalf(t, codes.Unauthenticated, status.Code(err), "%v", err)
	denied()
	for range 2 {
		_, err := client.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume.Volume.VolumeId})
		assert.NoError(t, err, "DeleteVolume")
	}
	assert.Empty(t, c.EFS.AccessPoints(), "the cloud still has")
	t.Logf("the driver called:\n%s", made(c.Calls()))
}

// TestEFSDriverSanity: the EFS controller keeps the rules of the CSI on the fake EFS, in both versions.
func TestEFSDriverSanity(t *testing.T) {
	for _, version := range []string{"v2.1.11", "v3.4.1"} {
		t.Run(version, func(t *testing.T) {
			driver := programs.For(t, "aws-efs-csi-driver-"+version)
			c := aws.Start(t, aws.Options{Region: "sea-west-1", TLS: true})
			instance, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: "sea-west-1a"})
			require.NoError(t, err)
			fs := c.EFS.AddFileSystem(fileSystem)
			m := c.StartMetadata(t, instance)
			user := c.AddUser(t, "efs", "elasticfilesystem:*")
			connection := run(t, slices.Concat(c.Environment(t, &m), aws.Variables(user)), driver, "--efs-utils-static-files-path="+t.TempDir())
			sanity.Check(t, sanity.Options{
				Socket:     socketOf(connection),
				Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fs.ID, "directoryPerms": "700"},
				Skip:       map[string]string{"Node Service": "it mounts, which the matrix shows on real nodes"},
				Fails: map[string]string{
					"Controller Service [Controller Server] CreateVolume should fail when requesting to create a volume with already existing name and different capacity": "access points have no size",
					"Controller Service [Controller Server] CreateVolume should not fail when creating volume with maximum-length name":                                    "the name becomes a path, of which EFS allows 100 characters; the provisioner's are shorter",
				},
				Least: 15,
			})
			assert.Empty(t, c.EFS.AccessPoints(), "the cloud still has")
		})
	}
}

// noID is the reason why the EBS driver fails checks with impossible IDs.
const noID = "EC2 refuses what is no ID, with another error than for an ID that does not exist"

// TestEBSDriverSanity: the real EBS controller keeps the rules of the CSI on the fake EC2.
func TestEBSDriverSanity(t *testing.T) {
	driver := ebsProgram(t)
	c := aws.Start(t, aws.Options{Region: "sea-west-1", TLS: true, Settle: 50 * time.Millisecond})
	instance, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: "sea-west-1a"})
	require.NoError(t, err)
	m := c.StartMetadata(t, instance)
	user := c.AddUser(t, "ebs", "ec2:*")
	connection := run(t, slices.Concat(c.Environment(t, &m), aws.Variables(user)), driver, "all")
	sanity.Check(t, sanity.Options{
		Socket: socketOf(connection),
		Skip:   map[string]string{"Node Service": "it mounts, which the matrix shows on real nodes"},
		Fails: map[string]string{
			"Controller Service [Controller Server] ControllerPublishVolume should fail when the node does not exist":                noID,
			"Controller Service [Controller Server] ControllerPublishVolume should fail when the volume does not exist":              noID,
			"Controller Service [Controller Server] ValidateVolumeCapabilities should fail when the requested volume does not exist": noID,
			"ListSnapshots [Controller Server] should return empty when the specified snapshot id does not exist":                    noID,
			"ListSnapshots [Controller Server] should return next token when a limited number of entries are requested":              "EC2 lists no less than five at a time",
			"ModifyVolume [Controller Server] should fail if volume does not exist":                                                  "without parameters to modify, the driver asks for nothing",
		},
		Least: 50,
	})
	if volumes, snapshots := c.EC2.Volumes(), c.EC2.Snapshots(); len(volumes) != 0 || len(snapshots) != 0 {
		t.Errorf("the cloud still has %+v and %+v", volumes, snapshots)
	}
}
