package ebs

import (
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
)

func TestRegion(t *testing.T) {
	endpoints := []configv1.AWSServiceEndpoint{
		{Name: "ec2", URL: "https://ec2.example.com"}, {Name: "iam", URL: "https://iam.example.com"}, {Name: "sts", URL: "https://sts.example.com"}}
	for name, test := range map[string]struct {
		aws    *configv1.AWSPlatformStatus
		bundle string
		want   map[string]string
	}{
		"another platform": {want: map[string]string{}},
		"a public region":  {aws: &configv1.AWSPlatformStatus{Region: "us-east-1"}, want: map[string]string{"AWS_REGION": "us-east-1"}},
		"a private region": {aws: &configv1.AWSPlatformStatus{Region: "us-iso-east-1", ServiceEndpoints: endpoints}, bundle: "PEM", want: map[string]string{
			"AWS_REGION": "us-iso-east-1", "AWS_EC2_ENDPOINT": "https://ec2.example.com", "AWS_ENDPOINT_URL_STS": "https://sts.example.com",
			"AWS_CA_BUNDLE": "/var/run/cloud-ca/ca-bundle.pem"}},
		"no region": {aws: &configv1.AWSPlatformStatus{}, want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			infrastructure := &configv1.Infrastructure{}
			infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{AWS: test.aws}
			container := &corev1.Container{}
			if leftOut := region.Apply(drivers.Cluster{Infrastructure: infrastructure, CloudConfig: map[string]string{drivers.CABundleKey: test.bundle}}, container); leftOut != nil {
				t.Errorf("left out %q", leftOut)
			}
			got := map[string]string{}
			for _, env := range container.Env {
				got[env.Name] = env.Value
			}
			assert.Empty(t, cmp.Diff(test.want, got), "environment (-want +got)")
		})
	}
}

// TestCloudCAIsMounted: the driver exits if the file of AWS_CA_BUNDLE is missing.
func TestCloudCAIsMounted(t *testing.T) {
	manifests, err := Driver.Manifests(drivers.Values{Namespace: "ns", Image: func(env string) string { return env }})
	require.NoError(t, err)
	assert.Lenf(t, drivers.Named(manifests, "ConfigMap", Driver.CloudConfig.ConfigMap), 1, "no asset is the ConfigMap %s", Driver.CloudConfig.ConfigMap)
	deployment := &appsv1.Deployment{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(drivers.OfKind(manifests, "Deployment")[0].Object.Object, deployment))
	pod, folder := deployment.Spec.Template.Spec, path.Dir(cloudCAFile)
	if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(mount corev1.VolumeMount) bool {
		return mount.MountPath == folder && slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Name == mount.Name && v.ConfigMap != nil && v.ConfigMap.Name == Driver.CloudConfig.ConfigMap
		})
	}) {
		t.Errorf("container %s does not mount the ConfigMap %s at %s", pod.Containers[0].Name, Driver.CloudConfig.ConfigMap, folder)
	}
}
