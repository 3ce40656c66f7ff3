package node

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// podsGetter provides the pod controller with clients that write statuses like a kubelet.
type podsGetter struct{ typedcorev1.PodsGetter }

func (g podsGetter) Pods(namespace string) typedcorev1.PodInterface {
	return podClient{g.PodsGetter.Pods(namespace)}
}

type podClient struct{ typedcorev1.PodInterface }

// UpdateStatus writes only the status. The pod controller passes the whole object as it last saw it, which would revert
// others' changes of labels, annotations and finalizers. When the last container of a pod that is being deleted has
// ended, it also removes the object: the pod controller would wait the whole grace period.
func (c podClient) UpdateStatus(ctx context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": pod.UID},
		{"op": "add", "path": "/status", "value": pod.Status},
	})
	if err != nil {
		return nil, err
	}
	updated, err := c.Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil || updated.DeletionTimestamp == nil || !isOver(updated.Status.Phase) {
		return updated, err
	}
	return updated, c.Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
}

func isOver(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// retryUnlessInvalid makes the pod controller retry to write a status indefinitely, except for a status that the API
// server will never accept, for example because another pod has taken the name.
func retryUnlessInvalid(_ context.Context, _ string, _ int, _ time.Time, err error) (*time.Duration, error) {
	if apierrors.IsInvalid(err) {
		return nil, err
	}
	return nil, nil
}
