package openstack_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/lab/programs"
)

var runDrivers = flag.Bool("drivers", false, "build the real Manila and Cinder drivers and run them against the cloud")

const (
	gib = 1 << 30
	// driverLimit is how long a driver may take for one request, on a busy machine.
	driverLimit = 3 * time.Minute
)

// program returns a driver's program.
func program(t *testing.T, name string) string {
	t.Helper()
	if !*runDrivers {
		t.Skip("builds and runs a real driver: make prove SUITE=openstack")
	}
	return programs.For(t, name)
}

// driver is a driver that runs as a local process, and a client of its socket.
type driver struct {
	csi.IdentityClient
	csi.ControllerClient
	csi.NodeClient
	secrets map[string]string // of each request
	socket  string
}

// command returns a driver's command with an environment independent of this machine.
func command(ctx context.Context, path, folder string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = folder, []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH"), "NO_PROXY=*"}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	return cmd, &log
}

// startDriver starts a driver in a folder until the test ends.
func startDriver(t *testing.T, path, folder string, secrets map[string]string, args ...string) *driver {
	t.Helper()
	return startDriverWith(t, (*exec.Cmd).Start, path, folder, secrets, args...)
}

func startDriverWith(t *testing.T, start func(*exec.Cmd) error, path, folder string, secrets map[string]string, args ...string) *driver {
	t.Helper()
	socket := filepath.Join(folder, "csi.sock")
	cmd, log := command(context.WithoutCancel(t.Context()), path, folder, append(args, "--endpoint=unix://"+socket, "--v=4")...)
	require.NoError(t, start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(path), log)
		}
	})
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}}))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	d := &driver{csi.NewIdentityClient(connection), csi.NewControllerClient(connection), csi.NewNodeClient(connection), secrets, socket}
	_, err = d.GetPluginInfo(limited(t), &csi.GetPluginInfoRequest{})
	require.NoError(t, err, "the driver does not serve its socket")
	return d
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), driverLimit)
	t.Cleanup(cancel)
	return ctx
}

var anyPod = []*csi.VolumeCapability{{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
}}

func (d *driver) create(t *testing.T, name string, size int64, change ...func(*csi.CreateVolumeRequest)) (*csi.Volume, error) {
	request := &csi.CreateVolumeRequest{Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: size * gib}, VolumeCapabilities: anyPod, Secrets: d.secrets,
		Parameters: map[string]string{"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop", "csi.storage.k8s.io/pv/name": name}}
	for _, do := range change {
		do(request)
	}
	response, err := d.CreateVolume(limited(t), request)
	return response.GetVolume(), err
}

func (d *driver) snapshot(t *testing.T, name, of string, parameters map[string]string) (*csi.Snapshot, error) {
	response, err := d.CreateSnapshot(limited(t), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: of, Secrets: d.secrets, Parameters: parameters})
	return response.GetSnapshot(), err
}

func (d *driver) expand(t *testing.T, id string, size int64) (int64, error) {
	response, err := d.ControllerExpandVolume(limited(t), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: size * gib}, Secrets: d.secrets})
	return response.GetCapacityBytes() / gib, err
}

func (d *driver) delete(t *testing.T, id string) error {
	_, err := d.DeleteVolume(limited(t), &csi.DeleteVolumeRequest{VolumeId: id, Secrets: d.secrets})
	return err
}

func (d *driver) deleteSnapshot(t *testing.T, id string) error {
	_, err := d.DeleteSnapshot(limited(t), &csi.DeleteSnapshotRequest{SnapshotId: id, Secrets: d.secrets})
	return err
}

func fromSnapshot(id string) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
	}
}

func parameter(name, value string) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) { r.Parameters[name] = value }
}

// wantCalls checks which requests the cloud has received, each kind once and in any order.
func wantCalls(t *testing.T, cloud *openstack.Cloud, want ...string) {
	t.Helper()
	found := map[string]bool{}
	for _, call := range cloud.Calls() {
		found[call.String()] = true
	}
	slices.Sort(want)
	assert.Empty(t, cmp.Diff(want, slices.Sorted(maps.Keys(found))), "calls (-want +got)")
}

func wantCode(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if status.Code(err) != code || (err != nil && !strings.Contains(err.Error(), message)) {
		t.Errorf("error %v, want %s with %q", err, code, message)
	}
}

// fileSecrets are the secrets of the Secret csi-manila-secrets: the credentials are in clouds.yaml.
func fileSecrets() map[string]string {
	return map[string]string{"os-cloud": "openstack", "os-useClouds": "true", "os-cloudsFile": "/etc/openstack/clouds.yaml"}
}

// startManila starts the Manila driver with the arguments that our Deployment has. The driver finds clouds.yaml in its
// folder: it ignores os-cloudsFile.
func startManila(t *testing.T, path string, secrets map[string]string, cloudsYAML []byte) *driver {
	t.Helper()
	folder := t.TempDir()
	if cloudsYAML != nil {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "clouds.yaml"), cloudsYAML, 0o600))
	}
	return startDriver(t, path, folder, secrets, "--provide-controller-service=true", "--provide-node-service=false", "--drivername=manila.csi.openstack.org",
		"--share-protocol-selector=NFS", "--fwdendpoint=unix:///csi/csi-nfs.sock", "--cluster-id=harbour-x7")
}

func TestManilaDriver(t *testing.T) {
	path := program(t, "manila-csi-plugin")
	t.Run("lifecycle", func(t *testing.T) { testManilaLifecycle(t, path) })
	t.Run("logins", func(t *testing.T) { testManilaLogins(t, path) })
	t.Run("errors", func(t *testing.T) { testManilaErrors(t, path) })
}

func testManilaLifecycle(t *testing.T, path string) {
	cloud := openstack.Start(t, "default", "gold")
	d := startManila(t, path, fileSecrets(), cloud.Login().CloudsYAML())
	// Every sidecar probes the driver before anything else, and the driver passes that on, even without a node service.
	_, err := d.Probe(limited(t), &csi.ProbeRequest{})
	wantCode(t, err, codes.Unavailable, "csi-nfs.sock")

	volume := must[*csi.Volume](t)(d.create(t, "pvc-1", 2, parameter("type", "gold")))
	share := cloud.Shares()[0]
	if volume.VolumeId != share.ID || share.Type != "gold" || share.Size != 2 || len(share.Rules) != 1 || share.Rules[0].State != "active" || share.Rules[0].To != "0.0.0.0/0" ||
		volume.VolumeContext["shareID"] != share.ID || volume.VolumeContext["shareAccessIDs"] != share.Rules[0].ID {
		t.Errorf("volume %v of share %+v", volume, share)
	}
	wantMetadata := map[string]string{"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop", "csi.storage.k8s.io/pv/name": "pvc-1",
		"manila.csi.openstack.org/cluster": "harbour-x7"}
	assert.Empty(t, cmp.Diff(wantMetadata, share.Metadata), "metadata (-want +got)")
	if again := must[*csi.Volume](t)(d.create(t, "pvc-1", 2, parameter("type", "gold"))); again.VolumeId != volume.VolumeId || len(cloud.Shares()) != 1 || len(cloud.Shares()[0].Rules) != 1 {
		t.Errorf("the second time volume %v, shares %+v", again, cloud.Shares())
	}
	if size := must[int64](t)(d.expand(t, volume.VolumeId, 4)); size != 4 || cloud.Shares()[0].Size != 4 {
		t.Errorf("expanded to %d GiB, the share has %d", size, cloud.Shares()[0].Size)
	}
	snapshot := must[*csi.Snapshot](t)(d.snapshot(t, "snap-1", volume.VolumeId, nil))
	assert.False(t, snapshot.ReadyToUse, "the snapshot is ready at once; the driver was seen not to wait for it")
	if snapshot = must[*csi.Snapshot](t)(d.snapshot(t, "snap-1", volume.VolumeId, nil)); !snapshot.ReadyToUse || snapshot.SizeBytes != 4*gib {
		t.Errorf("snapshot %v, want a ready one: the snapshotter asks until it is", snapshot)
	}
	wantCode(t, d.delete(t, volume.VolumeId), codes.Internal, "dependent snapshots")
	restored := must[*csi.Volume](t)(d.create(t, "pvc-2", 4, fromSnapshot(snapshot.SnapshotId), parameter("type", "gold")))
	if got := cloud.Shares()[1]; got.ID != restored.VolumeId || got.SnapshotID != snapshot.SnapshotId {
		t.Errorf("restored volume %v, share %+v", restored, got)
	}
	for _, err := range []error{d.deleteSnapshot(t, snapshot.SnapshotId), d.delete(t, restored.VolumeId), d.delete(t, volume.VolumeId), d.delete(t, volume.VolumeId)} {
		assert.NoError(t, err)
	}
	if len(cloud.Shares()) > 0 || len(cloud.ShareSnapshots()) > 0 {
		t.Errorf("left %+v and %+v", cloud.Shares(), cloud.ShareSnapshots())
	}
	wantCalls(t, cloud,
		"keystone POST /v3/auth/tokens = 201",
		"manila GET / @2.37 = 200",
		"manila GET /shares/detail ?name @2.37 = 200",
		"manila POST /shares @2.37 = 200",
		"manila GET /shares/{id} @2.37 = 200",
		"manila POST /shares/{id}/action access_list @2.37 = 200",
		"manila POST /shares/{id}/action allow_access @2.37 = 200",
		"manila POST /shares/{id}/action extend @2.37 = 202",
		"manila GET /snapshots/detail ?name @2.37 = 200",
		"manila POST /snapshots @2.37 = 202",
		"manila GET /snapshots/{id} @2.37 = 200",
		"manila DELETE /shares/{id} @2.37 = 403",
		"manila DELETE /snapshots/{id} @2.37 = 202",
		"manila DELETE /shares/{id} @2.37 = 202",
		"manila DELETE /shares/{id} @2.37 = 404",
	)
}

// testManilaLogins: every way to log in that a Secret can describe.
func testManilaLogins(t *testing.T, path string) {
	cloud := openstack.StartWith(t, openstack.Options{ShareTypes: []string{"default"}, TLS: true})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, cloud.CA(), 0o600))
	login := func(l openstack.Login, caFile string) openstack.Login {
		l.CAFile = caFile
		return l
	}
	inline := cloud.Login().ManilaSecrets()
	inline["os-certAuthority"] = string(cloud.CA())
	wrong := login(cloud.Login(), ca)
	wrong.Password = "guessed"
	insecureLogin := cloud.Login().ManilaSecrets()
	insecureLogin["os-TLSInsecure"] = "true"
	noRegion := login(cloud.Login(), ca).ManilaSecrets()
	delete(noRegion, "os-region")
	// OpenShift 4.5's operator wrote the user's domain twice.
	former := login(cloud.Login(), ca).ManilaSecrets()
	former["os-domainName"] = former["os-userDomainName"]
	both := wrong.ManilaSecrets()
	maps.Copy(both, fileSecrets())
	for name, test := range map[string]struct {
		secrets map[string]string
		file    []byte // clouds.yaml
		message string // of the error
	}{
		"password, path of the CA":               {secrets: login(cloud.Login(), ca).ManilaSecrets()},
		"password, the CA itself":                {secrets: inline},
		"password, no verification":              {secrets: insecureLogin},
		"application credential":                 {secrets: login(cloud.LoginWithCredential(""), ca).ManilaSecrets()},
		"clouds.yaml with password":              {secrets: fileSecrets(), file: login(cloud.Login(), ca).CloudsYAML()},
		"clouds.yaml with an application":        {secrets: fileSecrets(), file: login(cloud.LoginWithCredential(""), ca).CloudsYAML()},
		"of OpenShift 4.5":                       {secrets: former, file: cloud.CloudsYAML()},
		"of OpenShift 4.5, and clouds.yaml":      {secrets: both, file: login(cloud.Login(), ca).CloudsYAML(), message: "The request you have made requires authentication."},
		"no CA":                                  {secrets: cloud.Login().ManilaSecrets(), message: "certificate signed by unknown authority"},
		"clouds.yaml, verify: false is not read": {secrets: fileSecrets(), file: bytes.ReplaceAll(cloud.Login().CloudsYAML(), []byte("verify: true"), []byte("verify: false")), message: "certificate signed by unknown authority"},
		"clouds.yaml, the CA is not there":       {secrets: fileSecrets(), file: cloud.CloudsYAML(), message: "ca-bundle.pem certificate: open"},
		"no clouds.yaml":                         {secrets: fileSecrets(), message: "failed to read clouds.yaml"},
		"no region":                              {secrets: noRegion, message: "/land-1/share/v2/"},
		"wrong password":                         {secrets: wrong.ManilaSecrets(), message: "The request you have made requires authentication."},
	} {
		t.Run(name, func(t *testing.T) {
			d := startManila(t, path, test.secrets, test.file)
			volume, err := d.create(t, "pvc-1", 1)
			if test.message != "" {
				wantCode(t, err, codes.Unauthenticated, test.message)
				return
			}
			require.NoError(t, err)
			if err := d.delete(t, volume.VolumeId); err != nil || len(cloud.Shares()) > 0 {
				t.Errorf("error %v, left %+v", err, cloud.Shares())
			}
		})
	}
}

// testManilaErrors: the driver's errors for the cloud's refusals, and that it leaves nothing behind.
func testManilaErrors(t *testing.T, path string) {
	cloud := openstack.Start(t, "default")
	cloud.AddShareType(openstack.ShareType{Name: "plain", ExtraSpecs: map[string]string{"create_share_from_snapshot_support": "False"}})
	d := startManila(t, path, cloud.Login().ManilaSecrets(), nil)
	for detail, code := range map[string]codes.Code{openstack.NoStorage: codes.OutOfRange, openstack.NoNetwork: codes.InvalidArgument, openstack.NoZone: codes.ResourceExhausted,
		openstack.NoCapability: codes.InvalidArgument, openstack.NoCapacity: codes.OutOfRange} {
		cloud.Fail(openstack.CreateShare, detail)
		_, err := d.create(t, "failed", 1)
		wantCode(t, err, code, "is in error state")
		assert.Emptyf(t, cloud.Shares(), "detail %s leaves", detail)
	}
	cloud.SetQuota(openstack.Quota{ShareGigabytes: 3})
	_, err := d.create(t, "large", 4)
	wantCode(t, err, codes.Internal, "ShareSizeExceedsAvailableQuota")
	_, err = d.create(t, "unknown", 1, parameter("type", "gold"))
	wantCode(t, err, codes.Internal, "Share type not found.")

	volume := must[*csi.Volume](t)(d.create(t, "pvc-1", 1, parameter("type", "plain")))
	_, err = d.create(t, "pvc-1", 2, parameter("type", "plain"))
	wantCode(t, err, codes.AlreadyExists, "size mismatch")
	_, err = d.snapshot(t, "snap", volume.VolumeId, nil)
	wantCode(t, err, codes.InvalidArgument, "must advertise snapshot_support and create_share_from_snapshot_support")
	_, err = d.expand(t, volume.VolumeId, 9)
	wantCode(t, err, codes.Unknown, "exceeds allowed project/user or share type gigabytes quota")
	cloud.Inject(openstack.Fault{Service: openstack.Manila, Method: "DELETE", Code: 503, Times: 1})
	wantCode(t, d.delete(t, volume.VolumeId), codes.Internal, "The server is currently unavailable.")
	cloud.ExpireTokens() // of earlier requests: the driver logs in for each
	assert.NoError(t, d.delete(t, volume.VolumeId))

	cloud.SetLatency(time.Second) // less than the driver waits until it asks again
	slow := must[*csi.Volume](t)(d.create(t, "slow", 1))
	cloud.SetLatency(0)
	if err := d.delete(t, slow.VolumeId); err != nil || len(cloud.Shares()) > 0 {
		t.Errorf("error %v, left %+v", err, cloud.Shares())
	}
}

// startCinder starts the Cinder driver's controller, which logs in at once.
func startCinder(t *testing.T, path string, login openstack.Login) *driver {
	t.Helper()
	folder := t.TempDir()
	return startDriver(t, path, folder, nil, cinderArguments(t, folder, login)...)
}

func cinderArguments(t *testing.T, folder string, login openstack.Login) []string {
	t.Helper()
	conf := filepath.Join(folder, "cloud.conf")
	require.NoError(t, os.WriteFile(conf, login.CloudConf(), 0o600))
	return []string{"--cloud-config=" + conf, "--cluster=harbour-x7", "--provide-controller-service=true", "--provide-node-service=false"}
}

func TestCinderDriver(t *testing.T) {
	path := program(t, "cinder-csi-plugin")
	t.Run("lifecycle", func(t *testing.T) { testCinderLifecycle(t, path) })
	t.Run("errors", func(t *testing.T) { testCinderErrors(t, path) })
	t.Run("wrong password", func(t *testing.T) {
		cloud, folder := openstack.Start(t), t.TempDir()
		login := cloud.Login()
		login.Password = "guessed"
		cmd, log := command(limited(t), path, folder, append(cinderArguments(t, folder, login), "--endpoint=unix://"+filepath.Join(folder, "csi.sock"))...)
		if err := cmd.Run(); err != nil || !strings.Contains(log.String(), "The request you have made requires authentication.") {
			t.Errorf("error %v, want an exit with code 0, and the reason in the log:\n%s", err, log)
		}
	})
}

func testCinderLifecycle(t *testing.T, path string) {
	cloud := openstack.Start(t)
	var disks []string
	cloud.SetDisks(openstack.Disks{
		Attach: func(a openstack.Attachment) error { disks = append(disks, "attach "+a.Device); return nil },
		Detach: func(a openstack.Attachment) error { disks = append(disks, "detach "+a.Device); return nil },
		Extend: func(a openstack.Attachment) error { disks = append(disks, "extend "+a.Device); return nil },
	})
	instance := cloud.AddInstance("worker-0")
	d := startCinder(t, path, cloud.LoginWithCredential(""))
	volume := must[*csi.Volume](t)(d.create(t, "pvc-1", 2, parameter("type", "fast"), parameter("availability", "nova")))
	if got := cloud.Volumes()[0]; got.ID != volume.VolumeId || got.Type != "fast" || got.Size != 2 || got.Metadata["cinder.csi.openstack.org/cluster"] != "harbour-x7" ||
		volume.AccessibleTopology[0].Segments["topology.cinder.csi.openstack.org/zone"] != "nova" {
		t.Errorf("volume %v, in the cloud %+v", volume, got)
	}
	if again := must[*csi.Volume](t)(d.create(t, "pvc-1", 2)); again.VolumeId != volume.VolumeId || len(cloud.Volumes()) != 1 {
		t.Errorf("the second time volume %v, in the cloud %+v", again, cloud.Volumes())
	}
	for range 2 { // idempotent
		published := must[*csi.ControllerPublishVolumeResponse](t)(d.ControllerPublishVolume(limited(t), &csi.ControllerPublishVolumeRequest{VolumeId: volume.VolumeId, NodeId: instance.ID, VolumeCapability: anyPod[0]}))
		assert.Equal(t, "/dev/vdb", published.PublishContext["DevicePath"], "published as")
	}
	if size := must[int64](t)(d.expand(t, volume.VolumeId, 3)); size != 3 || cloud.Volumes()[0].Size != 3 {
		t.Errorf("expanded to %d GiB, the volume has %d", size, cloud.Volumes()[0].Size)
	}
	_, err := d.snapshot(t, "snap-1", volume.VolumeId, nil)
	wantCode(t, err, codes.Internal, "status must be available, but current status is: in-use.")
	var snapshot *csi.Snapshot
	for range 2 {
		if snapshot = must[*csi.Snapshot](t)(d.snapshot(t, "snap-1", volume.VolumeId, map[string]string{"force-create": "true"})); !snapshot.ReadyToUse || snapshot.SizeBytes != 3*gib {
			t.Errorf("snapshot %v", snapshot)
		}
	}
	restored := must[*csi.Volume](t)(d.create(t, "pvc-2", 4, fromSnapshot(snapshot.SnapshotId)))
	clone := must[*csi.Volume](t)(d.create(t, "pvc-3", 3, func(r *csi.CreateVolumeRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume.VolumeId}}}
	}))
	var listed []string
	for token := ""; ; {
		page := must[*csi.ListVolumesResponse](t)(d.ListVolumes(limited(t), &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: token}))
		for _, entry := range page.Entries {
			listed = append(listed, entry.Volume.VolumeId)
		}
		if token = page.NextToken; token == "" {
			break
		}
	}
	assert.Empty(t, cmp.Diff([]string{clone.VolumeId, restored.VolumeId, volume.VolumeId}, listed), "volumes (-want +got)")
	wantCode(t, d.delete(t, volume.VolumeId), codes.Internal, "it's still attached to a node")
	for range 2 {
		_, err := d.ControllerUnpublishVolume(limited(t), &csi.ControllerUnpublishVolumeRequest{VolumeId: volume.VolumeId, NodeId: instance.ID})
		assert.NoError(t, err)
	}
	for _, err := range []error{d.deleteSnapshot(t, snapshot.SnapshotId), d.deleteSnapshot(t, snapshot.SnapshotId), d.delete(t, clone.VolumeId), d.delete(t, restored.VolumeId),
		d.delete(t, volume.VolumeId), d.delete(t, volume.VolumeId)} {
		assert.NoError(t, err)
	}
	if len(cloud.Volumes()) > 0 || len(cloud.VolumeSnapshots()) > 0 {
		t.Errorf("left %+v and %+v", cloud.Volumes(), cloud.VolumeSnapshots())
	}
	assert.Empty(t, cmp.Diff([]string{"attach /dev/vdb", "extend /dev/vdb", "detach /dev/vdb"}, disks), "disks (-want +got)")
	wantCalls(t, cloud,
		"keystone POST /v3/auth/tokens = 201",
		"cinder GET /volumes/detail ?name @3.34 = 200",
		"cinder POST /volumes = 202",
		"cinder GET /volumes/{id} = 200",
		"nova GET /servers/{id} = 200",
		"nova POST /servers/{id}/os-volume_attachments = 200",
		"cinder POST /volumes/{id}/action os-extend @3.42 = 202",
		"cinder GET /snapshots ?name = 200",
		"cinder POST /snapshots = 400",
		"cinder POST /snapshots = 202",
		"cinder GET /snapshots/{id} = 200",
		"cinder GET /volumes/detail ?limit = 200",
		"cinder GET /volumes/detail ?limit&marker = 200",
		"nova DELETE /servers/{id}/os-volume_attachments/{volume} = 202",
		"cinder GET /backups/{id} = 404",
		"cinder DELETE /snapshots/{id} = 202",
		"cinder DELETE /snapshots/{id} = 404",
		"cinder DELETE /volumes/{id} = 202",
		"cinder GET /volumes/{id} = 404",
	)
}

func testCinderErrors(t *testing.T, path string) {
	cloud := openstack.Start(t)
	d := startCinder(t, path, cloud.Login())
	cloud.SetQuota(openstack.Quota{Gigabytes: 3})
	_, err := d.create(t, "large", 4)
	wantCode(t, err, codes.ResourceExhausted, "VolumeSizeExceedsAvailableQuota")
	cloud.ExpireTokens() // the driver keeps one, and logs in again
	volume := must[*csi.Volume](t)(d.create(t, "pvc-1", 1))
	_, err = d.create(t, "pvc-1", 2)
	wantCode(t, err, codes.AlreadyExists, "different capacity")
	publish := &csi.ControllerPublishVolumeRequest{VolumeId: volume.VolumeId, NodeId: "none", VolumeCapability: anyPod[0]}
	_, err = d.ControllerPublishVolume(limited(t), publish)
	wantCode(t, err, codes.NotFound, "Instance none not found")
	cloud.Inject(openstack.Fault{Service: openstack.Nova, Code: 403, Times: 1})
	_, err = d.ControllerPublishVolume(limited(t), publish)
	wantCode(t, err, codes.Internal, "Policy doesn't allow os_compute_api:servers:show to be performed.")
	if err := d.delete(t, volume.VolumeId); err != nil || len(cloud.Volumes()) > 0 {
		t.Errorf("error %v, left %+v", err, cloud.Volumes())
	}
}

// TestCinderNodeDriver: the node plugin learns its instance from the metadata service, whose address is built into it.
func TestCinderNodeDriver(t *testing.T) {
	path := program(t, "cinder-csi-plugin")
	if os.Geteuid() != 0 {
		t.Skip("makes a network namespace, so it needs root")
	}
	cloud := openstack.Start(t)
	instance := cloud.AddInstance("worker-0")
	d := startCinderNode(t, path, cloud, instance)
	info := must[*csi.NodeGetInfoResponse](t)(d.NodeGetInfo(limited(t), &csi.NodeGetInfoRequest{}))
	if info.NodeId != instance.ID || info.AccessibleTopology.GetSegments()["topology.cinder.csi.openstack.org/zone"] != "nova" {
		t.Errorf("node %v of instance %+v", info, instance)
	}
	wantCalls(t, cloud, "metadata GET /openstack/latest/meta_data.json = 200")
}

// startCinderNode starts the Cinder driver's node plugin on an instance.
func startCinderNode(t *testing.T, path string, cloud *openstack.Cloud, instance openstack.Instance) *driver {
	t.Helper()
	start := func(cmd *exec.Cmd) error { return startWithMetadata(t, cloud.MetadataHandler(instance), cmd) }
	return startDriverWith(t, start, path, t.TempDir(), nil, "--provide-controller-service=false")
}

// startWithMetadata starts a command in a network namespace that has the metadata service of an instance, and nothing else.
func startWithMetadata(t *testing.T, metadata http.Handler, cmd *exec.Cmd) error {
	const address = "169.254.169.254"
	server := &http.Server{Handler: metadata}
	t.Cleanup(func() { server.Close() })
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // until the thread ends with the goroutine: it never leaves the namespace
		started <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("a network namespace: %w", err)
			}
			for _, args := range [][]string{{"link", "set", "lo", "up"}, {"address", "add", address, "dev", "lo"}} {
				if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
					return fmt.Errorf("ip %q: %w: %s", args, err, out)
				}
			}
			listener, err := net.Listen("tcp", address+":80")
			if err != nil {
				return err
			}
			go func() { _ = server.Serve(listener) }() // until it is closed
			return cmd.Start()
		}()
	}()
	return <-started
}
