package efs_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/efs"
)

// TestRegion: in a private region, the controller and the driver on each node find AWS, and have a file with its CA.
func TestRegion(t *testing.T) {
	const folder = "/var/run/cloud-ca"
	infrastructure := &configv1.Infrastructure{}
	infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{AWS: &configv1.AWSPlatformStatus{Region: "us-iso-east-1", ServiceEndpoints: []configv1.AWSServiceEndpoint{
		{Name: "ec2", URL: "https://ec2.example.com"}, {Name: "elasticfilesystem", URL: "https://efs.example.com"}, {Name: "iam", URL: "https://iam.example.com"},
		{Name: "sts", URL: "https://sts.example.com"},
	}}}
	observed := everySetting()
	observed.Infrastructure, observed.CloudConfig = infrastructure, map[string]string{drivers.CABundleKey: "PEM"}
	all := manifests(t, efs.Driver, "ns")
	assert.Lenf(t, drivers.Named(all, "ConfigMap", efs.Driver.CloudConfig.ConfigMap), 1, "no asset is the ConfigMap %s", efs.Driver.CloudConfig.ConfigMap)
	for name, pod := range map[string]corev1.PodSpec{
		"controller": convert[appsv1.Deployment](t, drivers.OfKind(all, "Deployment")[0]).Spec.Template.Spec,
		"node":       convert[appsv1.DaemonSet](t, drivers.OfKind(all, "DaemonSet")[0]).Spec.Template.Spec,
	} {
		before := len(pod.Containers[0].Env)
		efs.Driver.Configure(&pod, observed)
		got := map[string]string{}
		for _, env := range pod.Containers[0].Env[before:] {
			got[env.Name] = env.Value
		}
		want := map[string]string{
			"AWS_REGION": "us-iso-east-1", "AWS_ENDPOINT_URL_EC2": "https://ec2.example.com", "AWS_ENDPOINT_URL_EFS": "https://efs.example.com",
			"AWS_ENDPOINT_URL_STS": "https://sts.example.com", "AWS_CA_BUNDLE": folder + "/ca-bundle.pem",
		}
		assert.Emptyf(t, cmp.Diff(want, got), "%s: environment (-want +got)", name)
		if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(mount corev1.VolumeMount) bool {
			return mount.MountPath == folder && slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
				return v.Name == mount.Name && v.ConfigMap != nil && v.ConfigMap.Name == efs.Driver.CloudConfig.ConfigMap
			})
		}) {
			t.Errorf("%s: the ConfigMap %s is not mounted at %s", name, efs.Driver.CloudConfig.ConfigMap, folder)
		}
	}
}
