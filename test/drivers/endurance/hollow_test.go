package endurance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// hollowNodes are nodes in memory: their kubelets renew their leases, and only report that pods run.
type hollowNodes struct {
	api  kubernetes.Interface
	like *corev1.Node // a node that has a kubelet
	csi  *storagev1.CSINode
}

// leaseSeconds is the lifetime of a node's lease, and leaseRenewal how often its kubelet renews it, as on a real node.
const (
	leaseSeconds = 40
	leaseRenewal = 10 * time.Second
)

// addHollowNodes adds nodes that differ from a real node of a testbed by their names, until the test ends.
func addHollowNodes(t testing.TB, bed *testbed.Testbed, count int) {
	t.Helper()
	api, err := kubernetes.NewForConfig(bed.Config())
	require.NoError(t, err)
	h := hollowNodes{api: api, like: &corev1.Node{}, csi: &storagev1.CSINode{}}
	for _, object := range []client.Object{h.like, h.csi} {
		require.NoError(t, bed.Client().Get(t.Context(), client.ObjectKey{Name: testbed.Nodes[0]}, object))
	}
	stop := h.runPods(t)
	t.Cleanup(stop)
	for i := range count {
		require.NoError(t, h.add(t.Context(), fmt.Sprintf("hollow-%d", i)))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	go h.renewLeases(ctx, count)
}

// add creates a node, its lease and its CSINode.
func (h hollowNodes) add(ctx context.Context, name string) error {
	node := h.like.DeepCopy()
	node.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: h.like.Labels, Annotations: h.like.Annotations}
	node.Labels[corev1.LabelHostname] = name
	node.Spec.ProviderID, node.Spec.PodCIDR, node.Spec.PodCIDRs = "", "", nil
	node, err := h.api.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := h.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease(name), metav1.CreateOptions{}); err != nil {
		return err
	}
	csi := h.csi.DeepCopy()
	csi.ObjectMeta = metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}}
	for i := range csi.Spec.Drivers {
		csi.Spec.Drivers[i].NodeID = name
	}
	_, err = h.api.StorageV1().CSINodes().Create(ctx, csi, metav1.CreateOptions{})
	return err
}

func lease(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &node, LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &metav1.MicroTime{Time: time.Now()}}}
}

// renewLeases renews the leases of all nodes, spread over one renewal interval.
func (h hollowNodes) renewLeases(ctx context.Context, count int) {
	next := time.NewTicker(leaseRenewal / time.Duration(count))
	defer next.Stop()
	for i := 0; ; i = (i + 1) % count {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		// An error is seen at the node, which is not ready then.
		_, _ = h.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, lease(fmt.Sprintf("hollow-%d", i)), metav1.UpdateOptions{})
	}
}

// runPods reports pods of hollow nodes as running, and as gone when they should go.
func (h hollowNodes) runPods(t testing.TB) (stop func()) {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(h.api, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		notReal := fields.Everything()
		for _, node := range append([]string{""}, testbed.Nodes...) {
			notReal = fields.AndSelectors(notReal, fields.OneTermNotEqualSelector("spec.nodeName", node))
		}
		o.FieldSelector = notReal.String()
	}))
	do := func(object any) {
		pod := object.(*corev1.Pod)
		if err := h.runPod(context.WithoutCancel(t.Context()), pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Logf("pod %s of node %s: %v", pod.Name, pod.Spec.NodeName, err)
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, object any) { do(object) }})
	require.NoError(t, err)
	end := make(chan struct{})
	factory.Start(end)
	return func() {
		close(end)
		factory.Shutdown()
	}
}

func (h hollowNodes) runPod(ctx context.Context, pod *corev1.Pod) error {
	pods := h.api.CoreV1().Pods(pod.Namespace)
	if !isHollow(pod.Spec.NodeName) {
		return nil
	}
	if pod.DeletionTimestamp != nil {
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	}
	if pod.Status.Phase == corev1.PodRunning {
		return nil
	}
	pod = pod.DeepCopy()
	now := metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// awaitRunning waits until the driver's pods run on all nodes.
func awaitRunning(t testing.TB, bed *testbed.Testbed, count int) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "the driver to be on all nodes", func(ctx context.Context) error {
		found := 0
		for _, pod := range bed.DriverPods(t) {
			if isHollow(pod.Spec.NodeName) && pod.Status.Phase == corev1.PodRunning {
				found++
			}
		}
		if found < count {
			return fmt.Errorf("it runs on %d of %d", found, count)
		}
		return nil
	})
}
