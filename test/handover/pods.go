package handover

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-csi/berth/drivers"
)

// mustHaveOnePodOnEachNode fails the test if two pods of a DaemonSet were on a node at the same time. A node driver
// that ends deletes its socket, and would delete the other one's.
func mustHaveOnePodOnEachNode(t *testing.T, before []corev1.Pod, events []watch.Event, rollsOut bool) {
	type place struct{ set, node string }
	pods := map[place]map[types.UID]string{}
	changed := 0
	see := func(pod *corev1.Pod, gone bool) {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" {
			return
		}
		at := place{pod.Namespace + "/" + owner.Name, pod.Spec.NodeName}
		if pods[at] == nil {
			pods[at] = map[types.UID]string{}
		}
		if gone {
			if pods[at][pod.UID] != "" {
				changed++
			}
			delete(pods[at], pod.UID)
			return
		}
		pods[at][pod.UID] = pod.Name
		assert.LessOrEqualf(t, len(pods[at]), 1, "node %s had several pods of DaemonSet %s at a time: %v", at.node, at.set, pods[at])
	}
	for i := range before {
		see(&before[i], false)
	}
	for _, event := range events {
		pod := event.Object.(*corev1.Pod)
		// The containers of a pod in these phases have ended, and the DaemonSet controller does not wait until it is gone.
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		see(pod, event.Type == watch.Deleted || ended)
	}
	if changed == 0 && rollsOut {
		t.Error("no pod of a DaemonSet was replaced")
	}
}

// mustHaveOneOperator fails the test unless the last pod of OLM's operator had gone before the first of the new one came.
func (r *Recording) mustHaveOneOperator(t *testing.T) {
	var last, first int
	for i, event := range r.pods() {
		pod := event.Object.(*corev1.Pod)
		switch {
		case slices.Contains(r.formerPods, pod.UID):
			last = i + 1
		case pod.Namespace == r.of.Namespace && pod.Spec.ServiceAccountName == r.of.Operator && r.of.Namespace != drivers.ClusterStorageNamespace:
			t.Errorf("OLM's operator was started again: pod %s", pod.Name)
		case pod.Namespace == drivers.ClusterStorageNamespace && pod.Spec.ServiceAccountName == r.of.Driver.Operator.Name && first == 0:
			first = i + 1
		}
	}
	if last == 0 || first == 0 || first < last {
		t.Errorf("event %d is the last one of a pod of OLM's operator, and event %d the first one of the new operator's; want the former first", last, first)
	}
}

// mustLeaveWriters fails the test if a pod of the application was touched, or was not there to begin with.
func (r *Recording) mustLeaveWriters(t *testing.T) {
	isWriter := func(pod *corev1.Pod) bool {
		for key, value := range WriterLabels {
			if pod.Labels[key] != value {
				return false
			}
		}
		return true
	}
	restarts := map[types.UID]int32{}
	for i := range r.podsBefore {
		if pod := &r.podsBefore[i]; isWriter(pod) {
			restarts[pod.UID] = restartsOf(pod)
		}
	}
	assert.NotEmpty(t, restarts, "there was no pod of the application")
	for _, event := range r.pods() {
		pod := event.Object.(*corev1.Pod)
		before, known := restarts[pod.UID]
		if isWriter(pod) && (!known || event.Type != watch.Modified || pod.DeletionTimestamp != nil || restartsOf(pod) > before) {
			t.Errorf("pod %s of the application was %s, deletion at %v, status %+v", pod.Name, event.Type, pod.DeletionTimestamp, pod.Status.ContainerStatuses)
		}
	}
}

func restartsOf(pod *corev1.Pod) (all int32) {
	for _, status := range pod.Status.ContainerStatuses {
		all += status.RestartCount
	}
	return all
}
