package vsphere

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

// TestAssets: the assets do not rely on defaults of a sidecar and the driver that would harm a vCenter or Windows
// nodes.
func TestAssets(t *testing.T) {
	manifests, err := Driver.Manifests(drivers.Values{Namespace: "harbour", Image: func(env string) string { return env }})
	require.NoError(t, err)
	var attacher []any
	for _, m := range drivers.OfKind(manifests, "Deployment") {
		containers, _, _ := unstructured.NestedSlice(m.Object.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			if c := c.(map[string]any); c["name"] == "csi-attacher" {
				attacher = c["args"].([]any)
			}
		}
	}
	assert.Contains(t, attacher, any("--reconcile-sync=10m"), "the attacher has the arguments")
	for _, m := range drivers.OfKind(manifests, "ConfigMap") {
		features, _, _ := unstructured.NestedStringMap(m.Object.Object, "data")
		if m.Object.GetName() == "internal-feature-states.csi.vsphere.vmware.com" && features["csi-windows-support"] != "true" {
			t.Errorf("csi-windows-support is %q, want true: the driver on Windows nodes reads it there", features["csi-windows-support"])
		}
	}
}

// TestTopologyCategories: the Infrastructure's categories take precedence, and the administrator is told so.
func TestTopologyCategories(t *testing.T) {
	for domains, want := range map[int]string{
		0: "", 2: "spec.driverConfig.vSphere.topologyCategories of ClusterCSIDriver csi.vsphere.vmware.com has no effect: " +
			"Infrastructure cluster has several failure domains, whose categories are openshift-region and openshift-zone.",
	} {
		got := strings.Join(Driver.LeftOut(drivers.Cluster{
			Infrastructure: &configv1.Infrastructure{Spec: configv1.InfrastructureSpec{PlatformSpec: configv1.PlatformSpec{
				VSphere: &configv1.VSpherePlatformSpec{FailureDomains: make([]configv1.VSpherePlatformFailureDomainSpec, domains)}}}},
			ClusterCSIDriver: &operatorv1.ClusterCSIDriver{Spec: operatorv1.ClusterCSIDriverSpec{DriverConfig: operatorv1.CSIDriverConfigSpec{
				VSphere: &operatorv1.VSphereCSIDriverConfigSpec{TopologyCategories: []string{"k8s-region", "k8s-zone"}}}}},
		}), " ")
		assert.EqualValuesf(t, want, got, "%d failure domains: left out", domains)
	}
}

func TestNotAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		platform drivers.Platform
		want     bool
	}{
		"nobody asks":              {},
		"Storage asks":             {drivers.Platform{Storage: operatorv1.StorageSpec{VSphereStorageDriver: operatorv1.CSIWithMigrationDriver}}, true},
		"a ClusterCSIDriver asks":  {drivers.Platform{Installed: true}, true},
		"Storage asks for another": {drivers.Platform{Storage: operatorv1.StorageSpec{VSphereStorageDriver: operatorv1.LegacyDeprecatedInTreeDriver}}, false},
		"it is in use, though Storage asks for another": {drivers.Platform{Installed: true, Storage: operatorv1.StorageSpec{VSphereStorageDriver: operatorv1.LegacyDeprecatedInTreeDriver}}, true},
	} {
		assert.Equalf(t, tc.want, notAskedFor(tc.platform) == "", "%s: installed", name)
	}
}

func TestSettings(t *testing.T) {
	cluster := func(domains int, limit int32) drivers.Cluster {
		return drivers.Cluster{
			Infrastructure: &configv1.Infrastructure{Spec: configv1.InfrastructureSpec{PlatformSpec: configv1.PlatformSpec{
				VSphere: &configv1.VSpherePlatformSpec{FailureDomains: make([]configv1.VSpherePlatformFailureDomainSpec, domains)}}}},
			ClusterCSIDriver: &operatorv1.ClusterCSIDriver{Spec: operatorv1.ClusterCSIDriverSpec{DriverConfig: operatorv1.CSIDriverConfigSpec{
				VSphere: &operatorv1.VSphereCSIDriverConfigSpec{MaxAllowedBlockVolumesPerNode: limit}}}},
		}
	}
	for _, tc := range []struct {
		cluster     drivers.Cluster
		provisioner []string
		limit       string
	}{
		{cluster(1, 0), []string{"--feature-gates=Topology=false"}, "59"},
		{cluster(2, 255), []string{"--feature-gates=Topology=true", "--strict-topology"}, "255"},
	} {
		pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "csi-provisioner", Args: []string{"--feature-gates=Topology=false"}}, {Name: "vsphere-plugin"}}}
		Driver.Configure(&pod, tc.cluster)
		assert.Empty(t, cmp.Diff(tc.provisioner, pod.Containers[0].Args), "arguments of the provisioner (-want +got)")
		assert.Equal(t, []corev1.EnvVar{{Name: "MAX_VOLUMES_PER_NODE", Value: tc.limit}}, pod.Containers[1].Env, "environment of the driver")
	}
}
