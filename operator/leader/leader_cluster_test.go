package leader

import (
	"context"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubemetrics "k8s.io/component-base/metrics"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/metrics"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestWaitForLockIsReported: an operator in a pod waits for the lock before it does anything else. It writes the condition
// only while no operator is active.
func TestWaitForLockIsReported(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	driver := drivers.Driver{CSIName: "smb.csi.k8s.io", ConditionPrefix: "Lock", Operator: drivers.Operator{Name: "lock-operator", Lock: "lock"}}
	registry := kubemetrics.NewKubeRegistry()
	lock := NewLock(driver, c.Namespace(t), c.Config(), metrics.New(registry.MustRegister))
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver.CSIName},
		Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}}}
	pod := operatorPod(lock.namespace, "first")
	pod.Spec.ServiceAccountName = driver.Operator.Name
	stranger := operatorPod(lock.namespace, "stranger")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: lock.namespace, Name: driver.Operator.Name}}
	for _, object := range []client.Object{custom, account, pod, stranger} {
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
	t.Cleanup(func() { _ = c.Client().Delete(context.Background(), custom) })
	custom.Status.Conditions = []operatorv1.OperatorCondition{{Type: "Available", Status: operatorv1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	require.NoError(t, c.Client().Status().Update(t.Context(), custom))
	report := func() {
		t.Helper()
		require.NoError(t, lock.report(t.Context(), c.Client(), metav1.Now()))
		require.NoError(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(custom), custom))
	}
	setReady := func(ready corev1.ConditionStatus) {
		t.Helper()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Unix(1_700_000_000, 0)}}
		require.NoError(t, c.Client().Status().Update(t.Context(), pod))
	}
	held := createLock(t, c, lock.keyIn(lock.namespace), pod)
	setReady(corev1.ConditionTrue)
	report()
	assert.Len(t, custom.Status.Conditions, 1, "beside an active operator, which removes it, the operator wrote a condition")
	families, err := registry.Gather()
	require.NoError(t, err)
	reported := false
	for _, family := range families {
		for _, m := range family.Metric {
			reported = reported || family.GetName() == "berth_operator_waiting_for_lock" && m.Label[1].GetValue() == lock.namespace && m.GetGauge().GetValue() == 1
		}
	}
	assert.True(t, reported, "berth_operator_waiting_for_lock is not 1")

	setReady(corev1.ConditionUnknown) // as it is while the node does not answer
	report()
	require.Len(t, custom.Status.Conditions, 2, "conditions: the one of the wait beside the earlier one")
	condition := custom.Status.Conditions[slices.IndexFunc(custom.Status.Conditions, func(c operatorv1.OperatorCondition) bool { return c.Type != "Available" })]
	if condition.Type != "LockOperatorLockDegraded" || condition.Status != operatorv1.ConditionTrue || condition.Reason != "WaitingForLock" || !strings.Contains(condition.Message, "pod first on node") {
		t.Errorf("the condition is %v", condition)
	}
	version := custom.ResourceVersion
	report()
	assert.Equal(t, version, custom.ResourceVersion, "a second report of the same wait has changed the ClusterCSIDriver")

	// Whoever may write ConfigMaps here has the lock name a pod that is ready and is no operator.
	held.OwnerReferences[0].Name, held.OwnerReferences[0].UID = stranger.Name, stranger.UID
	require.NoError(t, c.Client().Update(t.Context(), held))
	pod = stranger
	setReady(corev1.ConditionTrue)
	report()
	condition = custom.Status.Conditions[slices.IndexFunc(custom.Status.Conditions, func(c operatorv1.OperatorCondition) bool { return c.Type != "Available" })]
	if !strings.Contains(condition.Message, "pod stranger on node") || !strings.Contains(condition.Message, `if it is no operator, delete the ConfigMap`) {
		t.Errorf("while a pod that is no operator holds the lock, the condition is %v", condition)
	}
}

// operatorPod returns a pod that stays as it is: it has no node, so nobody else writes its status.
func operatorPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "operator", Image: "registry.example/operator:1"}}}}
}

func createLock(t *testing.T, c *cluster.Cluster, key client.ObjectKey, pod *corev1.Pod) *corev1.ConfigMap {
	t.Helper()
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}}
	require.NoError(t, c.Client().Create(t.Context(), held))
	return held
}

// TestLockOfAPodThatHasEnded: operator-lib frees the lock of an evicted pod only. The client has it free the lock of every
// pod that has ended, and of no other.
func TestLockOfAPodThatHasEnded(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		freed  bool
	}{
		"running":   {corev1.PodStatus{Phase: corev1.PodRunning}, false},
		"evicted":   {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, true},
		"shut-down": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Terminated", Message: "Pod was terminated in response to imminent node shutdown."}, true},
		"rejected":  {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeAffinity"}, true},
		"succeeded": {corev1.PodStatus{Phase: corev1.PodSucceeded}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := operatorPod(namespace, name)
			require.NoError(t, c.Client().Create(t.Context(), pod))
			pod.Status = tc.status
			require.NoError(t, c.Client().Status().Update(t.Context(), pod))
			key := client.ObjectKeyFromObject(pod)
			held := createLock(t, c, key, pod)

			// As operator-lib does.
			seen, locked := &corev1.Pod{}, lockClient{c.Client(), key, "lock-operator"}
			require.NoError(t, locked.Get(t.Context(), key, seen))
			if evicted := seen.Status.Phase == corev1.PodFailed && seen.Status.Reason == "Evicted"; evicted != tc.freed {
				t.Errorf("operator-lib sees an evicted pod: %v, want %v", evicted, tc.freed)
			}
			err := locked.Delete(t.Context(), seen)
			assert.Equalf(t, tc.freed, err == nil, "freeing the lock: %v", err)
			if err := c.Client().Get(t.Context(), key, pod); err != nil || pod.DeletionTimestamp != nil {
				t.Errorf("the pod was deleted, which takes a permission to delete any pod: %v", err)
			}
			err = c.Client().Get(t.Context(), key, held)
			assert.Equalf(t, tc.freed, apierrors.IsNotFound(err), "the lock is gone: %v", err)
		})
	}
}

func TestWaitFor(t *testing.T) {
	key := client.ObjectKey{Namespace: "harbour", Name: "lock"}
	at := func(minutes int) metav1.Time { return metav1.Unix(1_700_000_000+60*int64(minutes), 0) }
	pod := func(ready corev1.ConditionStatus, deleted *metav1.Time) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "first", CreationTimestamp: at(1), DeletionTimestamp: deleted}, Spec: corev1.PodSpec{NodeName: "node-7"}}
		if ready != "" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: at(2)}}
		}
		return pod
	}
	deleted := at(3)
	for name, tc := range map[string]struct {
		holder *corev1.Pod
		active bool
		since  metav1.Time
		says   []string
	}{
		"nobody":                 {nil, false, at(0), []string{"ConfigMap harbour/lock", "belongs to no pod that runs"}},
		"active":                 {pod(corev1.ConditionTrue, nil), true, at(2), []string{"pod first on node node-7", "another operator"}},
		"not started":            {pod("", nil), false, at(1), []string{"not ready", "delete pod first"}},
		"on a lost node":         {pod(corev1.ConditionUnknown, nil), false, at(2), []string{"pod first on node node-7", "not ready", "oc -n harbour delete pod first"}},
		"ending":                 {pod(corev1.ConditionTrue, &deleted), true, at(2), []string{"is being deleted"}},
		"deleted, and not ready": {pod(corev1.ConditionUnknown, &deleted), false, at(2), []string{"expire at 2023-11-14T22:18:20Z", "delete pod first --force"}},
	} {
		t.Run(name, func(t *testing.T) {
			wait := waitFor(key, tc.holder, at(0))
			if wait.active != tc.active || !wait.since.Equal(&tc.since) {
				t.Errorf("active: %v since %v, want %v since %v", wait.active, wait.since, tc.active, tc.since)
			}
			for _, part := range tc.says {
				assert.Contains(t, wait.message, part, "the message")
			}
		})
	}
}
