package matrix

import (
	"context"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// azureBed is a testbed with a stand-in for a driver for Azure.
type azureBed struct {
	*testbed.Testbed
	storage   *testbed.StandIn
	class     string
	mode      corev1.PersistentVolumeAccessMode
	namespace string
}

// azureTags are the tags that the Infrastructure wants. A value may have a comma.
var azureTags = []configv1.AzureResourceTag{{Key: "team", Value: "harbour,pier"}}

func startAzure(t *testing.T, driver drivers.Driver, class string, mode corev1.PersistentVolumeAccessMode, options testbed.AzureOptions) azureBed {
	t.Helper()
	bed, storage := testbed.StartAzure(t, driver, options)
	return azureBed{bed, storage, class, mode, bed.Namespace(t)}
}

// claim creates a claim, for a copy if source is set.
func (b azureBed) claim(t *testing.T, name string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	t.Helper()
	return b.Claim(t, testbed.Claim{Namespace: b.namespace, Name: name, Class: b.class, Mode: b.mode, Source: source})
}

// volume returns the storage's record of a claim's volume.
func (b azureBed) volume(t *testing.T, claim *corev1.PersistentVolumeClaim) folders.Record {
	t.Helper()
	record, err := b.storage.Get(folders.Volumes, b.Bound(t, claim).Spec.CSI.VolumeHandle)
	require.NoError(t, err)
	return record
}

// expand expands a volume that a pod uses.
func (b azureBed) expand(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	b.Expand(t, claim, "2Gi")
	assert.EqualValues(t, 2<<30, b.volume(t, claim).Bytes, "bytes of the volume")
}

// copies makes a snapshot of a claim and a copy of that, and one of the claim itself. The file of a name has the content, and
// the snapshot the tags.
func (b azureBed) copies(t *testing.T, claim *corev1.PersistentVolumeClaim, class, file, content, tags string) {
	t.Helper()
	snapshot := b.Snapshot(t, claim, "snapshot", class)
	made := b.storage.Left(t, folders.Snapshots)
	require.Len(t, made, 1, "the storage has the snapshots")
	record, err := b.storage.Get(folders.Snapshots, made[0])
	require.NoError(t, err)
	wantAzureTags(t, "snapshot", record, tags)
	for name, source := range map[string]*corev1.TypedLocalObjectReference{
		"restored": {APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.GetName()},
		"clone":    {Kind: "PersistentVolumeClaim", Name: claim.Name},
	} {
		copied := b.Claim(t, testbed.Claim{Namespace: b.namespace, Name: name, Class: b.class, Mode: b.mode, Source: source, Size: "2Gi"})
		pod := b.Run(t, testbed.Pod{Name: name, Node: testbed.Nodes[0], Claim: copied})
		assert.EqualValuesf(t, content, pod.Read(t, file), "the volume %s has", name)
		b.Delete(t, pod.Pod, copied)
	}
	b.Delete(t, snapshot)
}

// wantEmpty waits until all volumes are gone.
func (b azureBed) wantEmpty(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "the storage to be empty", func(ctx context.Context) error {
		volumes := &corev1.PersistentVolumeList{}
		if err := b.Client().List(ctx, volumes); err != nil {
			return err
		}
		left := map[string][]string{}
		for _, kind := range folders.Kinds {
			left[kind] = b.storage.Left(t, kind)
		}
		if len(volumes.Items)+len(left[folders.Volumes])+len(left[folders.Snapshots]) > 0 {
			return fmt.Errorf("it has %q; the cluster has %d volumes", left, len(volumes.Items))
		}
		return nil
	})
}

// wantLogins fails the test if the storage got no calls, or refused the login of one.
func (b azureBed) wantLogins(t *testing.T) {
	t.Helper()
	calls := b.storage.Calls()
	assert.NotEmpty(t, calls, "nobody called the storage")
	for _, call := range calls {
		if call.Error != nil {
			t.Errorf("%s: %v", call.Method, call.Error)
		}
	}
}

// wantAzureTags fails the test unless the request for a volume or a snapshot had tags; "" for none.
func wantAzureTags(t *testing.T, kind string, got folders.Record, want string) {
	t.Helper()
	delimiter := "|"
	if want == "" {
		delimiter = ""
	}
	if got.Parameters["tags"] != want || got.Parameters["tagValueDelimiter"] != delimiter {
		t.Errorf("the %s was asked for with the parameters %v, want the tags %q", kind, got.Parameters, want)
	}
}

// withTokens runs the driver without any secret: an administrator has told Azure to trust the tokens of its accounts.
func withTokens(t *testing.T, driver drivers.Driver, class string, mode corev1.PersistentVolumeAccessMode) {
	bed := startAzure(t, driver, class, mode, testbed.AzureOptions{Tokens: true})
	claim := bed.claim(t, "data", nil)
	pod := bed.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: claim})
	pod.Write(t, "greeting", "ahoy")
	bed.Delete(t, pod.Pod, claim)
	bed.wantEmpty(t)
	bed.wantLogins(t)
	for _, call := range bed.storage.Calls() {
		if call.Login["token"] == "" || call.Login["secret"] != "" {
			t.Errorf("%s came without a token or with a secret", call.Method)
		}
	}
	bed.CheckNoRestarts(t)
}

// read reads an object of the cluster.
func (b azureBed) read(t *testing.T, object client.Object) {
	t.Helper()
	require.NoError(t, b.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object))
}
