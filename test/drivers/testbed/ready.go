package testbed

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

// DriverNamespace returns the namespace of the driver's pods.
func (b *Testbed) DriverNamespace() string {
	return cmp.Or(b.Driver.Namespace, cluster.OperatorNamespace)
}

// AwaitReady waits until the driver is ready on all nodes.
func (b *Testbed) AwaitReady(t testing.TB) {
	t.Helper()
	cluster.Eventually(t, Limit, "the driver to be ready on all nodes", b.ready)
}

// DriverPods returns the pods of the driver that are not being deleted.
func (b *Testbed) DriverPods(t testing.TB) (all []corev1.Pod) {
	t.Helper()
	workloads, err := b.workloads()
	require.NoError(t, err)
	for _, workload := range workloads {
		pods, err := b.podsOf(t.Context(), workload)
		require.NoError(t, err)
		all = append(all, pods...)
	}
	return all
}

// KillDriver kills all pods of the driver, and waits until others are in their places.
func (b *Testbed) KillDriver(t *testing.T) {
	before := b.DriverPods(t)
	for _, pod := range before {
		require.NoError(t, b.Client().Delete(t.Context(), &pod, client.GracePeriodSeconds(0)))
	}
	b.AwaitReplaced(t, before)
}

// AwaitReplaced waits until all of the driver's former pods are gone, and the new ones are ready.
func (b *Testbed) AwaitReplaced(t testing.TB, before []corev1.Pod) {
	t.Helper()
	cluster.Eventually(t, Limit, "the driver's pods to be replaced", func(context.Context) error {
		now := b.DriverPods(t)
		for _, pod := range now {
			if slices.ContainsFunc(before, func(old corev1.Pod) bool { return old.UID == pod.UID }) {
				return fmt.Errorf("pod %s is an old one", pod.Name)
			}
		}
		if len(now) < len(before) {
			return fmt.Errorf("there are %d pods, want %d", len(now), len(before))
		}
		return nil
	})
	b.AwaitReady(t)
}

// ready returns nil if the driver is registered at all nodes, and all of its pods are ready there.
func (b *Testbed) ready(ctx context.Context) error {
	for _, node := range Nodes {
		registered := &storagev1.CSINode{}
		if err := b.Client().Get(ctx, client.ObjectKey{Name: node}, registered); err != nil {
			return err
		}
		if !slices.ContainsFunc(registered.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == b.Driver.CSIName }) {
			return fmt.Errorf("node %s has the drivers %v, want %s among them", node, registered.Spec.Drivers, b.Driver.CSIName)
		}
	}
	workloads, err := b.workloads()
	if err != nil {
		return err
	}
	for _, workload := range workloads {
		pods, err := b.podsOf(ctx, workload)
		if err != nil {
			return err
		}
		on := map[string]bool{}
		for _, pod := range pods {
			if !cluster.IsReady(&pod) {
				return fmt.Errorf("pod %s on node %s is not ready: %s", pod.Name, pod.Spec.NodeName, notReadyReasons(&pod))
			}
			on[pod.Spec.NodeName] = true
		}
		// A controller has a replica on each node, too: it is highly available, and its pods have the ports of the host.
		if workload.GetKind() == "DaemonSet" && len(on) != len(Nodes) || len(pods) == 0 {
			return fmt.Errorf("%s %s has pods on %d nodes, want %d", workload.GetKind(), workload.GetName(), len(on), len(Nodes))
		}
	}
	return nil
}

// workloads returns the driver's Deployments and DaemonSets as its definition has them.
func (b *Testbed) workloads() ([]*unstructured.Unstructured, error) {
	manifests, err := b.Driver.Operand(drivers.Values{Namespace: b.DriverNamespace(), Image: func(env string) string { return env }})
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for _, m := range manifests {
		if kind := m.Object.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
			found = append(found, m.Object)
		}
	}
	return found, nil
}

// podsOf returns the pods of a workload that are not being deleted.
func (b *Testbed) podsOf(ctx context.Context, workload *unstructured.Unstructured) ([]corev1.Pod, error) {
	selector, _, err := unstructured.NestedStringMap(workload.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := b.Client().List(ctx, pods, client.InNamespace(workload.GetNamespace()), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// notReadyReasons returns the reasons why a pod is not ready.
func notReadyReasons(pod *corev1.Pod) string {
	var all []string
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case status.State.Waiting != nil:
			all = append(all, fmt.Sprintf("%s waits: %s %s", status.Name, status.State.Waiting.Reason, status.State.Waiting.Message))
		case status.State.Terminated != nil && status.State.Terminated.ExitCode != 0:
			all = append(all, fmt.Sprintf("%s ended with %d: %s", status.Name, status.State.Terminated.ExitCode, status.State.Terminated.Message))
		case !status.Ready:
			all = append(all, status.Name+" is not ready")
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
			all = append(all, condition.Message)
		}
	}
	return strings.Join(all, "; ")
}

// report logs the diagnostics of a failed test: pods, warnings, and the ends of the logs of the driver and its
// operator.
func (b *Testbed) report(t testing.TB) {
	ctx := context.Background() // the test's context has ended
	show := func(cmd *exec.Cmd) {
		output, _ := cmd.CombinedOutput() // names the problem
		t.Logf("%s\n%s", strings.Join(cmd.Args[1:], " "), output)
	}
	show(b.Kubectl(ctx, "get", "pods", "--all-namespaces", "--output=wide"))
	show(b.Kubectl(ctx, "get", "events", "--all-namespaces", "--field-selector=type=Warning", "--sort-by=.lastTimestamp",
		"--output=custom-columns=TIME:.lastTimestamp,KIND:.involvedObject.kind,NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message"))
	pods := &corev1.PodList{}
	if err := b.Client().List(ctx, pods); err != nil {
		t.Log(err)
		return
	}
	for _, pod := range pods.Items {
		if slices.Contains(Nodes, pod.Spec.NodeName) && slices.Contains([]string{b.DriverNamespace(), cluster.OperatorNamespace, clusterstorage.Namespace}, pod.Namespace) {
			show(b.Kubectl(ctx, "logs", "--namespace="+pod.Namespace, "--all-containers", "--prefix", "--tail=40", pod.Name))
		}
	}
}
