// Package lock reads the leader-for-life lock of a driver's operators: a ConfigMap that the pod of the active operator
// owns.
package lock

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TokenExpiry is how long after its deletion timestamp a pod may still write to the cluster, if nothing stops it. The
// API server rejects the token of a pod's service account one minute after that, and remembers for ten seconds which
// tokens it has accepted (pkg/serviceaccount/claims.go and pkg/kubeapiserver/options/authentication.go of Kubernetes).
// The rest allows for different clocks.
const TokenExpiry = 2 * time.Minute

// Ended reports whether a pod can no longer be an active operator, so that it holds no lock. The containers of a pod in a terminal phase
// have ended, and none of them is restarted, even if nobody deletes the pod. On an unreachable node, the kubelet does not end the
// containers of a deleted pod, but they cannot write to the cluster once the pod's token is rejected.
func Ended(pod *corev1.Pod, now time.Time) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return true
	}
	return pod.DeletionTimestamp != nil && now.After(pod.DeletionTimestamp.Add(TokenExpiry))
}

// Holder returns the pod that holds a lock, or nil if none does. A pod that has ended holds no lock. Holder needs only
// permissions to get the ConfigMap and to list pods.
func Holder(ctx context.Context, c client.Reader, lock client.ObjectKey) (*corev1.Pod, error) {
	held := &corev1.ConfigMap{}
	if err := c.Get(ctx, lock, held); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the lock %s: %w", lock, err)
	}
	for _, owner := range held.OwnerReferences {
		if owner.Kind != "Pod" {
			continue
		}
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(lock.Namespace), client.MatchingFields{metav1.ObjectNameField: owner.Name}); err != nil {
			return nil, fmt.Errorf("reading the pod %s/%s, which owns the lock %s: %w", lock.Namespace, owner.Name, lock, err)
		}
		for _, pod := range pods.Items {
			if pod.UID == owner.UID && !Ended(&pod, time.Now()) {
				return &pod, nil
			}
		}
	}
	return nil, nil
}
