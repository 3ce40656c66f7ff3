package operator

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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A lockClient is the client of the library that waits for the lock. It writes nothing but the lock, which has a
// name that permissions can be limited to. The Operator Lifecycle Manager makes permissions in the operator's namespace
// hold in all namespaces: one to delete the pod of an operator that was evicted would be one to delete any pod.
type lockClient struct {
	client.Client
	lock    client.ObjectKey
	manager string
}

// errLeaderOnLostNode says that the pod that holds the lock is on a node that is not ready, and may be running.
var errLeaderOnLostNode = errors.New("the pod that holds the lock is on a node that is not ready, and nobody has deleted it yet")

// Create makes the lock. It fails if there is one.
func (c lockClient) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	lock := &unstructured.Unstructured{Object: content}
	lock.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	lock.SetResourceVersion(neverSeen)
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(lock), client.ForceOwnership, client.FieldOwner(c.manager))
	if apierrors.IsConflict(err) {
		return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), lock.GetName())
	}
	return err
}

// Delete deletes the lock, also where the library would have the pod deleted that holds it: the lock of a pod that has
// ended is free, and a pod that somebody else has deleted will not come back with its node.
func (c lockClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	pod, isPod := object.(*corev1.Pod)
	switch {
	case !isPod:
		return c.Client.Delete(ctx, object, options...)
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return c.deleteLockOf(ctx, pod)
	case pod.DeletionTimestamp != nil:
		return nil // The library deletes the lock next.
	}
	return errLeaderOnLostNode
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
	return nil
}
