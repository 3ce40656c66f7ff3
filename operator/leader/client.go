package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/lock"
	"github.com/berth-csi/berth/operator/transport"
)

// A lockClient is the client for operator-lib's leader election. It writes only the lock, so RBAC rules can be limited
// to the lock's name. OLM copies permissions in the operator's namespace to all namespaces, so a permission to delete
// an ended operator's pod would be a permission to delete any pod.
type lockClient struct {
	client.Client
	key          client.ObjectKey // of the lock
	fieldManager string
}

// errLeaderOnNotReadyNode says that the pod that holds the lock is on a node that is not ready, and may still run.
var errLeaderOnNotReadyNode = errors.New("the pod that holds the lock is on a node that is not ready, and may still run")

// Create creates the lock. It fails if the lock exists.
func (c lockClient) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	created := &unstructured.Unstructured{Object: content}
	created.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	created.SetResourceVersion(transport.CreateOnly)
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(created), client.ForceOwnership, client.FieldOwner(c.fieldManager))
	if apierrors.IsConflict(err) {
		return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), created.GetName())
	}
	return err
}

// Get reads an object. It presents each ended pod as evicted, because operator-lib frees the lock only of evicted and
// preempted pods, and waits for the deletion of other ended pods.
func (c lockClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if pod, isPod := object.(*corev1.Pod); isPod && lock.Ended(pod, time.Now()) {
		pod.Status.Phase, pod.Status.Reason, pod.DeletionTimestamp = corev1.PodFailed, "Evicted", nil
	}
	return nil
}

// Delete is called when operator-lib wants to delete the pod that holds the lock. It deletes the lock instead, if that
// pod has ended. Otherwise the pod is on a node that is not ready, where it may still be active, and Delete fails.
func (c lockClient) Delete(ctx context.Context, object client.Object, _ ...client.DeleteOption) error {
	if pod, isPod := object.(*corev1.Pod); isPod && lock.Ended(pod, time.Now()) {
		return c.deleteLockOf(ctx, pod)
	}
	return errLeaderOnNotReadyNode
}

func (c lockClient) deleteLockOf(ctx context.Context, pod *corev1.Pod) error {
	held := &corev1.ConfigMap{}
	if err := c.Get(ctx, c.key, held); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !slices.ContainsFunc(held.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == pod.UID }) {
		return nil
	}
	if err := c.Client.Delete(ctx, held, client.Preconditions{UID: &held.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the lock %s of pod %s, which has ended: %w", c.key, pod.Name, err)
	}
	klog.V(2).InfoS("Deleted the lock of a pod that has ended", "lock", c.key, "pod", klog.KObj(pod))
	return nil
}
