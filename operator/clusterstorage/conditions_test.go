package clusterstorage

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
)

// deployment returns a Deployment of one pod, changed.
func deployment(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x-operator", Generation: 2}}
	d.Status.ObservedGeneration = 2
	for _, change := range changes {
		change(d)
	}
	return d
}

func running(d *appsv1.Deployment) {
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 1, 1, 1
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "True", Reason: "NewReplicaSetAvailable"}}
}

// evicted is the state of a Deployment while its pod moves to another node.
func evicted(d *appsv1.Deployment) {
	running(d)
	d.Status.AvailableReplicas, d.Status.UnavailableReplicas = 0, 1
}

func rolling(d *appsv1.Deployment) {
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 2, 1, 1
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "True", Reason: "ReplicaSetUpdated"}}
}

func unobserved(d *appsv1.Deployment) { d.Status.ObservedGeneration = 1 }

func deadlineExceeded(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded", Message: "timed out"}}
}

// brief returns conditions as "Type=Status Reason", without healthy ones.
func brief(conditions []operatorv1.OperatorCondition) []string {
	var found []string
	for _, c := range conditions {
		if c.Reason != "AsExpected" {
			found = append(found, c.Type+"="+string(c.Status)+" "+c.Reason)
		}
	}
	return found
}

func TestDeploymentConditions(t *testing.T) {
	for _, tc := range []struct {
		name       string
		deployment *appsv1.Deployment
		want       []string
	}{
		{"missing", nil, []string{"XProgressing=True Missing"}},
		{"running", deployment(running), nil},
		{"starting", deployment(), []string{"XProgressing=True RollingOut"}},
		{"evicted from its node", deployment(evicted), []string{"XDegraded=True NoPod"}},
		{"evicted, and changed", deployment(evicted, unobserved), []string{"XProgressing=True RollingOut"}},
		{"a change that nobody has seen", deployment(running, unobserved), []string{"XProgressing=True RollingOut"}},
		{"rolling out beside the old pod", deployment(rolling), []string{"XProgressing=True RollingOut"}},
		{"stuck, with the old pod", deployment(rolling, deadlineExceeded), []string{"XDegraded=True RolloutStuck"}},
		{"stuck, without a pod", deployment(deadlineExceeded), []string{"XDegraded=True RolloutStuck"}},
		{"stuck before a change that nobody has seen", deployment(rolling, unobserved, deadlineExceeded), []string{"XProgressing=True RollingOut"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Empty(t, cmp.Diff(tc.want, brief(deploymentConditions("X", tc.deployment))), "conditions (-want +got)")
		})
	}
}

// TestDriverConditions: Storage shows the reports of a driver's operator.
func TestDriverConditions(t *testing.T) {
	with := func(change func(*driverState)) driverState {
		s := state("1.1.0")
		change(&s)
		return s
	}
	reports := func(conditions ...operatorv1.OperatorCondition) driverState {
		return with(func(s *driverState) { s.customResource.Status.Conditions = conditions })
	}
	optional := func(s driverState) driverState {
		s.driver.ClusterStorage = &drivers.ClusterStorage{Optional: true}
		return s
	}
	noCloud := operatorv1.OperatorCondition{Type: "XBackendDisabled", Status: "True", Reason: "NoShares"}
	unavailable := operatorv1.OperatorCondition{Type: "XNodeAvailable", Status: "False", Reason: "NoPods"}
	for _, tc := range []struct {
		name  string
		state driverState
		want  []string
	}{
		{"all is well", state("1.1.0"), nil},
		{"no ClusterCSIDriver", with(func(s *driverState) { s.customResource = nil }),
			[]string{"XCSIDriverOperatorCRAvailable=False WaitForOperator", "XCSIDriverOperatorCRProgressing=True WaitForOperator", "XCSIDriverOperatorCRDegraded=False WaitForOperator"}},
		{"nothing reported", reports(),
			[]string{"XCSIDriverOperatorCRAvailable=False WaitForOperator", "XCSIDriverOperatorCRProgressing=True WaitForOperator", "XCSIDriverOperatorCRDegraded=False WaitForOperator"}},
		{"the operator before this one reported", state("1.0.0"), []string{"XCSIDriverOperatorCRProgressing=True WaitForOperator"}},
		{"the driver is not available", reports(unavailable, operatorv1.OperatorCondition{Type: "Progressing", Status: "False"}, operatorv1.OperatorCondition{Type: "Degraded", Status: "False"}),
			[]string{"XCSIDriverOperatorCRAvailable=False XNode_NoPods"}},
		{"the driver must not be upgraded", reports(operatorv1.OperatorCondition{Type: "Available", Status: "True"}, operatorv1.OperatorCondition{Type: "Progressing", Status: "False"},
			operatorv1.OperatorCondition{Type: "Degraded", Status: "False"}, operatorv1.OperatorCondition{Type: "XUpgradeable", Status: "False", Reason: "OldNodes"}),
			[]string{"XCSIDriverOperatorCRUpgradeable=False X_OldNodes"}},
		{"an optional driver is disabled", optional(reports(noCloud, unavailable, operatorv1.OperatorCondition{Type: "Degraded", Status: "False"})),
			[]string{"XCSIDriverOperatorCRAvailable=True DriverDisabled", "XCSIDriverOperatorCRProgressing=False DriverDisabled"}},
		{"another driver is disabled", reports(noCloud, unavailable, operatorv1.OperatorCondition{Type: "Progressing", Status: "False"}, operatorv1.OperatorCondition{Type: "Degraded", Status: "False"}),
			[]string{"XCSIDriverOperatorCRAvailable=False XNode_NoPods"}},
		{"an administrator brings a driver", with(func(s *driverState) {
			s.customResource.Spec.ManagementState = operatorv1.Unmanaged
			s.customResource.Status.Conditions = []operatorv1.OperatorCondition{unavailable}
		}), []string{"XCSIDriverOperatorCRAvailable=True Unmanaged", "XCSIDriverOperatorCRProgressing=False Unmanaged",
			"XCSIDriverOperatorCRDegraded=False Unmanaged", "XCSIDriverOperatorCRUpgradeable=True Unmanaged"}},
		{"an object is refused", with(func(s *driverState) { s.err = errors.New("refused") }), []string{"XCSIDriverOperatorObjectsDegraded=True ApplyFailed"}},
		{"somebody else's CSIDriver", with(func(s *driverState) { s.foreign = true }), []string{"XCSIDriverOperatorDegraded=True ForeignCSIDriver"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Empty(t, cmp.Diff(tc.want, brief(tc.state.conditions("1.1.0"))), "conditions (-want +got)")
		})
	}
}

func TestForeign(t *testing.T) {
	const name = "x.csi.example.com"
	d := drivers.Driver{CSIName: name, Operator: drivers.Operator{Name: "x-operator"}, History: drivers.History{Labels: map[string]string{"made-by": "old"}}}
	with := func(meta metav1.ObjectMeta) map[string]*storagev1.CSIDriver {
		return map[string]*storagev1.CSIDriver{name: {ObjectMeta: meta}}
	}
	custom := func(state operatorv1.ManagementState) map[string]*operatorv1.ClusterCSIDriver {
		return map[string]*operatorv1.ClusterCSIDriver{name: {Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: state}}}}
	}
	for _, tc := range []struct {
		name string
		o    observed
		want bool
	}{
		{"no CSIDriver", observed{}, false},
		{"somebody's", observed{csiDrivers: with(metav1.ObjectMeta{})}, true},
		{"somebody's, and ours is to be managed", observed{csiDrivers: with(metav1.ObjectMeta{}), customResources: custom(operatorv1.Managed)}, true},
		{"somebody's, and ours is unmanaged", observed{csiDrivers: with(metav1.ObjectMeta{}), customResources: custom(operatorv1.Unmanaged)}, false},
		{"ours", observed{csiDrivers: with(metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "x-operator"}})}, false},
		{"an earlier operator's of ours", observed{csiDrivers: with(metav1.ObjectMeta{Labels: map[string]string{"made-by": "old"}})}, false},
		{"OpenShift's", observed{csiDrivers: with(metav1.ObjectMeta{Annotations: map[string]string{"csi.openshift.io/managed": "true"}})}, false},
		{"another operator's", observed{csiDrivers: with(metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "helm"}})}, true},
	} {
		assert.Equalf(t, tc.want, foreign(d, tc.o), "%s: foreign =", tc.name)
	}
}

// TestPlatformConditions: a platform that needs nothing is available, and says why.
func TestPlatformConditions(t *testing.T) {
	storage := func(state operatorv1.ManagementState) *operatorv1.Storage {
		return &operatorv1.Storage{Spec: operatorv1.StorageSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: state}}}
	}
	x := drivers.Driver{CSIName: "x.csi.example.com"}
	for _, tc := range []struct {
		name        string
		o           observed
		choices     []choice
		want        []string
		wantMessage string // of PlatformAvailable
	}{
		{"no platform", observed{storage: storage("Managed")}, nil, nil, "no CSI driver is installed"},
		{"a platform without drivers", observed{storage: storage("Managed"), infrastructure: infrastructure("None")}, nil, nil, "the platform None has no CSI drivers"},
		{"a driver", observed{storage: storage("Managed"), infrastructure: infrastructure("AWS")}, []choice{{driver: x}}, nil, "the platform AWS has x.csi.example.com"},
		{"a driver that is left out", observed{storage: storage("Managed"), infrastructure: infrastructure("AWS")}, []choice{{driver: x, without: "nobody wants it"}}, nil,
			"x.csi.example.com is not installed: nobody wants it"},
		{"storage to be removed", observed{storage: storage("Removed")}, nil, []string{"PlatformDegraded=True RemovalNotSupported"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conditions := platformConditions(tc.o, tc.choices)
			assert.Empty(t, cmp.Diff(tc.want, brief(conditions)), "conditions (-want +got)")
			assert.Contains(t, conditions[0].Message, tc.wantMessage, "message")
		})
	}
}

// TestMerge: conditions that nobody reports any more go, and the others keep the time of their last transition.
func TestMerge(t *testing.T) {
	then, now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(2030, 1, 1, 13, 0, 0, 0, time.UTC)
	old := []operatorv1.OperatorCondition{
		{Type: "Same", Status: "True", LastTransitionTime: metav1.NewTime(then)},
		{Type: "Changed", Status: "True", LastTransitionTime: metav1.NewTime(then)},
		{Type: "Gone", Status: "True", LastTransitionTime: metav1.NewTime(then)},
	}
	got := merge(old, []operatorv1.OperatorCondition{{Type: "Same", Status: "True", Message: "new"}, {Type: "New", Status: "True"}, {Type: "Changed", Status: "False"}}, now)
	want := []operatorv1.OperatorCondition{
		{Type: "Changed", Status: "False", LastTransitionTime: metav1.NewTime(now)},
		{Type: "New", Status: "True", LastTransitionTime: metav1.NewTime(now)},
		{Type: "Same", Status: "True", Message: "new", LastTransitionTime: metav1.NewTime(then)},
	}
	assert.Empty(t, cmp.Diff(want, got), "conditions (-want +got)")
}
