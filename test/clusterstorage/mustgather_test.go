package clusterstorage

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/mustgather"
	"github.com/berth-csi/berth/test/release"
)

// TestMustGather: the script collects the support data of a platform's drivers, their operators and the cluster storage
// operator.
func TestMustGather(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, configv1.AWSPlatformType, cluster.Options{Images: programs(t)})
	w.install(release.Payload{Version: version})
	w.awaitSettled(version)

	folder, out := mustgather.Run(t, w.Cluster)
	files := mustgather.Files(t, folder)
	want := map[string]string{
		"version":                       "cluster-storage-operator " + version,
		"cluster/storages.yaml":         "Available",
		"cluster/clusteroperators.yaml": "name: " + clusterstorage.ClusterOperatorName,
		"cluster-storage-operator/namespaces/openshift-cluster-storage-operator/deployment-cluster-storage-operator.yaml":      "name: RELEASE_VERSION",
		"cluster-storage-operator/namespaces/openshift-cluster-storage-operator/pods/cluster-storage-operator-*/*operator.log": "Starting the cluster storage operator",
	}
	for _, d := range w.drivers {
		operator := d.CSIName + "/namespaces/" + drivers.ClusterStorageNamespace
		want[d.CSIName+"/clustercsidriver.yaml"] = "type: Available"
		want[d.CSIName+"/operator/clusterroles-1.yaml"] = "- clustercsidrivers"
		want[operator+"/deployment-"+d.Operator.Name+".yaml"] = "--removable=false"
		want[operator+"/pods/"+d.Operator.Name+"-*/*operator.log"] = "Starting the operator"
		want[d.CSIName+"/namespaces/"+d.Namespace+"/daemonset-*.yaml"] = "node-driver-registrar"
		assert.Contains(t, out, "gather: driver "+d.CSIName+", operator "+d.Operator.Name+" in namespace "+drivers.ClusterStorageNamespace, "it prints")
		assert.Contains(t, files["version"], d.Operator.Name+" "+version, "the versions")
	}
	mustgather.Check(t, files, want)
	for line := range strings.Lines(files["missing.txt"]) {
		// The cluster has neither OLM nor the service CA.
		if !strings.Contains(line, "the server doesn't have a resource type") && !strings.Contains(line, "no ConfigMap openshift-service-ca.crt") {
			t.Errorf("not collected: %s", line)
		}
	}
}
