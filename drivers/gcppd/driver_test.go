package gcppd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// Tests that apply to every driver are in package drivers.

func manifests(t *testing.T) []drivers.Manifest {
	t.Helper()
	found, err := Driver.Manifests(drivers.Values{Namespace: Driver.Namespace, Image: func(env string) string { return env }})
	require.NoError(t, err)
	return found
}

// TestNoClassIsTheDefault: the administrator decides.
func TestNoClassIsTheDefault(t *testing.T) {
	for _, m := range drivers.OfKind(manifests(t), "StorageClass") {
		assert.Emptyf(t, m.Object.GetAnnotations(), "annotations of StorageClass %s", m.Object.GetName())
	}
}

func TestLabelDisks(t *testing.T) {
	const own = "--extra-labels=kubernetes-io-cluster-harbour=owned"
	for name, test := range map[string]struct {
		platform configv1.GCPPlatformStatus
		want     []string
		leftOut  []string // a fragment of each sentence
	}{
		"none": {want: []string{own}},
		"sorted labels": {platform: configv1.GCPPlatformStatus{ResourceLabels: []configv1.GCPResourceLabel{{Key: "team", Value: "a"}, {Key: "cost", Value: "b"}}},
			want: []string{own + ",cost=b,team=a"}},
		"sorted tags": {platform: configv1.GCPPlatformStatus{ResourceTags: []configv1.GCPResourceTag{
			{ParentID: "my-project", Key: "b", Value: "2"}, {ParentID: "my-project", Key: "a", Value: "x y"}, {ParentID: "123", Key: "z", Value: "1"}}},
			want: []string{own, "--extra-tags=123/z/1,my-project/a/x y,my-project/b/2"}},
		"a comma": {platform: configv1.GCPPlatformStatus{ResourceTags: []configv1.GCPResourceTag{{ParentID: "123", Key: "z", Value: "a,b"}}},
			want: []string{own}, leftOut: []string{`123/z with the value "a,b"`}},
	} {
		t.Run(name, func(t *testing.T) {
			infrastructure := &configv1.Infrastructure{}
			infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{GCP: &test.platform}
			container := &corev1.Container{Args: []string{own}}
			leftOut := labelDisks(drivers.Cluster{Infrastructure: infrastructure}, container)
			assert.Empty(t, cmp.Diff(test.want, container.Args), "arguments (-want +got)")
			require.Len(t, leftOut, len(test.leftOut), "left out")
			for i, fragment := range test.leftOut {
				assert.Contains(t, leftOut[i], fragment, "left out")
			}
		})
	}
}

func TestLabelSnapshots(t *testing.T) {
	infrastructure := &configv1.Infrastructure{}
	infrastructure.Status.InfrastructureName = "harbour"
	infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{GCP: &configv1.GCPPlatformStatus{ResourceLabels: []configv1.GCPResourceLabel{{Key: "team", Value: "a"}}}}
	want := map[string]string{"labels": "kubernetes-io-cluster-harbour=owned,team=a"}
	assert.Empty(t, cmp.Diff(want, labelSnapshots(drivers.Cluster{Infrastructure: infrastructure})), "parameters (-want +got)")
}

func TestEncryptionKey(t *testing.T) {
	key := operatorv1.GCPKMSKeyReference{Name: "disks", KeyRing: "harbour", ProjectID: "keys-1"}
	regional := key
	regional.Location = "us-central1"
	for name, test := range map[string]struct {
		gcp  *operatorv1.GCPCSIDriverConfigSpec
		want map[string]string
	}{
		"nothing said":   {},
		"no key":         {gcp: &operatorv1.GCPCSIDriverConfigSpec{}},
		"a global key":   {&operatorv1.GCPCSIDriverConfigSpec{KMSKey: &key}, map[string]string{"disk-encryption-kms-key": "projects/keys-1/locations/global/keyRings/harbour/cryptoKeys/disks"}},
		"a regional key": {&operatorv1.GCPCSIDriverConfigSpec{KMSKey: &regional}, map[string]string{"disk-encryption-kms-key": "projects/keys-1/locations/us-central1/keyRings/harbour/cryptoKeys/disks"}},
	} {
		custom := &operatorv1.ClusterCSIDriver{}
		custom.Spec.DriverConfig.GCP = test.gcp
		assert.Emptyf(t, cmp.Diff(test.want, encryptionKey(drivers.Cluster{ClusterCSIDriver: custom})), "%s: parameters (-want +got)", name)
	}
}

func TestLabelsOfAnotherPlatform(t *testing.T) {
	container := &corev1.Container{}
	if leftOut := labelDisks(drivers.Cluster{Infrastructure: &configv1.Infrastructure{}}, container); leftOut != nil || container.Args != nil {
		t.Errorf("arguments %q, left out %q; want neither", container.Args, leftOut)
	}
}
