package matrix

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers/gcppd"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/gcp"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// gcpBed is a testbed with the GCP PD driver.
type gcpBed struct {
	*disks
	cloud *testbed.GCP
}

// startGCPPD starts a testbed. behindProxy is the port of the cloud's servers if only a proxy reaches them.
func startGCPPD(t *testing.T, options testbed.GCPOptions, behindProxy string) *gcpBed {
	t.Helper()
	cluster.NeedRealNodes(t)
	cloud := testbed.StartGCP(t, gcppd.Driver, options)
	bed := testbed.Start(t, testbed.Options{Driver: gcppd.Driver, Snapshots: true, Cloud: cloud.Options(), BehindProxy: behindProxy})
	left := func() string { return describeLeft(cloud.DiskList(), cloud.Snapshots()) }
	return &gcpBed{&disks{bed, bed.Namespace(t), "standard-csi", "dev/sd*", left}, cloud}
}

// gcpTag is a tag that the Infrastructure wants, and gcpTagName its name with its parents.
var (
	gcpTag     = configv1.GCPResourceTag{ParentID: "123456789012", Key: "costs", Value: "harbour master"}
	gcpTagName = "123456789012/costs/harbour master"
)

// diskOf returns the disk of a claim in the cloud.
func (b *gcpBed) diskOf(t *testing.T, claim *corev1.PersistentVolumeClaim) gcp.Disk {
	t.Helper()
	return volumeOf(t, b.disks, claim, b.cloud.DiskList(), func(d gcp.Disk, handle string) bool { return strings.HasSuffix(d.SelfLink, handle) })
}

// testGCPPD runs the driver with a key of a service account, and then with tokens.
func testGCPPD(t *testing.T) {
	bed := startGCPPD(t, testbed.GCPOptions{
		Labels: []configv1.GCPResourceLabel{{Key: "team", Value: "harbour"}}, Tags: []configv1.GCPResourceTag{gcpTag},
	}, "")
	data := bed.claim(t, testbed.Claim{Name: "data"})
	var writer testbed.RunningPod
	first := testbed.Nodes[0]

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
		assert.Equal(t, []string{gcpTagName}, bed.cloud.Tags("zones/"+bed.cloud.Instances[0].ZoneName()+"/disks", disk.ID), "the disk's tags")
		for _, word := range []string{data.Name, bed.namespace, bed.Bound(t, data).Name} {
			assert.Contains(t, disk.Description, word, "the disk is described as")
		}
	})
	t.Run("attach", func(t *testing.T) {
		disk := bed.diskOf(t, data)
		require.Equalf(t, []string{bed.cloud.Instances[0].SelfLink}, disk.Users, "only the instance of node %s uses the disk", first)
		wantAttached(t, bed.Testbed, first)
	})
	t.Run("publish", func(t *testing.T) { writer = bed.publish(t, data, writer) })
	t.Run("expand", func(t *testing.T) {
		const key = "projects/keys-1/locations/global/keyRings/harbour/cryptoKeys/disks"
		bed.expand(t, map[string]string{"type": "pd-ssd", "disk-encryption-kms-key": key}, func(t *testing.T, claim *corev1.PersistentVolumeClaim) {
			if d := bed.diskOf(t, claim); d.SizeGB != 3 || !strings.HasSuffix(d.Type, "/pd-ssd") || d.Key == nil || !strings.HasPrefix(d.Key.Name, key+"/") {
				t.Errorf("the disk is %+v, want an SSD with 3 GB, encrypted with the key %s", d, key)
			}
		})
	})
	t.Run("modify", func(t *testing.T) {
		bed.addClass(t, "hyperdisk", map[string]string{"type": "hyperdisk-balanced"})
		c := testbed.Claim{Namespace: bed.namespace, Class: "hyperdisk", Size: "10Gi"}
		modify(t, bed.Testbed, c, "iops", "3100", "3200", func(claim *corev1.PersistentVolumeClaim) string { return fmt.Sprint(bed.diskOf(t, claim).IOPS) })
	})
	t.Run("snapshot", func(t *testing.T) {
		for class, kind := range map[string]string{"csi-gce-pd-vsc": "snapshots", "csi-gce-pd-vsc-images": "images"} {
			t.Run(kind, func(t *testing.T) {
				writer.Write(t, "greeting", "ahoy again")
				bed.snapshot(t, data, class, kind, func() { writer.Write(t, "greeting", "later") })
			})
		}
	})
	t.Run("clone", func(t *testing.T) { bed.clone(t, data, "later") })
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, writer.Pod, data)
		bed.wantEmpty(t)
	})
	t.Run("private_endpoint", func(t *testing.T) {
		// The names of the cloud's services lead to a private address and nowhere else, and only the cloud's own CA has
		// signed its certificate. The Infrastructure has no endpoints of Google Cloud.
		bed.wantCalls(t)
	})
	settle(t, bed.Testbed, gcpUnexercised)
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
	assert.Equal(t, []string{gcpTagName}, b.cloud.Tags("global/"+kind, made[0].ID), "its tags")
	change()
	b.restore(t, snapshot, "ahoy again")
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
	assert.NotEmpty(t, calls, "nobody called the cloud")
	const principal = "driver@harbour-project.iam.gserviceaccount.com"
	for _, call := range calls {
		if call.Error != "" && call.Error != "notFound" || call.Principal != principal && call.Method != "sts.token" {
			t.Errorf("%s of %s by %q failed with %q; want it by %s and successful", call.Method, call.Path, call.Principal, call.Error, principal)
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
	bed.use(t)
	bed.wantCalls(t)
	tokens := map[string]int{}
	for _, call := range bed.cloud.Calls() {
		tokens[call.Method]++
	}
	if tokens["iamcredentials.generateAccessToken"] < 2 || tokens["oauth2.token"] > 0 {
		t.Errorf("there were the calls %v, want new access tokens when the first has ended, and none for a key", slices.Sorted(maps.Keys(tokens)))
	}
	assert.NotEmpty(t, bed.Proxy.Accepted(), "nobody used the proxy")
}
