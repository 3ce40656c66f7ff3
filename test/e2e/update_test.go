package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
)

// TestOperatorIsUpdatedBesideADeadPod: the pod that holds the lock stays Terminating, because its node is lost. OLM updates
// the operator all the same. The new operator waits, because the pod may still run, and says so. It becomes active when an
// administrator has deleted the pod by force.
func TestOperatorIsUpdatedBesideADeadPod(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	const later = "berth-later"
	w.serveCatalog()
	w.serve(later, release.Build(t, w.driver).Update(t).Catalog)
	w.subscribe(nil)
	w.checkOperatorProcess()
	first := w.leader()
	dead := w.loseLeader(first)
	custom := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	w.create(custom)

	subscription := w.subscription(catalogName, w.driver.Package.Channel)
	w.patch(subscription, fmt.Sprintf(`{"spec":{"source":%q}}`, later))
	w.awaitInstalled(subscription, w.driver.Package.Name+".v1.0.1")
	holder := w.leader()
	assert.Equalf(t, dead.UID, holder.UID, "pod %s holds the lock beside pod %s, which may still run", holder.Name, dead.Name)
	mustPrint(t, w.reader().Follow(t, "start/install.md", "## When the operator waits"), dead.Name, "Terminating", dead.Spec.NodeName)
	waits := w.driver.ConditionPrefix + "OperatorLockDegraded"
	message := func(ctx context.Context) (string, error) {
		err := w.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom)
		for _, condition := range custom.Status.Conditions {
			if condition.Type == waits {
				return condition.Message, err
			}
		}
		return "", err
	}
	cluster.Eventually(t, limit, "the new operator to say that it waits for the dead pod", func(ctx context.Context) error {
		if got, err := message(ctx); err != nil || !strings.Contains(got, dead.Name+" on node "+dead.Spec.NodeName) {
			return fmt.Errorf("condition %s says %q, %w", waits, got, err)
		}
		return nil
	})

	require.NoError(t, w.Client().Delete(t.Context(), dead, client.GracePeriodSeconds(0)))
	cluster.Eventually(t, limit, "the new operator to be active", func(ctx context.Context) error {
		holder, err := journey.LockHolder(ctx, w.Client(), namespace, w.driver.Operator.Lock)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(holder.Spec.Containers[0].Image, ":v1.0.1") {
			return fmt.Errorf("pod %s holds the lock, with image %s", holder.Name, holder.Spec.Containers[0].Image)
		}
		got, err := message(ctx)
		if err == nil && got != "" {
			err = errors.New("it still says that it waits")
		}
		return err
	})
}

// loseLeader replaces the operator's pod by one on a lost node, which holds the lock and stays Terminating, and one that
// waits for it. It returns the former.
func (w *environment) loseLeader(leader *corev1.Pod) *corev1.Pod {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	dead := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: leader.Namespace, Name: "dead-operator", Labels: leader.Labels, OwnerReferences: leader.OwnerReferences},
		Spec:       leader.Spec,
	}
	dead.Spec.NodeName = node.Name
	// Its credentials do not expire while the test runs.
	dead.Spec.TerminationGracePeriodSeconds = new(int64(3600))
	w.create(node)
	w.create(dead)
	// The ReplicaSet deletes this pod, because it has one that is ready.
	cluster.Eventually(w.t, limit, "the pod to be Terminating and Running", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(dead), dead); err != nil {
			return err
		}
		if dead.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		dead.Status.Phase = corev1.PodRunning
		dead.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.Now()}}
		return w.Client().Status().Update(ctx, dead)
	})
	held := &corev1.ConfigMap{}
	require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKey{Namespace: leader.Namespace, Name: w.driver.Operator.Lock}, held))
	held.OwnerReferences = []metav1.OwnerReference{journey.PodReference(dead)}
	require.NoError(w.t, w.Client().Update(w.t.Context(), held))
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, leader); err != nil {
			return err
		}
		return journey.Gone(ctx, c, leader)
	})
	cluster.Eventually(w.t, limit, "another pod of the operator to be ready", func(ctx context.Context) error {
		deployment := &appsv1.Deployment{}
		if err := w.Client().Get(ctx, client.ObjectKey{Namespace: leader.Namespace, Name: w.driver.Operator.Name}, deployment); err != nil {
			return err
		}
		if deployment.Status.ReadyReplicas != 1 {
			return fmt.Errorf("%d pods are ready", deployment.Status.ReadyReplicas)
		}
		return nil
	})
	return dead
}
