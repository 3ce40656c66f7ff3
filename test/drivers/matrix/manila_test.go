package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/test/drivers/accounts"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// shareTypes are the share types of the cloud, with the names of their StorageClasses.
var shareTypes = map[string]string{"default": "csi-manila-default", "Gold_NFS": "csi-manila-gold-nfs"}

// IDs of users in pods.
const writerID, readerID = 1000, 2000

// snapshotClass is the VolumeSnapshotClass that comes with the driver.
const snapshotClass = "csi-manila-standard"

// manilaBed is a testbed with the Manila driver, and the state that cells leave for later cells.
type manilaBed struct {
	*testbed.Testbed
	cloud     *testbed.OpenStack
	namespace string
	claims    []*corev1.PersistentVolumeClaim // one for each share type
	writer    testbed.RunningPod              // uses the first claim
	reader    testbed.RunningPod              // the same, on another node
}

// testManila runs the driver in a cloud with a CA of its own, which only the cloud's configuration has, as before OpenShift
// 4.19. The cluster logs in with an application credential.
func testManila(t *testing.T) {
	cluster.NeedRealNodes(t)
	t.Run("config drive", testManilaNodes)
	t.Run("proxy", testManilaBehindProxy)
	m := startManila(t, testbed.CAInConfig, "")
	for _, cell := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"provision", m.provision},
		{"publish", m.publish},
		{"expand", m.expand},
		{"snapshot", m.snapshot},
		{"tags", m.tags},
		{"private endpoint", m.endpoint},
		{"credentials", m.credentials},
		{"refusals", m.refusals},
		{"delete", m.delete},
		{"metrics", m.CheckMetrics},
		{"restarts", m.CheckNoRestarts},
		{"permissions", m.permissions},
	} {
		if !t.Run(cell.name, cell.run) {
			return // later cells need it
		}
	}
}

// startManila starts a testbed. The cloud's services are behind a proxy if a port is given, theirs.
func startManila(t *testing.T, ca testbed.CASource, behindProxy string) *manilaBed {
	t.Helper()
	m := &manilaBed{cloud: testbed.StartOpenStack(t, slices.Sorted(maps.Keys(shareTypes))...)}
	m.cloud.CA = ca
	m.Testbed = testbed.Start(t, testbed.Options{Driver: manila.Driver, Snapshots: true, Cloud: m.cloud.Options(), BehindProxy: behindProxy})
	m.namespace = m.Namespace(t)
	return m
}

// testManilaBehindProxy: a claim gets a share, and a pod writes to it, although only a proxy reaches the cloud's services. Their
// CA is only in the credentials.
func testManilaBehindProxy(t *testing.T) {
	m := startManila(t, testbed.CAInCredentials, testbed.OpenStackPort)
	claim := m.Claim(t, testbed.Claim{Namespace: m.namespace, Name: "files", Class: shareTypes["default"]})
	pod := m.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: claim, User: writerID})
	pod.Write(t, "greeting", "ahoy")
	m.Delete(t, pod.Pod, claim)
	cluster.Eventually(t, testbed.Limit, "the share to be gone", func(context.Context) error {
		if left := m.cloud.Shares(); len(left) > 0 {
			return fmt.Errorf("the cloud has %+v", left)
		}
		return nil
	})
}

// share returns the share of a volume.
func (m *manilaBed) share(t *testing.T, volume *corev1.PersistentVolume) openstack.Share {
	t.Helper()
	shares := m.cloud.Shares()
	at := slices.IndexFunc(shares, func(s openstack.Share) bool { return s.ID == volume.Spec.CSI.VolumeHandle })
	require.GreaterOrEqualf(t, at, 0, "volume %s is of share %s, and the cloud has %+v", volume.Name, volume.Spec.CSI.VolumeHandle, shares)
	return shares[at]
}

// provision: each share type has a StorageClass, and a claim of it gets a share of that type.
func (m *manilaBed) provision(t *testing.T) {
	for _, shareType := range slices.Sorted(maps.Keys(shareTypes)) {
		class := shareTypes[shareType]
		claim := m.Claim(t, testbed.Claim{Namespace: m.namespace, Name: "of-" + class, Class: class})
		share := m.share(t, m.Bound(t, claim))
		if share.Type != shareType || share.Size != 1 || share.Protocol != "NFS" || len(share.Rules) != 1 {
			t.Errorf("claim %s has the share %+v, want one of type %s, 1 GiB, and with an access rule", claim.Name, share, shareType)
		}
		m.claims = append(m.claims, claim)
	}
}

// publish: users of two nodes, who are not root, share the files of a share.
func (m *manilaBed) publish(t *testing.T) {
	claim := m.claims[0]
	m.writer = m.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: claim, User: writerID})
	m.reader = m.Run(t, testbed.Pod{Name: "reader", Node: testbed.Nodes[1], Claim: claim, User: readerID})
	m.writer.Write(t, "there", "from node 0")
	m.reader.Write(t, "back", "from node 1")
	assert.Equal(t, "from node 0", m.reader.Read(t, "there"), "on the other node the file has")
	assert.Equal(t, "from node 1", m.writer.Read(t, "back"), "on the first node the file has")
}

// expand: a share grows while pods use it.
func (m *manilaBed) expand(t *testing.T) {
	claim := m.claims[0]
	m.Expand(t, claim, "3Gi")
	assert.Equal(t, 3, m.share(t, m.Bound(t, claim)).Size, "GiB of the share")
	m.writer.Write(t, "larger", "still writes")
}

// snapshot: a volume that is restored from a snapshot lacks later writes.
func (m *manilaBed) snapshot(t *testing.T) {
	m.writer.Write(t, "state", "before")
	snapshot := m.Snapshot(t, m.claims[0], "backup", snapshotClass)
	m.writer.Write(t, "state", "after")
	restored := m.Claim(t, testbed.Claim{Namespace: m.namespace, Name: "restored", Class: *m.claims[0].Spec.StorageClassName, Size: "3Gi",
		Source: &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.GetName()}})
	share := m.share(t, m.Bound(t, restored))
	if snapshots := m.cloud.ShareSnapshots(); len(snapshots) != 1 || share.SnapshotID != snapshots[0].ID {
		t.Errorf("the restored share is %+v, the cloud has the snapshots %+v", share, snapshots)
	}
	pod := m.Run(t, testbed.Pod{Name: "restored", Node: testbed.Nodes[1], Claim: restored, User: writerID})
	assert.EqualValues(t, "before", pod.Read(t, "state"), "the restored volume has")
	pod.Write(t, "state", "restored")
	assert.EqualValues(t, "after", m.writer.Read(t, "state"), "the first volume has")
	m.Delete(t, pod.Pod, restored, snapshot)
	cluster.Eventually(t, testbed.Limit, "the snapshot and the restored share to be deleted in the cloud", func(context.Context) error {
		if snapshots, shares := m.cloud.ShareSnapshots(), m.cloud.Shares(); len(snapshots) > 0 || len(shares) != len(m.claims) {
			return fmt.Errorf("it has the snapshots %+v and the shares %+v", snapshots, shares)
		}
		return nil
	})
}

// tags: shares have the ID of the cluster as metadata, which the installer searches for.
func (m *manilaBed) tags(t *testing.T) {
	var infrastructure configv1.Infrastructure
	require.NoError(t, m.Client().Get(t.Context(), client.ObjectKey{Name: "cluster"}, &infrastructure))
	want := map[string]string{"manila.csi.openstack.org/cluster": infrastructure.Status.InfrastructureName}
	for _, share := range m.cloud.Shares() {
		assert.Emptyf(t, cmp.Diff(want, share.Metadata), "metadata of share %s (-want +got)", share.Name)
	}
}

// credentials: the operator and all of the driver log in with the application credential.
func (m *manilaBed) credentials(t *testing.T) {
	methods := map[string]bool{}
	for _, call := range m.cloud.Calls() {
		if call.Login != "" {
			methods[call.Login] = true
		}
	}
	assert.Empty(t, cmp.Diff(map[string]bool{"application_credential": true}, methods), "methods of logins (-want +got)")
}

// refusals: a claim, its expansion and its snapshot succeed once the cloud no longer refuses.
func (m *manilaBed) refusals(t *testing.T) {
	for _, fault := range []openstack.Fault{{Route: "/shares"}, {Route: "/shares/{id}/action", Action: "extend"}, {Route: "/snapshots"}} {
		fault.Service, fault.Method, fault.Code, fault.Times = openstack.Manila, http.MethodPost, http.StatusForbidden, 3 // events repeat, too
		t.Cleanup(m.cloud.Inject(fault))
	}
	claim := m.Claim(t, testbed.Claim{Namespace: m.namespace, Name: "refused", Class: shareTypes["default"]})
	m.Bound(t, claim)
	m.Expand(t, claim, "2Gi")
	snapshot := m.Snapshot(t, claim, "refused", snapshotClass)
	refused := 0
	for _, call := range m.cloud.Calls() {
		if call.Code == http.StatusForbidden {
			refused++
		}
	}
	assert.Equal(t, 9, refused, "requests that the cloud refused")
	m.Delete(t, snapshot, claim)
}

// endpoint: all services are at an address of the private network, with a certificate of a CA that only clouds.yaml
// names, and only the cloud's configuration has. There is no way around it: the cloud serves nothing without TLS.
func (m *manilaBed) endpoint(t *testing.T) {
	assert.Equal(t, "https://"+testbed.OpenStackAddress+"/identity/v3", m.cloud.Login().URL, "Keystone is at")
	answered := map[openstack.Service]int{}
	for _, call := range m.cloud.Calls() {
		if call.Code >= 200 && call.Code < 300 {
			answered[call.Service]++
		}
	}
	if answered[openstack.Keystone] == 0 || answered[openstack.Manila] == 0 {
		t.Errorf("successful requests: %v, want some to Keystone and Manila", answered)
	}
}

// delete: nothing is left in the cloud.
func (m *manilaBed) delete(t *testing.T) {
	m.Delete(t, m.writer.Pod, m.reader.Pod)
	for _, claim := range m.claims {
		m.Delete(t, claim)
	}
	cluster.Eventually(t, testbed.Limit, "the cloud to be empty", func(ctx context.Context) error {
		volumes := &corev1.PersistentVolumeList{} // the provisioner deletes them after their shares
		left, err := os.ReadDir(m.cloud.Files)
		if err := errors.Join(err, m.Client().List(ctx, volumes)); err != nil {
			return err
		}
		if shares, snapshots := m.cloud.Shares(), m.cloud.ShareSnapshots(); len(shares)+len(snapshots)+len(left)+len(volumes.Items) > 0 {
			return fmt.Errorf("it has the shares %+v, the snapshots %+v, and the files %v; the cluster has %d volumes", shares, snapshots, left, len(volumes.Items))
		}
		return nil
	})
}

// manilaUnexercised says why no run can use some permissions of the driver's accounts.
var manilaUnexercised = map[string]string{
	"manila-privileged-role: use securitycontextconstraints.security.openshift.io manila-csi-driver-node": "the local cluster has no admission by SecurityContextConstraints",
}

// permissions: the driver's accounts may do exactly what their programs have requested.
func (m *manilaBed) permissions(t *testing.T) {
	accounts.Check(t, m.Cluster, m.Driver, m.DriverNamespace(), manilaUnexercised)
}
