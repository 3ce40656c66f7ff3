package matrix

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/cinder"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

const (
	// cinderClass is the driver's StorageClass and its VolumeSnapshotClass.
	cinderClass = "standard-csi"
	// cinderZone is the key of a node's label and of a volume's affinity.
	cinderZone = "topology.cinder.csi.openstack.org/zone"
)

// cinderBed is a testbed with the Cinder driver.
type cinderBed struct {
	*disks
	cloud *testbed.OpenStack
}

// startCinder starts a testbed. change changes its cloud. The cloud's services are behind a proxy if a port is given,
// theirs.
func startCinder(t *testing.T, behindProxy string, change func(*testbed.Cloud)) *cinderBed {
	t.Helper()
	cloud := testbed.StartOpenStack(t)
	options := cloud.Options()
	change(&options)
	bed := testbed.Start(t, testbed.Options{Driver: cinder.Driver, Snapshots: true, Cloud: options, BehindProxy: behindProxy})
	left := func() string { return describeLeft(cloud.Volumes(), cloud.VolumeSnapshots()) }
	return &cinderBed{&disks{bed, bed.Namespace(t), cinderClass, "dev/vd*", left}, cloud}
}

// volumeOf returns the volume of a claim in the cloud.
func (b *cinderBed) volumeOf(t *testing.T, claim *corev1.PersistentVolumeClaim) openstack.Volume {
	t.Helper()
	return volumeOf(t, b.disks, claim, b.cloud.Volumes(), func(v openstack.Volume, handle string) bool { return v.ID == handle })
}

// testCinder runs the driver with zones, and then as it is without any configuration.
func testCinder(t *testing.T) {
	// Only settings that are not in the configuration of the cloud have to be in the driver's own.
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cinder-csi-config"},
		Data: map[string]string{"config": "[BlockStorage]\nnode-volume-attach-limit = 24\n", "enable_topology": "true"}}
	bed := startCinder(t, "", func(cloud *testbed.Cloud) { cloud.Objects = append(cloud.Objects, own) })
	data := bed.claim(t, testbed.Claim{Name: "data"})
	var writer testbed.RunningPod
	first := testbed.Nodes[0]

	t.Run("provision", func(t *testing.T) {
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: first, Claim: data})
		if volume := bed.volumeOf(t, data); volume.Size != 1 || volume.Zone != bed.cloud.Instances[0].Zone {
			t.Errorf("got the volume %+v, want one with 1 GiB in the zone of its pod", volume)
		}
	})
	t.Run("zones", func(t *testing.T) { bed.wantZones(t, data, bed.cloud.Instances[0].Zone) })
	t.Run("attach limit", bed.wantLimit)
	t.Run("no default class", bed.wantNoDefaultClass)
	t.Run("tags", func(t *testing.T) {
		assert.EqualValues(t, cluster.InfrastructureName, bed.volumeOf(t, data).Metadata["cinder.csi.openstack.org/cluster"], "the volume is of the cluster")
	})
	t.Run("attach", func(t *testing.T) { bed.wantAttached(t, data, 0) })
	t.Run("publish", func(t *testing.T) {
		writer = bed.publish(t, data, writer)
		bed.wantAttached(t, data, 1)
	})
	t.Run("expand", func(t *testing.T) {
		bed.expand(t, nil, func(t *testing.T, claim *corev1.PersistentVolumeClaim) {
			assert.EqualValues(t, 3, bed.volumeOf(t, claim).Size, "size of the volume in GiB")
		})
	})
	t.Run("snapshot", func(t *testing.T) {
		snapshot := bed.Snapshot(t, data, "snapshot", cinderClass)
		snapshots := bed.cloud.VolumeSnapshots()
		if len(snapshots) != 1 || snapshots[0].Metadata["cinder.csi.openstack.org/cluster"] != cluster.InfrastructureName {
			t.Errorf("the cloud has the snapshots %+v, want one of the cluster %s", snapshots, cluster.InfrastructureName)
		}
		writer.Write(t, "greeting", "later")
		bed.restore(t, snapshot, "ahoy again")
	})
	t.Run("clone", func(t *testing.T) { bed.clone(t, data, "later") })
	t.Run("private endpoint", func(t *testing.T) { bed.wantEndpoint(t) })
	t.Run("credentials", bed.wantCredential)
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, writer.Pod, data)
		bed.wantEmpty(t)
	})
	t.Run("calls", func(t *testing.T) {
		for _, call := range bed.cloud.Calls() {
			if call.Code >= 400 && call.Code != http.StatusNotFound {
				t.Errorf("the cloud refused %s", call)
			}
		}
	})
	t.Run("refusals", bed.refusals)
	settle(t, bed.Testbed, cinderUnexercised)
	t.Run("defaults", testCinderDefaults)
}

// refusals: events show the refusals of a cloud that is also slow. Claims and pods succeed once it no longer refuses.
func (b *cinderBed) refusals(t *testing.T) {
	b.cloud.SetLatency(2 * time.Second)
	t.Cleanup(func() { b.cloud.SetLatency(0) })
	b.cloud.Fail(openstack.CreateVolume, "") // the claim is bound, as the driver does not wait for the volume
	broken := b.claim(t, testbed.Claim{Name: "broken"})
	waiting := b.Create(t, testbed.Pod{Name: "broken", Node: testbed.Nodes[0], Claim: broken})
	b.AwaitEvent(t, waiting, "FailedAttachVolume", "the status is error")
	b.Delete(t, waiting)
	b.cloud.ResetVolumes() // or the driver refuses to detach volumes that it has failed to attach
	b.Delete(t, broken)
	b.wantEmpty(t) // or the next faults would be for attempts to attach that volume

	const quota, attached = "VolumeSizeExceedsAvailableQuota: no gigabytes are left", "Volume status must be available to reserve, but the status is in-use."
	for _, fault := range []openstack.Fault{
		{Service: openstack.Cinder, Route: "/volumes", Code: http.StatusRequestEntityTooLarge, Message: quota},
		{Service: openstack.Nova, Route: "/servers/{id}/os-volume_attachments", Code: http.StatusBadRequest, Message: attached},
		{Service: openstack.Cinder, Route: "/volumes/{id}/action", Action: "os-extend", Code: http.StatusRequestEntityTooLarge, Message: quota},
	} {
		fault.Method, fault.Times = http.MethodPost, 2 // events repeat, too
		t.Cleanup(b.cloud.Inject(fault))
	}
	claim := b.claim(t, testbed.Claim{Name: "refused", Class: "xfs"}) // of expand: not each machine expands ext4 in use
	pod := b.Run(t, testbed.Pod{Name: "refused", Node: testbed.Nodes[0], Claim: claim})
	b.AwaitEvent(t, claim, "ProvisioningFailed", quota)
	b.AwaitEvent(t, pod, "FailedAttachVolume", attached)
	b.Expand(t, claim, "2Gi")
	b.AwaitEvent(t, claim, "VolumeResizeFailed", quota)
	b.Delete(t, pod.Pod, claim)
	b.wantEmpty(t)
}

// cinderUnexercised says why the run needs no use of these permissions.
var cinderUnexercised = map[string]string{
	"openstack-cinder-privileged-role: use securitycontextconstraints.security.openshift.io openstack-cinder-csi-driver-node": "the cluster does not admit pods by SecurityContextConstraints",
}

// testCinderDefaults: without any configuration, volumes belong to no zone. The cloud's CA comes with the credentials, and only
// a proxy reaches the cloud.
func testCinderDefaults(t *testing.T) {
	bed := startCinder(t, testbed.OpenStackPort, func(cloud *testbed.Cloud) {
		cloud.Objects = slices.DeleteFunc(cloud.Objects, func(object client.Object) bool { return object.GetName() == drivers.CloudConfigName })
	})
	data := bed.claim(t, testbed.Claim{Name: "data"})
	pod := bed.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: data})
	pod.Write(t, "greeting", "ahoy")
	bed.wantZones(t, data, "")
	bed.wantEndpoint(t)
	bed.Delete(t, pod.Pod, data)
	bed.wantEmpty(t)
	bed.CheckNoRestarts(t)
}

// wantZones checks that the nodes and the volume of a claim have a zone, or none if it is empty.
func (b *cinderBed) wantZones(t *testing.T, claim *corev1.PersistentVolumeClaim, zone string) {
	t.Helper()
	for _, name := range testbed.Nodes {
		node := &corev1.Node{}
		require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Name: name}, node))
		assert.EqualValuesf(t, zone, node.Labels[cinderZone], "node %s is in the zone", name)
	}
	var want *corev1.VolumeNodeAffinity
	if zone != "" {
		want = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: cinderZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}}
	}
	assert.Empty(t, cmp.Diff(want, b.Bound(t, claim).Spec.NodeAffinity), "affinity of the volume (-want +got)")
}

// wantLimit checks that the nodes take as many volumes as the driver's configuration says.
func (b *cinderBed) wantLimit(t *testing.T) {
	for _, name := range testbed.Nodes {
		node := &storagev1.CSINode{}
		require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Name: name}, node))
		for _, d := range node.Spec.Drivers {
			if d.Name == cinder.Driver.CSIName && (d.Allocatable == nil || *d.Allocatable.Count != 24) {
				t.Errorf("node %s takes %+v volumes, want 24", name, d.Allocatable)
			}
		}
	}
}

// wantNoDefaultClass checks that only an administrator makes a class the default.
func (b *cinderBed) wantNoDefaultClass(t *testing.T) {
	classes := &storagev1.StorageClassList{}
	require.NoError(t, b.Client().List(t.Context(), classes))
	for _, class := range classes.Items {
		assert.NotEqualf(t, "true", class.Annotations["storageclass.kubernetes.io/is-default-class"], "the class %s is the default", class.Name)
	}
}

// wantAttached checks that the volume of a claim is attached to one of the nodes alone.
func (b *cinderBed) wantAttached(t *testing.T, claim *corev1.PersistentVolumeClaim, node int) {
	t.Helper()
	if v := b.volumeOf(t, claim); len(v.Attachments) != 1 || v.Attachments[0].Instance.ID != b.cloud.Instances[node].ID {
		t.Fatalf("the volume has the attachments %+v, want one to the instance of node %s", v.Attachments, testbed.Nodes[node])
	}
	wantAttached(t, b.Testbed, testbed.Nodes[node])
}

// wantEndpoint checks that all services are at an address of the private network, with a certificate of a CA of the cloud.
// There is no way around it: the cloud serves nothing without TLS.
func (b *cinderBed) wantEndpoint(t *testing.T) {
	t.Helper()
	assert.Equal(t, "https://"+testbed.OpenStackAddress+"/identity/v3", b.cloud.Login().URL, "Keystone is at")
	answered := map[openstack.Service]int{}
	for _, call := range b.cloud.Calls() {
		if call.Code >= 200 && call.Code < 300 {
			answered[call.Service]++
		}
	}
	for _, service := range []openstack.Service{openstack.Keystone, openstack.Cinder, openstack.Nova} {
		assert.NotZerof(t, answered[service], "successful requests: %v, want some to %s", answered, service)
	}
}

// wantCredential checks that the driver logs in with the application credential.
func (b *cinderBed) wantCredential(t *testing.T) {
	methods := map[string]bool{}
	for _, call := range b.cloud.Calls() {
		if call.Login != "" {
			methods[call.Login] = true
		}
	}
	assert.Empty(t, cmp.Diff(map[string]bool{"application_credential": true}, methods), "methods of logins (-want +got)")
}
