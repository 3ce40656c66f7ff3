package matrix

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/gcppd"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/gcp"
	"github.com/berth-csi/berth/test/drivers/accounts"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// gcpClass is a class of the driver.
const gcpClass = "standard-csi"

// gcpBed is a testbed with the GCP PD driver. Its disks are devices of the nodes.
type gcpBed struct {
	*testbed.Testbed
	cloud *testbed.GCP
}

// startGCPPD starts a testbed. behindProxy is the port of the cloud's servers if only a proxy reaches them.
func startGCPPD(t *testing.T, options testbed.GCPOptions, behindProxy string) *gcpBed {
	t.Helper()
	cluster.NeedRealNodes(t)
	cloud := testbed.StartGCP(t, gcppd.Driver, options)
	return &gcpBed{testbed.Start(t, testbed.Options{Driver: gcppd.Driver, Snapshots: true, Cloud: cloud.Options(), BehindProxy: behindProxy}), cloud}
}

// gcpTag is a tag that the Infrastructure wants, and gcpTagName its name with its parents.
var (
	gcpTag     = configv1.GCPResourceTag{ParentID: "123456789012", Key: "costs", Value: "harbour master"}
	gcpTagName = "123456789012/costs/harbour master"
)

// claim creates a claim that one node at a time can use.
func (b *gcpBed) claim(t *testing.T, c testbed.Claim) *corev1.PersistentVolumeClaim {
	t.Helper()
	c.Mode = corev1.ReadWriteOnce
	if c.Class == "" {
		c.Class = gcpClass
	}
	return b.Claim(t, c)
}

// diskOf returns the disk of a claim in the cloud.
func (b *gcpBed) diskOf(t *testing.T, claim *corev1.PersistentVolumeClaim) gcp.Disk {
	t.Helper()
	handle := b.Bound(t, claim).Spec.CSI.VolumeHandle
	for _, d := range b.cloud.DiskList() {
		if strings.HasSuffix(d.SelfLink, handle) {
			return d
		}
	}
	t.Fatalf("the cloud has no disk %s of claim %s", handle, claim.Name)
	return gcp.Disk{}
}

// class creates a StorageClass with parameters.
func (b *gcpBed) class(t *testing.T, name string, parameters map[string]string) {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: gcppd.Driver.CSIName, AllowVolumeExpansion: new(true),
		Parameters: parameters, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	require.NoError(t, b.Client().Create(t.Context(), class))
}

// testGCPPD runs the driver with a key of a service account, and then with tokens.
func testGCPPD(t *testing.T) {
	bed := startGCPPD(t, testbed.GCPOptions{
		Labels: []configv1.GCPResourceLabel{{Key: "team", Value: "harbour"}}, Tags: []configv1.GCPResourceTag{gcpTag},
	}, "")
	namespace := bed.Namespace(t)
	data := bed.claim(t, testbed.Claim{Namespace: namespace, Name: "data"})
	var writer testbed.RunningPod
	first, second := testbed.Nodes[0], testbed.Nodes[1]

	t.Run("provision", func(t *testing.T) {
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: first, Claim: data})
		disk := bed.diskOf(t, data)
		zone := bed.cloud.Instances[0].ZoneName()
		if disk.SizeGB != 1 || !strings.HasSuffix(disk.Type, "/pd-standard") || !strings.HasSuffix(disk.Zone, "/"+zone) {
			t.Errorf("got the disk %+v, want a standard one with 1 GB in the zone %s of its pod", disk, zone)
		}
		want := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "topology.gke.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}
		assert.Empty(t, cmp.Diff(want, bed.Bound(t, data).Spec.NodeAffinity.Required.NodeSelectorTerms), "the volume can be used on (-want +got)")
	})
	t.Run("tags", func(t *testing.T) {
		disk := bed.diskOf(t, data)
		bed.wantLabels(t, disk.Labels)
		if tags := bed.cloud.Tags("zones/"+bed.cloud.Instances[0].ZoneName()+"/disks", disk.ID); !slices.Equal(tags, []string{gcpTagName}) {
			t.Errorf("the disk has the tags %q, want %q", tags, gcpTagName)
		}
		for _, word := range []string{data.Name, namespace, bed.Bound(t, data).Name} {
			assert.Contains(t, disk.Description, word, "the disk is described as")
		}
	})
	t.Run("attach", func(t *testing.T) {
		disk := bed.diskOf(t, data)
		if !slices.Equal(disk.Users, []string{bed.cloud.Instances[0].SelfLink}) {
			t.Fatalf("the disk is used by %q, want only the instance of node %s", disk.Users, first)
		}
		wantAttached(t, bed.Testbed, first)
	})
	t.Run("publish", func(t *testing.T) {
		writer.Write(t, "greeting", "ahoy")
		bed.Delete(t, writer.Pod)
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: second, Claim: data, User: 1000})
		assert.EqualValues(t, "ahoy", writer.Read(t, "greeting"), "on another node, a pod reads")
		writer.Write(t, "greeting", "ahoy again")
	})
	t.Run("expand", func(t *testing.T) {
		expandEach(t, func(t *testing.T, fs string) { bed.expand(t, namespace, fs) })
	})
	t.Run("modify", func(t *testing.T) { bed.modify(t, namespace) })
	t.Run("snapshot", func(t *testing.T) {
		for class, kind := range map[string]string{"csi-gce-pd-vsc": "snapshots", "csi-gce-pd-vsc-images": "images"} {
			t.Run(kind, func(t *testing.T) {
				writer.Write(t, "greeting", "ahoy again")
				bed.snapshot(t, data, class, kind, func() { writer.Write(t, "greeting", "later") })
			})
		}
	})
	t.Run("clone", func(t *testing.T) {
		clone := bed.claim(t, testbed.Claim{Namespace: namespace, Name: "clone",
			Source: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: data.Name}})
		pod := bed.Run(t, testbed.Pod{Name: "clone", Node: first, Claim: clone, User: 1000})
		assert.EqualValues(t, "later", pod.Read(t, "greeting"), "the clone has")
		bed.Delete(t, pod.Pod, clone)
	})
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, writer.Pod, data)
		bed.wantEmpty(t)
	})
	t.Run("private_endpoint", func(t *testing.T) {
		// The names of the cloud's services lead to a private address and nowhere else, and only the cloud's own CA has
		// signed its certificate. The Infrastructure has no endpoints of Google Cloud.
		bed.wantCalls(t)
	})
	t.Run("metrics", bed.CheckMetrics)
	t.Run("restarts", bed.CheckNoRestarts)
	t.Run("permissions", func(t *testing.T) {
		accounts.Check(t, bed.Cluster, gcppd.Driver, bed.DriverNamespace(), gcpUnexercised)
	})
	t.Run("STS", testGCPPDWithTokens)
}

// snapshot takes a snapshot of a kind that the cloud has, and creates a claim from it after the volume has changed.
func (b *gcpBed) snapshot(t *testing.T, data *corev1.PersistentVolumeClaim, class, kind string, change func()) {
	t.Helper()
	snapshot := b.Snapshot(t, data, kind, class)
	made := b.cloud.Snapshots()
	if len(made) != 1 || !strings.HasSuffix(made[0].SelfLink, "/global/"+kind+"/"+made[0].Name) {
		t.Fatalf("the cloud has %+v, want one of the %s", made, kind)
	}
	b.wantLabels(t, made[0].Labels)
	if tags := b.cloud.Tags("global/"+kind, made[0].ID); !slices.Equal(tags, []string{gcpTagName}) {
		t.Errorf("it has the tags %q, want %q", tags, gcpTagName)
	}
	change()
	restored := b.claim(t, testbed.Claim{Namespace: data.Namespace, Name: "restored",
		Source: &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.GetName()}})
	pod := b.Run(t, testbed.Pod{Name: "restored", Node: testbed.Nodes[0], Claim: restored, User: 1000})
	assert.EqualValues(t, "ahoy again", pod.Read(t, "greeting"), "the restored volume has")
	b.Delete(t, pod.Pod, restored, snapshot)
	cluster.Eventually(t, testbed.Limit, "the cloud to have no snapshot", func(context.Context) error {
		if left := b.cloud.Snapshots(); len(left) > 0 {
			return fmt.Errorf("it has %+v", left)
		}
		return nil
	})
}

// wantLabels fails the test unless the driver's resource has the cluster's labels.
func (b *gcpBed) wantLabels(t *testing.T, got map[string]string) {
	t.Helper()
	want := map[string]string{"team": "harbour", "kubernetes-io-cluster-" + cluster.InfrastructureName: "owned"}
	assert.Empty(t, cmp.Diff(want, got), "labels (-want +got)")
}

// wantCalls fails the test if others than the driver's service account called, or if the cloud refused a call for another
// reason than that something does not exist.
func (b *gcpBed) wantCalls(t *testing.T) {
	t.Helper()
	calls := b.cloud.Calls()
	if len(calls) == 0 {
		t.Error("nobody called the cloud")
	}
	const principal = "driver@harbour-project.iam.gserviceaccount.com"
	for _, call := range calls {
		if call.Error != "" && call.Error != "notFound" || call.Principal != principal && call.Method != "sts.token" {
			t.Errorf("%s of %s by %q failed with %q; want it by %s and successful", call.Method, call.Path, call.Principal, call.Error, principal)
		}
	}
}

// expand expands a volume while a pod uses it.
func (b *gcpBed) expand(t *testing.T, namespace, fs string) {
	t.Helper()
	const key = "projects/keys-1/locations/global/keyRings/harbour/cryptoKeys/disks"
	b.class(t, fs, map[string]string{"type": "pd-ssd", "csi.storage.k8s.io/fstype": fs, "disk-encryption-kms-key": key})
	claim := b.claim(t, testbed.Claim{Namespace: namespace, Name: "expands-" + fs, Class: fs})
	pod := b.Run(t, testbed.Pod{Name: "expands-" + fs, Node: testbed.Nodes[0], Claim: claim})
	expandInUse(t, b.Testbed, claim, pod)
	if d := b.diskOf(t, claim); d.SizeGB != 3 || !strings.HasSuffix(d.Type, "/pd-ssd") || d.Key == nil || !strings.HasPrefix(d.Key.Name, key+"/") {
		t.Errorf("the disk is %+v, want an SSD with 3 GB, encrypted with the key %s", d, key)
	}
	b.Delete(t, pod.Pod, claim)
}

// modify changes a volume by its claim's VolumeAttributesClass.
func (b *gcpBed) modify(t *testing.T, namespace string) {
	t.Helper()
	b.class(t, "hyperdisk", map[string]string{"type": "hyperdisk-balanced"})
	for name, iops := range map[string]string{"slow": "3100", "fast": "3200"} {
		class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: gcppd.Driver.CSIName, Parameters: map[string]string{"iops": iops}}
		require.NoError(t, b.Client().Create(t.Context(), class))
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "modified"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("hyperdisk"), VolumeAttributesClassName: new("slow"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
	require.NoError(t, b.Client().Create(t.Context(), claim))
	pod := b.Run(t, testbed.Pod{Name: "modified", Node: testbed.Nodes[0], Claim: claim})
	if d := b.diskOf(t, claim); d.IOPS != 3100 {
		t.Errorf("the disk has %d IOPS, want 3100 as its class says", d.IOPS)
	}
	before := claim.DeepCopy()
	claim.Spec.VolumeAttributesClassName = new("fast")
	require.NoError(t, b.Client().Patch(t.Context(), claim, client.MergeFrom(before)))
	cluster.Eventually(t, testbed.Limit, "the disk to be modified", func(context.Context) error {
		if d := b.diskOf(t, claim); d.IOPS != 3200 {
			return fmt.Errorf("it has %d IOPS, want 3200", d.IOPS)
		}
		return nil
	})
	b.Delete(t, pod.Pod, claim)
}

// wantEmpty waits until nothing is left in the cloud, nor on the nodes.
func (b *gcpBed) wantEmpty(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "the cloud to be empty", func(ctx context.Context) error {
		volumes := &corev1.PersistentVolumeList{}
		if err := b.Client().List(ctx, volumes); err != nil {
			return err
		}
		if left, snapshots := b.cloud.DiskList(), b.cloud.Snapshots(); len(left)+len(snapshots)+len(volumes.Items) > 0 {
			return fmt.Errorf("it has the disks %+v and the snapshots %+v; the cluster has %d volumes", left, snapshots, len(volumes.Items))
		}
		return nil
	})
	for _, node := range testbed.Nodes {
		root, err := b.NodeRoot(node)
		require.NoError(t, err)
		if left, err := filepath.Glob(filepath.Join(root, "dev/sd*")); err != nil || len(left) > 0 {
			t.Errorf("node %s still has the devices %q (error %v)", node, left, err)
		}
	}
}

// gcpUnexercised says why the run needs no use of these permissions.
var gcpUnexercised = map[string]string{
	"gcp-pd-privileged-role: use securitycontextconstraints.security.openshift.io gcp-pd-csi-driver-node":        "the cluster does not admit pods by SecurityContextConstraints",
	"gcp-pd-hostnetwork-role: use securitycontextconstraints.security.openshift.io gcp-pd-csi-driver-controller": "the cluster does not admit pods by SecurityContextConstraints",
}

// testGCPPDWithTokens runs the driver without any key, behind a proxy. Its access tokens end after some seconds.
func testGCPPDWithTokens(t *testing.T) {
	bed := startGCPPD(t, testbed.GCPOptions{Cloud: gcp.Options{TokenLifetime: 10 * time.Second}, Tokens: true}, testbed.EndpointPort)
	claim := bed.claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "data"})
	pod := bed.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: claim})
	pod.Write(t, "greeting", "ahoy")
	bed.Delete(t, pod.Pod)
	pod = bed.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[1], Claim: claim})
	assert.EqualValues(t, "ahoy", pod.Read(t, "greeting"), "on another node, a pod reads")
	bed.Delete(t, pod.Pod, claim)
	bed.wantEmpty(t)
	bed.wantCalls(t)
	tokens := map[string]int{}
	for _, call := range bed.cloud.Calls() {
		tokens[call.Method]++
	}
	if tokens["iamcredentials.generateAccessToken"] < 2 || tokens["oauth2.token"] > 0 {
		t.Errorf("there were the calls %v, want new access tokens when the first has ended, and none for a key", slices.Sorted(maps.Keys(tokens)))
	}
	if len(bed.Proxy.Accepted()) == 0 {
		t.Error("nobody used the proxy")
	}
	bed.CheckNoRestarts(t)
}
