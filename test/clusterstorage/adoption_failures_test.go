package clusterstorage

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/handover"
	"github.com/berth-csi/berth/test/release"
)

// ownKey is a key that an administrator has added to each Secret whose keys are replaced.
const ownKey = "of-an-administrator"

// addOwnKeys adds it.
func (f *former) addOwnKeys() {
	f.t.Helper()
	for _, retired := range f.driver.History.Keys {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.driver.Namespace, Name: retired.Secret}}
		if err := f.Client().Get(f.t.Context(), client.ObjectKeyFromObject(secret), secret); err == nil {
			f.patch(secret, `{"stringData":{"`+ownKey+`":"mine"}}`)
		} else if !apierrors.IsNotFound(err) {
			f.t.Fatal(err)
		}
	}
}

// TestAdoptionFailures: when a driver is handed over, a node is lost, and the backend cannot be reached. The driver is
// updated on all other nodes, and objects that the lost node's pod may still need stay.
func TestAdoptionFailures(t *testing.T) {
	t.Parallel()
	at := slices.IndexFunc(succeedable(), func(d drivers.Driver) bool { return d.Backend != nil && len(d.History.Keys) > 0 })
	f := newFormer(t, succeedable()[at], programs(t))
	f.addOwnKeys()
	f.useVolumes()
	f.cloud.SetManila(openstack.Down)
	lost := f.loseNode()
	recorded := f.record()
	f.install(release.Payload{Version: version})

	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: f.driver.CSIName}}
	mustSay := func(t *testing.T, suffix string, status operatorv1.ConditionStatus, text string) {
		t.Helper()
		f.Await(t, limit, "a condition that says: "+text, custom, func() error {
			for _, c := range custom.Status.Conditions {
				if c.Type == f.driver.ConditionPrefix+suffix && c.Status == status && strings.Contains(c.Message, text) {
					return nil
				}
			}
			return fmt.Errorf("the conditions are %+v", custom.Status.Conditions)
		})
	}
	t.Run("F15: the backend cannot be reached", func(t *testing.T) {
		mustSay(t, "BackendAnswers", operatorv1.ConditionFalse, "the installed driver stays as it is")
		c := f.available(t.Context())
		assert.Equalf(t, operatorv1.ConditionTrue, c.Status, "Storage says %+v, want that the driver serves volumes", c)
	})
	f.awaitDriver(func(s appsv1.DaemonSetStatus) bool {
		others := s.DesiredNumberScheduled - 1
		return others > 0 && s.UpdatedNumberScheduled == others && s.NumberReady == others
	})
	t.Run("F14: a node is lost", func(t *testing.T) {
		phase, err := f.phase(t.Context())
		if err != nil || phase != migrate.Applying && phase != migrate.Completed {
			t.Errorf("the phase of the hand-over is %q, %v; want it begun", phase, err)
		}
	})
	t.Run("F5: the lost pod may need its keys", func(t *testing.T) {
		mustSay(t, "DriverLeftoversRemoved", operatorv1.ConditionFalse, lost)
		for _, before := range recorded.Secrets() {
			if retired := f.driver.History.KeysOf(before.Name); retired != nil {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name}}
				if f.get(secret); secret.ResourceVersion != before.ResourceVersion {
					t.Errorf("Secret %s has changed: it has the keys %v", secret.Name, handover.Keys(secret))
				}
			}
		}
	})
	f.cloud.SetManila(openstack.Up)
	f.removeNode(lost)
	f.awaitComplete()
	recorded.MustHold(t)
	f.mustBeHandedOver()
}

// awaitDriver waits until the new operator has brought each DaemonSet of the driver to a status.
func (f *former) awaitDriver(reached func(appsv1.DaemonSetStatus) bool) {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "the new operator to update the driver", func(ctx context.Context) error {
		sets := &appsv1.DaemonSetList{}
		if err := f.Client().List(ctx, sets, client.InNamespace(f.driver.Namespace)); err != nil {
			return err
		}
		for _, set := range sets.Items {
			if set.Labels[drivers.ManagedByLabel] == "" || set.Status.ObservedGeneration < set.Generation || !reached(set.Status) {
				return fmt.Errorf("DaemonSet %s of generation %d has the status %+v; Storage says %+v%s", set.Name, set.Generation, set.Status, f.available(ctx), f.conditions(ctx))
			}
		}
		return nil
	})
}

// within returns the same for a subtest.
func (f *former) within(t *testing.T) *former {
	e, g := *f.environment, *f
	e.t, g.environment = t, &e
	return &g
}

// loseNode adds a node, and makes its kubelet end when the driver's pods are bound to it.
func (f *former) loseNode() string {
	f.t.Helper()
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("100")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost", Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH, "node-role.kubernetes.io/worker": ""}}}
	f.create(node)
	ready := func(status corev1.ConditionStatus) {
		f.t.Helper()
		cluster.Eventually(f.t, limit, "the status of the node", func(ctx context.Context) error {
			f.get(node)
			node.Status.Capacity, node.Status.Allocatable = capacity, capacity
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
			return f.Client().Status().Update(ctx, node)
		})
	}
	ready(corev1.ConditionTrue)
	sets := &appsv1.DaemonSetList{}
	require.NoError(f.t, f.Client().List(f.t.Context(), sets, client.InNamespace(f.driver.Namespace)))
	cluster.Eventually(f.t, limit, "pods of the driver on the node", func(ctx context.Context) error {
		pods, err := f.podsOn(ctx, node.Name)
		if err == nil && len(pods) < len(sets.Items) {
			err = fmt.Errorf("there are %d, want %d", len(pods), len(sets.Items))
		}
		return err
	})
	ready(corev1.ConditionFalse)
	return node.Name
}

// podsOn returns the pods of the driver on a node.
func (f *former) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := f.Client().List(ctx, pods, client.InNamespace(f.driver.Namespace))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName != node }), err
}

// removeNode deletes a node and its pods, as an administrator and the garbage collector do.
func (f *former) removeNode(name string) {
	f.t.Helper()
	require.NoError(f.t, f.Client().Delete(f.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	cluster.Eventually(f.t, limit, "the pods of the node to be gone", func(ctx context.Context) error {
		pods, err := f.podsOn(ctx, name)
		if err != nil || len(pods) == 0 {
			return err
		}
		for i := range pods {
			if err := client.IgnoreNotFound(f.Client().Delete(ctx, &pods[i], client.GracePeriodSeconds(0))); err != nil {
				return err
			}
		}
		return fmt.Errorf("there are still %d", len(pods))
	})
}
