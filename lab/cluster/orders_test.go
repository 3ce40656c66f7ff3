package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRestore: a restored etcd has the content of the backup, controllers keep working, and tokens that were signed with a removed key are refused.
func TestRestore(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	namespace := c.Namespace(t)
	backup := filepath.Join(t.TempDir(), "etcd.db")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "before"}}
	require.NoError(t, c.client.Create(t.Context(), object))
	require.NoError(t, c.BackUp(t.Context(), backup))
	former := clientOf(t, c.ServiceAccountConfig(t, namespace, "default"))
	require.NoError(t, c.RenewKeys())
	list := func(as client.Client) error {
		return as.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace))
	}
	err := list(former)
	assert.Truef(t, apierrors.IsForbidden(err), "with a token of the former key: got %v, want it forbidden, but the token accepted", err)
	renewed := clientOf(t, c.ServiceAccountConfig(t, namespace, "default"))
	require.NoError(t, c.ForgetKeys())
	err = list(former)
	assert.Truef(t, apierrors.IsUnauthorized(err), "with a token of the key that was forgotten: got %v, want it refused", err)
	err = list(renewed)
	assert.Truef(t, apierrors.IsForbidden(err), "with a token of the new key: got %v, want it forbidden, but the token accepted", err)

	require.NoError(t, c.client.Delete(t.Context(), object))
	revision := latestRevision(t, c)
	require.NoError(t, c.Restore(t.Context(), backup))
	assert.NoError(t, c.client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	now := latestRevision(t, c)
	assert.Greaterf(t, len(now), len(revision), "the revision was %s, and is %s, want one that is far above", revision, now)
	// The controller manager must notice the restore to serve a new namespace.
	c.Namespace(t)
	assert.Error(t, c.StopNode("worker-7"), "a node that does not exist was stopped")
	// So have the scheduler and the nodes.
	Eventually(t, waitLimit, "a pod to run", func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "later"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/any"}}},
		}
		if err := c.client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
}

// latestRevision returns etcd's revision, which lists have.
func latestRevision(t *testing.T, c *Cluster) string {
	t.Helper()
	all := &corev1.ConfigMapList{}
	require.NoError(t, c.client.List(t.Context(), all))
	return all.ResourceVersion
}
