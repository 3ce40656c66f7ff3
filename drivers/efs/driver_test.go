package efs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/efs"
)

// Tests that apply to every driver are in package drivers.

const ownedLabel = "openshift.io/aws-efs-operator-owned"

func manifests(t *testing.T, d drivers.Driver, namespace string) []drivers.Manifest {
	t.Helper()
	found, err := d.Manifests(drivers.Values{Namespace: namespace, Image: func(env string) string { return env }})
	require.NoError(t, err)
	return found
}

func convert[T any](t *testing.T, m drivers.Manifest) T {
	t.Helper()
	var typed T
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &typed), m.File)
	return typed
}

// TestNames: these objects keep the names that users and other objects refer to, and that earlier operators gave
// them.
func TestNames(t *testing.T) {
	var got, owned []string
	for _, m := range manifests(t, efs.Driver, "ns") {
		o := m.Object
		name := strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, " ")
		got = append(got, name)
		if o.GetLabels()[ownedLabel] == "true" {
			owned = append(owned, name)
		}
	}
	slices.Sort(owned)
	taken := []string{
		"CSIDriver  efs.csi.aws.com",
		"DaemonSet ns efs-csi-node",
		"SecurityContextConstraints  efs-csi-scc",
		"ServiceAccount ns efs-csi-sa",
		"StorageClass  efs-sc",
	}
	assert.Emptyf(t, cmp.Diff(taken, owned), "objects labelled %s (-want +got)", ownedLabel)
	for _, name := range append(taken,
		"CustomResourceDefinition  sharedvolumes.aws-efs.managed.openshift.io",
		"Deployment ns efs-csi-controller",
		"ServiceAccount ns efs-csi-controller-sa",
		"CredentialsRequest openshift-cloud-credential-operator openshift-aws-efs-csi-driver",
		"CredentialsRequest openshift-cloud-credential-operator openshift-aws-efs-csi-driver-node",
		"CredentialsRequest openshift-cloud-credential-operator openshift-aws-efs-csi-driver-tags",
	) {
		assert.Containsf(t, got, name, "no asset is %q", name)
	}
	for what, names := range map[string][2]string{
		"package":           {"aws-efs-operator", efs.Driver.Package.Name},
		"channel":           {"stable", efs.Driver.Package.Channel},
		"replaced version":  {"aws-efs-operator.v0.0.8", efs.Driver.Package.Replaces},
		"operator":          {"aws-efs-operator", efs.Driver.Operator.Name},
		"lock":              {"aws-efs-operator-lock", efs.Driver.Operator.Lock},
		"operator's pods":   {"aws-efs-operator", efs.Driver.OperatorDeployment().Spec.Selector.MatchLabels["name"]},
		"controller Secret": {"aws-efs-cloud-credentials", efs.Driver.Secrets[0]},
		"node Secret":       {"node-aws-efs-cloud-credentials", efs.Driver.Secrets[1]},
		"tags Secret":       {"tags-aws-efs-cloud-credentials", efs.Driver.CloudAccess.Secret},
	} {
		assert.Equal(t, names[0], names[1], what)
	}
}

// flags are the flags of the driver's command, version 3.4.1, and of klog, which it includes. The driver exits if it gets
// any other flag.
var flags = []string{
	"adaptive-retry-mode", "debug-logs", "delete-access-point-root-dir", "efs-cloudwatch-log-enabled",
	"efs-utils-conf-overrides", "efs-utils-config-dir-path", "efs-utils-config-legacy-dir-path",
	"efs-utils-static-files-path", "endpoint", "force-unmount-after-timeout", "http-endpoint",
	"max-inflight-mount-calls", "max-inflight-mount-calls-opt-in", "metrics-cert-file", "metrics-key-file",
	"s3files-cloudwatch-log-enabled", "s3files-cloudwatch-metrics-enabled", "s3files-utils-conf-overrides",
	"tags", "unmount-timeout", "version", "vol-metrics-fs-rate-limit", "vol-metrics-opt-in",
	"vol-metrics-refresh-period", "volume-attach-limit", "volume-attach-limit-opt-in",
	"logtostderr", "v", "vmodule",
}

func TestDriverFlags(t *testing.T) {
	all := manifests(t, efs.Driver, "ns")
	deployment := convert[appsv1.Deployment](t, drivers.OfKind(all, "Deployment")[0])
	daemonSet := convert[appsv1.DaemonSet](t, drivers.OfKind(all, "DaemonSet")[0])
	for _, pod := range []*corev1.PodSpec{&deployment.Spec.Template.Spec, &daemonSet.Spec.Template.Spec} {
		efs.Driver.Configure(pod, everySetting())
	}
	ran := 0
	for _, c := range slices.Concat(deployment.Spec.Template.Spec.Containers, daemonSet.Spec.Template.Spec.Containers) {
		if c.Image != "DRIVER_IMAGE" {
			continue
		}
		ran++
		for _, arg := range c.Args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if !strings.HasPrefix(arg, "--") || !slices.Contains(flags, name) {
				t.Errorf("container %s: the driver does not know %s", c.Name, arg)
			}
		}
	}
	assert.Equal(t, 2, ran, "containers that run the driver, in the controller and on each node")
}

// everySetting is a cluster with every setting that the driver supports.
func everySetting() drivers.Cluster {
	infrastructure, custom := &configv1.Infrastructure{}, &operatorv1.ClusterCSIDriver{}
	infrastructure.Status.InfrastructureName = "harbour-x1"
	custom.Spec.DriverConfig.AWS = &operatorv1.AWSCSIDriverConfigSpec{EFSVolumeMetrics: &operatorv1.AWSEFSVolumeMetrics{
		State:         operatorv1.AWSEFSVolumeMetricsRecursiveWalk,
		RecursiveWalk: &operatorv1.AWSEFSVolumeMetricsRecursiveWalkConfig{RefreshPeriodMinutes: 60, FSRateLimit: 7},
	}}
	return drivers.Cluster{Infrastructure: infrastructure, ClusterCSIDriver: custom}
}

// TestNodeState: state that must outlive a pod on a node is on the node, so that mounted volumes keep working when
// the pod is replaced.
func TestNodeState(t *testing.T) {
	daemonSet := convert[appsv1.DaemonSet](t, drivers.OfKind(manifests(t, efs.Driver, "ns"), "DaemonSet")[0])
	pod := daemonSet.Spec.Template.Spec
	paths := map[string]string{} // of the node, by the name of the volume
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			paths[v.Name] = v.HostPath.Path
		}
	}
	got := map[string]string{} // of the node, by path in the container
	for _, m := range pod.Containers[0].VolumeMounts {
		if path, ok := paths[m.Name]; ok {
			got[m.MountPath] = path
		}
	}
	want := map[string]string{
		"/var/lib/kubelet":       "/var/lib/kubelet",
		"/csi":                   "/var/lib/kubelet/plugins/efs.csi.aws.com/",
		"/var/run/efs":           "/var/run/efs",
		"/var/amazon/efs":        "/var/amazon/efs",
		"/etc/amazon/efs-legacy": "/etc/amazon/efs",
	}
	assert.Empty(t, cmp.Diff(want, got), "directories of the node in the driver's container (-want +got)")
	assert.True(t, pod.HostNetwork, "the pod has its own network: tunnels would not survive the pod")
}

// TestCredentialsAreOptional: the driver starts without credentials, as most volumes can be mounted without them.
func TestCredentialsAreOptional(t *testing.T) {
	all := manifests(t, efs.Driver, "ns")
	deployment := convert[appsv1.Deployment](t, drivers.OfKind(all, "Deployment")[0])
	daemonSet := convert[appsv1.DaemonSet](t, drivers.OfKind(all, "DaemonSet")[0])
	found := 0
	for _, v := range slices.Concat(deployment.Spec.Template.Spec.Volumes, daemonSet.Spec.Template.Spec.Volumes) {
		if v.Secret == nil || !slices.Contains(efs.Driver.Secrets, v.Secret.SecretName) {
			continue
		}
		found++
		if v.Secret.Optional == nil || !*v.Secret.Optional {
			t.Errorf("volume %s: a missing Secret %s keeps the pod from starting", v.Name, v.Secret.SecretName)
		}
		assert.Emptyf(t, cmp.Diff([]corev1.KeyToPath{{Key: "credentials", Path: "credentials"}}, v.Secret.Items), "volume %s, items (-want +got)", v.Name)
	}
	assert.Equal(t, len(efs.Driver.Secrets), found, "volumes with credentials")
}
