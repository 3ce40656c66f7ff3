package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/operator/transport"
)

// A lockClient is the client for operator-lib's leader election. It writes only the lock, whose name RBAC rules can be
// limited to. OLM copies permissions in the operator's namespace to all namespaces, so a permission to delete the pod of
// an evicted operator would be a permission to delete any pod.
type lockClient struct {
	client.Client
	lock         client.ObjectKey
	fieldManager string
}

// errLeaderOnNotReadyNode says that the pod that holds the lock is on a node that is not ready, and may still run.
var errLeaderOnNotReadyNode = errors.New("the pod that holds the lock is on a node that is not ready, and has not been deleted")

// Create creates the lock. It fails if the lock exists.
func (c lockClient) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	lock := &unstructured.Unstructured{Object: content}
	lock.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	lock.SetResourceVersion(transport.CreateOnly)
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(lock), client.ForceOwnership, client.FieldOwner(c.fieldManager))
	if apierrors.IsConflict(err) {
		return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), lock.GetName())
	}
	return err
}

// Delete deletes the lock where operator-lib would delete the pod that holds it: the lock of a pod that has ended is
// free, and a pod that was already deleted will not run again when its node comes back.
func (c lockClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	pod, isPod := object.(*corev1.Pod)
	switch {
	case !isPod:
		return c.Client.Delete(ctx, object, options...)
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return c.deleteLockOf(ctx, pod)
	case pod.DeletionTimestamp != nil:
		return nil // operator-lib deletes the lock next
	}
	return errLeaderOnNotReadyNode
}

func (c lockClient) deleteLockOf(ctx context.Context, pod *corev1.Pod) error {
	held := &corev1.ConfigMap{}
	if err := c.Get(ctx, c.lock, held); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !slices.ContainsFunc(held.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == pod.UID }) {
		return nil
	}
	if err := c.Client.Delete(ctx, held, client.Preconditions{UID: &held.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the lock %s of pod %s, which has ended: %w", c.lock, pod.Name, err)
	}
	klog.V(2).InfoS("Deleted the lock of a pod that has ended", "lock", c.lock, "pod", klog.KObj(pod))
	return nil
}
