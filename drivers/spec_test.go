package drivers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	configuration "github.com/berth-csi/berth/drivers/vsphere/controller"
)

// specFields are all fields of a ClusterCSIDriver's spec, with a spec that has each, and the drivers that honor it; nil for
// all, because the operator does.
var specFields = []struct {
	path    string
	spec    string
	drivers []string
}{
	{"managementState", `{"managementState": "Unmanaged"}`, nil},
	{"logLevel", `{"logLevel": "Debug"}`, nil},
	{"operatorLogLevel", `{"operatorLogLevel": "Debug"}`, nil},
	{"observedConfig", `{"observedConfig": {"targetcsiconfig": {}}}`, nil},
	{"storageClassState", `{"storageClassState": "Removed"}`, nil},
	{"unsupportedConfigOverrides", `{"unsupportedConfigOverrides": {"a": "b"}}`, []string{}},
	{"driverConfig.driverType", `{"driverConfig": {"driverType": "IBMCloud"}}`, []string{}},
	{"driverConfig.aws.kmsKeyARN", aws(`"kmsKeyARN": "arn:aws:kms:us-east-1:123456789012:key/1"`), []string{"ebs"}},
	{"driverConfig.aws.efsVolumeMetrics.state", aws(`"efsVolumeMetrics": {"state": "RecursiveWalk"}`), []string{"efs"}},
	{"driverConfig.aws.efsVolumeMetrics.recursiveWalk.refreshPeriodMinutes", aws(`"efsVolumeMetrics": {"state": "RecursiveWalk", "recursiveWalk": {"refreshPeriodMinutes": 7}}`), []string{"efs"}},
	{"driverConfig.aws.efsVolumeMetrics.recursiveWalk.fsRateLimit", aws(`"efsVolumeMetrics": {"state": "RecursiveWalk", "recursiveWalk": {"fsRateLimit": 7}}`), []string{"efs"}},
	{"driverConfig.azure.diskEncryptionSet.subscriptionID", azure, []string{"azuredisk"}},
	{"driverConfig.azure.diskEncryptionSet.resourceGroup", azure, []string{"azuredisk"}},
	{"driverConfig.azure.diskEncryptionSet.name", azure, []string{"azuredisk"}},
	{"driverConfig.gcp.kmsKey.name", gcp, []string{"gcppd"}},
	{"driverConfig.gcp.kmsKey.keyRing", gcp, []string{"gcppd"}},
	{"driverConfig.gcp.kmsKey.projectID", gcp, []string{"gcppd"}},
	{"driverConfig.gcp.kmsKey.location", gcp, []string{"gcppd"}},
	{"driverConfig.ibmcloud.encryptionKeyCRN", `{"driverConfig": {"driverType": "IBMCloud", "ibmcloud": {"encryptionKeyCRN": "crn:v1"}}}`, []string{}},
	{"driverConfig.vSphere.topologyCategories", vSphere(`"topologyCategories": ["k8s-region", "k8s-zone"]`), []string{"vsphere"}},
	{"driverConfig.vSphere.globalMaxSnapshotsPerBlockVolume", vSphere(`"globalMaxSnapshotsPerBlockVolume": 10`), []string{"vsphere"}},
	{"driverConfig.vSphere.granularMaxSnapshotsPerBlockVolumeInVSAN", vSphere(`"granularMaxSnapshotsPerBlockVolumeInVSAN": 20`), []string{"vsphere"}},
	{"driverConfig.vSphere.granularMaxSnapshotsPerBlockVolumeInVVOL", vSphere(`"granularMaxSnapshotsPerBlockVolumeInVVOL": 5`), []string{"vsphere"}},
	{"driverConfig.vSphere.maxAllowedBlockVolumesPerNode", vSphere(`"maxAllowedBlockVolumesPerNode": 100`), []string{"vsphere"}},
	{"driverConfig.secretsStore.secretRotation.type", secretsStore(`"secretRotation": {"type": "None"}`), []string{}},
	{"driverConfig.secretsStore.secretRotation.custom.minimumRefreshAge", secretsStore(`"secretRotation": {"custom": {"minimumRefreshAge": 60}}`), []string{}},
	{"driverConfig.secretsStore.tokenRequests.type", secretsStore(`"tokenRequests": {"type": "Unmanaged"}`), []string{}},
	{"driverConfig.secretsStore.tokenRequests.managed.audiences", secretsStore(`"tokenRequests": {"managed": {"audiences": []}}`), []string{}},
}

const (
	azure = `{"driverConfig": {"driverType": "Azure", "azure": {"diskEncryptionSet": {"subscriptionID": "s", "resourceGroup": "g", "name": "n"}}}}`
	gcp   = `{"driverConfig": {"driverType": "GCP", "gcp": {"kmsKey": {"name": "n", "keyRing": "r", "projectID": "p", "location": "l"}}}}`
)

func aws(fields string) string {
	return `{"driverConfig": {"driverType": "AWS", "aws": {` + fields + `}}}`
}

func vSphere(fields string) string {
	return `{"driverConfig": {"driverType": "vSphere", "vSphere": {` + fields + `}}}`
}

func secretsStore(fields string) string {
	return `{"driverConfig": {"driverType": "SecretsStore", "secretsStore": {` + fields + `}}}`
}

// TestEveryFieldOfTheSpec: the driver honors each field that an administrator can write in its ClusterCSIDriver, or the
// condition …DriverSettingsApplied names it. A field that a new version of the API brings fails the test.
func TestEveryFieldOfTheSpec(t *testing.T) {
	var known []string
	for _, field := range specFields {
		known = append(known, field.path)
	}
	slices.Sort(known)
	paths := leaves(reflect.TypeFor[operatorv1.ClusterCSIDriverSpec](), "")
	slices.Sort(paths)
	require.Empty(t, cmp.Diff(known, paths), "say for each field of the API which drivers honor it (-known +API)")
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		if len(drivers.OfKind(manifests, "StorageClass")) == 0 && d.Backend == nil {
			t.Error("the driver has no StorageClass, so storageClassState has no effect")
		}
		if !slices.ContainsFunc(workloads(t, manifests), func(w workload) bool { return strings.Contains(w.raw, "${LOG_LEVEL}") }) {
			t.Error("no container has ${LOG_LEVEL}, so logLevel has no effect")
		}
		for _, field := range specFields {
			with := clusterWith(t, field.spec)
			without := clusterWith(t, remove(t, field.spec, field.path))
			left := strings.Join(d.LeftOut(with), " ")
			named := slices.Contains(strings.FieldsFunc(left, func(r rune) bool { return r == ' ' || r == ',' }), "spec."+field.path) ||
				strings.Contains(left, "spec."+field.path+".")
			honored := field.drivers == nil || slices.Contains(field.drivers, d.Name)
			assert.Equalf(t, !honored, named, "%s is named in %q", field.path, left)
			if field.drivers == nil {
				continue // the operator's tests show the effect
			}
			effect := outcome(t, d, manifests, with) != outcome(t, d, manifests, without)
			assert.Equalf(t, honored, effect, "%s changes the driver's objects", field.path)
		}
	})
}

// leaves returns the paths of all fields of a type that are no objects of their own.
func leaves(of reflect.Type, prefix string) []string {
	var paths []string
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case strings.Contains(options, "inline"):
			paths = append(paths, leaves(kind, prefix)...)
		case kind.Kind() == reflect.Struct && kind.PkgPath() == of.PkgPath():
			paths = append(paths, leaves(kind, prefix+name+".")...)
		default:
			paths = append(paths, prefix+name)
		}
	}
	return paths
}

// remove returns a spec without the field of a path.
func remove(t *testing.T, spec, path string) string {
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(spec), &fields), spec)
	names := strings.Split(path, ".")
	object := fields
	for _, name := range names[:len(names)-1] {
		object = object[name].(map[string]any)
	}
	if _, ok := object[names[len(names)-1]]; !ok {
		t.Fatalf("%s is not in %s", path, spec)
	}
	delete(object, names[len(names)-1])
	document, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(document)
}

func clusterWith(t *testing.T, spec string) drivers.Cluster {
	custom := &operatorv1.ClusterCSIDriver{}
	require.NoError(t, json.Unmarshal([]byte(spec), &custom.Spec), spec)
	return drivers.Cluster{ClusterCSIDriver: custom, Infrastructure: &configv1.Infrastructure{Status: configv1.InfrastructureStatus{InfrastructureName: "harbour-x7k2p"}}}
}

// outcome returns what depends on the configuration of the cluster, as text.
func outcome(t *testing.T, d drivers.Driver, manifests []drivers.Manifest, cluster drivers.Cluster) string {
	var text []string
	for _, w := range workloads(t, manifests) {
		pod := w.pod.Spec.DeepCopy()
		d.Configure(pod, cluster)
		for _, c := range pod.Containers {
			text = append(text, fmt.Sprint(c.Name, c.Args, c.Env))
		}
	}
	for _, parameters := range []func(drivers.Cluster) map[string]string{d.ClassParameters, d.SnapshotParameters} {
		if parameters == nil {
			continue
		}
		found := parameters(cluster)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			text = append(text, name+"="+found[name])
		}
	}
	if d.Configuration != nil {
		content, err := configuration.Content(drivers.Cloud{
			Infrastructure: cluster.Infrastructure, DriverConfig: cluster.ClusterCSIDriver.Spec.DriverConfig,
			Config:      "[VirtualCenter \"one.example.com\"]\ndatacenters = North\n",
			Credentials: map[string][]byte{"one.example.com.username": []byte("pilot@harbour"), "one.example.com.password": []byte("p")},
		})
		require.NoError(t, err)
		text = append(text, fmt.Sprint(content))
	}
	return strings.Join(text, "\n")
}
