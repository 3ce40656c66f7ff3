package cinder

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

// Tests that apply to every driver are in package drivers.

func manifests(t *testing.T) []drivers.Manifest {
	t.Helper()
	all, err := Driver.Manifests(drivers.Values{Namespace: Driver.Namespace, Image: func(env string) string { return env }})
	require.NoError(t, err)
	return all
}

// TestNames: these objects keep the names, and their pods the labels, that OpenShift's own operator gave them.
func TestNames(t *testing.T) {
	got := map[string]string{} // selectors, by kind, namespace and name
	for _, m := range manifests(t) {
		selector, _, _ := unstructured.NestedStringMap(m.Object.Object, "spec", "selector", "matchLabels")
		got[strings.Join([]string{m.Object.GetKind(), m.Object.GetNamespace(), m.Object.GetName()}, " ")] = selector["app"]
	}
	for name, selector := range map[string]string{
		"Deployment openshift-cluster-csi-drivers openstack-cinder-csi-driver-controller":             "openstack-cinder-csi-driver-controller",
		"DaemonSet openshift-cluster-csi-drivers openstack-cinder-csi-driver-node":                    "openstack-cinder-csi-driver-node",
		"ServiceAccount openshift-cluster-csi-drivers openstack-cinder-csi-driver-controller-sa":      "",
		"ServiceAccount openshift-cluster-csi-drivers openstack-cinder-csi-driver-node-sa":            "",
		"ConfigMap openshift-cluster-csi-drivers cloud-conf":                                          "",
		"VolumeSnapshotClass  standard-csi":                                                           "",
		"CSIDriver  cinder.csi.openstack.org":                                                         "",
		"StorageClass  standard-csi":                                                                  "",
		"ClusterRole  openstack-cinder-privileged-role":                                               "",
		"ClusterRoleBinding  openstack-cinder-node-privileged-binding":                                "",
		"CredentialsRequest openshift-cloud-credential-operator openstack-cinder-csi-driver-operator": "",
	} {
		if found, ok := got[name]; !ok || found != selector {
			t.Errorf("%s: selector %q (found: %v), want %q", name, found, ok, selector)
		}
	}
}

// TestStorageClass: the class is never the default without an administrator, volumes are made where their pods run, and
// they can grow.
func TestStorageClass(t *testing.T) {
	classes := drivers.OfKind(manifests(t), "StorageClass")
	if len(classes) != 1 || Driver.ClusterStorage.DefaultClass != "" {
		t.Fatalf("the driver has %d classes, and the default %q; want one, and no default", len(classes), Driver.ClusterStorage.DefaultClass)
	}
	class := classes[0].Object
	if len(class.GetAnnotations()) > 0 || class.Object["volumeBindingMode"] != "WaitForFirstConsumer" || class.Object["allowVolumeExpansion"] != true {
		t.Errorf("the class is %v, want one that is not the default, waits for the first consumer, and can be expanded", class.Object)
	}
}

// TestNodesHaveNoCredentials: pods on every node have no credentials for the cloud.
func TestNodesHaveNoCredentials(t *testing.T) {
	for _, m := range drivers.OfKind(manifests(t), "DaemonSet") {
		for _, part := range append(Driver.Secrets, configDir+loginFile) {
			assert.NotContainsf(t, string(m.YAML), part, "%s: has %s", m.File, part)
		}
	}
}

func TestZonesUnsaid(t *testing.T) {
	for name, test := range map[string]struct {
		cloud, source map[string]string
		want          bool
	}{
		"nobody":                             {nil, nil, true},
		"others things":                      {map[string]string{"cloud.conf": ""}, map[string]string{"config": ""}, true},
		"in the configuration of the cloud":  {map[string]string{"enable_topology": "false"}, nil, false},
		"in the configuration of the driver": {nil, map[string]string{"enable_topology": "true"}, false},
	} {
		assert.Equal(t, test.want, zonesUnsaid(test.cloud, test.source), name)
	}
}
