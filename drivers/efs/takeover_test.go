package efs_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/community"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestTakeOver: applying our assets adopts each object of the community operator in place, and leaves nothing of its
// old content.
func TestTakeOver(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	apply := appliers(t, c)
	leftovers, err := community.Driver(namespace, nil)
	require.NoError(t, err)
	for _, before := range leftovers {
		kind := before.GetKind()
		t.Run(kind, func(t *testing.T) {
			ours := manifestOf(t, kind, before.GetName(), namespace)
			require.NoError(t, c.Client().Create(t.Context(), before))
			t.Cleanup(func() {
				assert.NoError(t, client.IgnoreNotFound(c.Client().Delete(context.Background(), before)))
			})
			require.NoError(t, apply[kind](ours))
			after := &unstructured.Unstructured{}
			after.SetGroupVersionKind(before.GroupVersionKind())
			require.NoError(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(before), after))
			assert.Equal(t, before.GetUID(), after.GetUID(), "UID: the object was recreated")
			fresh := ours.Object.DeepCopy()
			fresh.SetName("fresh")
			require.NoError(t, c.Client().Create(t.Context(), fresh, client.DryRunAll))
			assert.Empty(t, cmp.Diff(content(fresh), content(after)), "the adopted object differs from a new one (-new +adopted)")
		})
	}
}

// appliers write an object of a kind as the operator does: DaemonSets and StorageClasses through library-go, which
// would recreate a StorageClass that differs, and all others by server-side apply.
func appliers(t *testing.T, c *cluster.Cluster) map[string]func(drivers.Manifest) error {
	t.Helper()
	kube, err := kubernetes.NewForConfig(c.Config())
	require.NoError(t, err)
	recorder := events.NewInMemoryRecorder("test", clock.RealClock{})
	serverSide := func(m drivers.Manifest) error {
		return c.Client().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(m.Object.DeepCopy()),
			client.FieldOwner("test"), client.ForceOwnership)
	}
	return map[string]func(drivers.Manifest) error{
		"CSIDriver":                  serverSide,
		"SecurityContextConstraints": serverSide,
		"ServiceAccount":             serverSide,
		"DaemonSet": func(m drivers.Manifest) error {
			daemonSet := convert[appsv1.DaemonSet](t, m)
			// The DaemonSet controller may write its status at the same time.
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				_, _, err := resourceapply.ApplyDaemonSet(t.Context(), kube.AppsV1(), recorder, &daemonSet, -1)
				return err
			})
		},
		"StorageClass": func(m drivers.Manifest) error {
			class := convert[storagev1.StorageClass](t, m)
			_, _, err := resourceapply.ApplyStorageClass(t.Context(), kube.StorageV1(), recorder, &class)
			return err
		},
	}
}

func manifestOf(t *testing.T, kind, name, namespace string) drivers.Manifest {
	t.Helper()
	for _, m := range drivers.OfKind(manifests(t, efs.Driver, namespace), kind) {
		if m.Object.GetName() == name {
			return m
		}
	}
	t.Fatalf("no asset is %s %s", kind, name)
	return drivers.Manifest{}
}

// content returns an object without its server-generated metadata and its status.
func content(object *unstructured.Unstructured) map[string]any {
	c := object.DeepCopy().Object
	delete(c, "metadata")
	delete(c, "status")
	return c
}
