// Package lock reads the leader-for-life lock of a driver's operators: a ConfigMap that the pod of the active operator
// owns.
package lock

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Holder returns the pod that holds a lock, or nil if none does. A pod that has ended holds nothing: its lock is about
// to be garbage-collected. It takes permissions to get the ConfigMap and to list pods, and no others.
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
			if pod.UID == owner.UID && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				return &pod, nil
			}
		}
	}
	return nil, nil
}
