package manila

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

// Tests that apply to every driver are in package drivers.

// TestKeys: new pods understand the keys that OpenShift 4.5's operator wrote, with the CA at the same path, and the Secret has none of
// them any more.
func TestKeys(t *testing.T) {
	manifests, err := Driver.Manifests(drivers.Values{Namespace: Driver.Namespace, Image: func(env string) string { return env }})
	require.NoError(t, err)
	const file = "cloud-provider-ca-bundle.pem"
	for _, retired := range Driver.History.Keys {
		secrets := drivers.Named(manifests, "Secret", retired.Secret)
		require.Lenf(t, secrets, 1, "there are %d Secrets %s, want one", len(secrets), retired.Secret)
		data, _, _ := unstructured.NestedStringMap(secrets[0].Object.Object, "data")
		for _, key := range retired.Keys {
			assert.Emptyf(t, data[key], "key %s of the Secret, which is retired", key)
		}
	}
	found := 0
	for _, m := range manifests {
		volumes, _, _ := unstructured.NestedSlice(m.Object.Object, "spec", "template", "spec", "volumes")
		containers, _, _ := unstructured.NestedSlice(m.Object.Object, "spec", "template", "spec", "containers")
		for _, volume := range volumes {
			items, _, _ := unstructured.NestedSlice(volume.(map[string]any), "secret", "items")
			if !slices.ContainsFunc(items, func(item any) bool { return item.(map[string]any)["path"] == file }) {
				continue
			}
			for _, container := range containers {
				mounts, _, _ := unstructured.NestedSlice(container.(map[string]any), "volumeMounts")
				for _, mount := range mounts {
					if m := mount.(map[string]any); m["name"] == volume.(map[string]any)["name"] && m["mountPath"] == "/usr/share/pki/ca-trust-source" {
						found++
					}
				}
			}
		}
	}
	assert.Equal(t, 2, found, "containers with the CA where os-certAuthorityPath says, want those of the controller and of the node")
}

// TestMountedCA: pods mount the CA bundle of the cloud's configuration if there is one, otherwise the credentials'
// bundle.
func TestMountedCA(t *testing.T) {
	for volume, config := range map[string]map[string]string{credentialsCA: nil, configCA: {drivers.CABundleKey: "bundle"}} {
		container := corev1.Container{Name: "csi-driver", VolumeMounts: []corev1.VolumeMount{
			{Name: credentialsCA, MountPath: "/a"}, {Name: "cloud", MountPath: "/b"}, {Name: credentialsCA, MountPath: "/c"},
		}}
		pod := corev1.PodSpec{Containers: []corev1.Container{container}}
		Driver.Configure(&pod, drivers.Cluster{CloudConfig: config})
		want := []corev1.VolumeMount{{Name: volume, MountPath: "/a"}, {Name: "cloud", MountPath: "/b"}, {Name: volume, MountPath: "/c"}}
		assert.Emptyf(t, cmp.Diff(want, pod.Containers[0].VolumeMounts), "with the configuration %v (-want +got)", config)
	}
}
