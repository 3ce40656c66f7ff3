package matrix

import (
	"context"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driver "github.com/berth-csi/berth/drivers/vsphere"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/standin/backend"
	"github.com/berth-csi/berth/lab/vsphere"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// The driver's StorageClass and VolumeSnapshotClass.
const (
	vSphereClass         = "thin-csi"
	vSphereSnapshotClass = "csi-vsphere-vsc"
)

// testVSphere runs a stand-in for the vSphere driver. The operator asks a simulated vCenter whether the driver can run there.
func testVSphere(t *testing.T) {
	storage := testbed.StartVSphere(t)
	bed := testbed.Start(t, testbed.Options{Driver: driver.Driver, Snapshots: true, Cloud: storage.Options(driver.Driver)})
	infrastructure := &configv1.Infrastructure{}
	require.NoError(t, bed.Client().Get(t.Context(), client.ObjectKey{Name: "cluster"}, infrastructure))
	namespace := bed.Namespace(t)
	claim := bed.Claim(t, testbed.Claim{Namespace: namespace, Name: "data", Class: vSphereClass, Mode: corev1.ReadWriteOnce})
	var first, second testbed.RunningPod
	t.Run("provision", func(t *testing.T) {
		first = bed.Run(t, testbed.Pod{Name: "first", Node: testbed.Nodes[0], Claim: claim})
		volume := bed.Bound(t, claim)
		assert.Equal(t, []string{volume.Spec.CSI.VolumeHandle}, storage.Left(t, folders.Volumes), "volumes")
		for _, call := range storage.Calls() {
			want := backend.Login{"server": "203.0.113.30", "user": vsphere.User, "password": vsphere.Password, "datacenters": vsphere.Datacenter, "cluster": infrastructure.Status.InfrastructureName}
			require.Equalf(t, want, call.Login, "%s: the driver's login", call.Method)
		}
		if class := (&storagev1.StorageClass{}); bed.Client().Get(t.Context(), client.ObjectKey{Name: vSphereClass}, class) != nil ||
			class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			t.Errorf("StorageClass %s is %+v, want the default of this fresh cluster", vSphereClass, class)
		}
	})
	disk := func(t *testing.T) folders.Record {
		t.Helper()
		record, err := storage.Get(folders.Volumes, bed.Bound(t, claim).Spec.CSI.VolumeHandle)
		require.NoError(t, err)
		return record
	}
	t.Run("attach", func(t *testing.T) {
		assert.Equal(t, testbed.Nodes[0], disk(t).Node, "the node that the disk is attached to")
		wantAttached(t, bed, testbed.Nodes[0])
	})
	t.Run("publish", func(t *testing.T) {
		first.Write(t, "greeting", "ahoy")
		bed.Delete(t, first.Pod)
		second = bed.Run(t, testbed.Pod{Name: "second", Node: testbed.Nodes[1], Claim: claim})
		assert.EqualValues(t, "ahoy", second.Read(t, "greeting"), "on the other node the pod reads")
		assert.Equal(t, testbed.Nodes[1], disk(t).Node, "the node that the disk is attached to")
	})
	t.Run("expand", func(t *testing.T) {
		bed.Expand(t, claim, "2Gi")
		assert.EqualValues(t, 2<<30, disk(t).Bytes, "bytes of the disk")
	})
	t.Run("snapshot", func(t *testing.T) {
		snapshot := bed.Snapshot(t, claim, "day-1", vSphereSnapshotClass)
		restored := bed.Claim(t, testbed.Claim{Namespace: namespace, Name: "restored", Class: vSphereClass, Size: "2Gi", Mode: corev1.ReadWriteOnce, Source: &corev1.TypedLocalObjectReference{
			APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.GetName()}})
		reader := bed.Run(t, testbed.Pod{Name: "reader", Node: testbed.Nodes[0], Claim: restored})
		assert.EqualValues(t, "ahoy", reader.Read(t, "greeting"), "on the restored volume")
		bed.Delete(t, reader.Pod, restored, snapshot)
	})
	t.Run("delete", func(t *testing.T) {
		volume := bed.Bound(t, claim)
		bed.Delete(t, second.Pod, claim)
		cluster.Eventually(t, testbed.Limit, "the volume to be gone", bed.Gone(volume))
		cluster.Eventually(t, testbed.Limit, "all that was made for volumes to be gone", func(context.Context) error {
			for _, kind := range folders.Kinds {
				if left := storage.Left(t, kind); len(left) > 0 {
					return fmt.Errorf("there are still the %s %q", kind, left)
				}
			}
			return nil
		})
	})
	settle(t, bed, vSphereUnexercised)
}

// Why the run needs no use of permissions of the driver and its syncer, and of some of the provisioner.
const (
	ofTheDriver = "the real driver and its syncer need it, and a stand-in takes their place"
	withZones   = "the provisioner looks for zones only if the cluster has several failure domains"
)

// vSphereUnexercised says why the run needs no use of these permissions.
var vSphereUnexercised = map[string]string{
	"vmware-vsphere-csi-driver-features: read configmaps":                                                          ofTheDriver,
	"vmware-vsphere-csi-driver-role: create cnsvolumeinfoes.cns.vmware.com":                                        ofTheDriver,
	"vmware-vsphere-csi-driver-role: create cnsvolumeoperationrequests.cns.vmware.com":                             ofTheDriver,
	"vmware-vsphere-csi-driver-role: create cnsvspherevolumemigrations.cns.vmware.com":                             ofTheDriver,
	"vmware-vsphere-csi-driver-role: create customresourcedefinitions.apiextensions.k8s.io":                        ofTheDriver,
	"vmware-vsphere-csi-driver-role: create triggercsifullsyncs.cns.vmware.com":                                    ofTheDriver,
	"vmware-vsphere-csi-driver-role: delete cnsvolumeinfoes.cns.vmware.com":                                        ofTheDriver,
	"vmware-vsphere-csi-driver-role: delete cnsvolumeoperationrequests.cns.vmware.com":                             ofTheDriver,
	"vmware-vsphere-csi-driver-role: delete cnsvspherevolumemigrations.cns.vmware.com":                             ofTheDriver,
	"vmware-vsphere-csi-driver-role: patch persistentvolumeclaims":                                                 ofTheDriver,
	"vmware-vsphere-csi-driver-role: read cnsvolumeinfoes.cns.vmware.com":                                          ofTheDriver,
	"vmware-vsphere-csi-driver-role: read cnsvolumeoperationrequests.cns.vmware.com":                               ofTheDriver,
	"vmware-vsphere-csi-driver-role: read cnsvspherevolumemigrations.cns.vmware.com":                               ofTheDriver,
	"vmware-vsphere-csi-driver-role: read csinodetopologies.cns.vmware.com":                                        ofTheDriver,
	"vmware-vsphere-csi-driver-role: read customresourcedefinitions.apiextensions.k8s.io":                          ofTheDriver,
	"vmware-vsphere-csi-driver-role: read nodes":                                                                   ofTheDriver,
	"vmware-vsphere-csi-driver-role: read triggercsifullsyncs.cns.vmware.com":                                      ofTheDriver,
	"vmware-vsphere-csi-driver-role: update cnsvolumeinfoes.cns.vmware.com":                                        ofTheDriver,
	"vmware-vsphere-csi-driver-role: update cnsvolumeoperationrequests.cns.vmware.com":                             ofTheDriver,
	"vmware-vsphere-csi-driver-role: update cnsvspherevolumemigrations.cns.vmware.com":                             ofTheDriver,
	"vmware-vsphere-csi-driver-role: update csinodetopologies.cns.vmware.com":                                      ofTheDriver,
	"vmware-vsphere-csi-driver-role: update customresourcedefinitions.apiextensions.k8s.io":                        ofTheDriver,
	"vmware-vsphere-csi-driver-role: update persistentvolumeclaims":                                                ofTheDriver,
	"vmware-vsphere-csi-driver-role: update persistentvolumes":                                                     ofTheDriver,
	"vmware-vsphere-csi-driver-role: update triggercsifullsyncs.cns.vmware.com":                                    ofTheDriver,
	"vsphere-csi-driver-node-role: create csinodetopologies.cns.vmware.com":                                        ofTheDriver,
	"vsphere-csi-driver-node-role: patch csinodetopologies.cns.vmware.com":                                         ofTheDriver,
	"vsphere-csi-driver-node-role: read csinodetopologies.cns.vmware.com":                                          ofTheDriver,
	"vsphere-csi-driver-node-role: read nodes":                                                                     ofTheDriver,
	"vsphere-external-provisioner-role: read csinodes.storage.k8s.io":                                              withZones,
	"vsphere-external-provisioner-role: read nodes":                                                                withZones,
	"vsphere-external-provisioner-role: update persistentvolumeclaims":                                             "the provisioner gives a claim back to the scheduler only if its volume cannot be made for the node",
	"vsphere-privileged-role: use securitycontextconstraints.security.openshift.io vmware-vsphere-csi-driver-node": "the cluster does not admit pods by SecurityContextConstraints",
}
