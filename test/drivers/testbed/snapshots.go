package testbed

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	snapshotControllerImage = "quay.io/openshift/origin-csi-snapshot-controller:4.21"
	snapshotNamespace       = "openshift-cluster-storage-operator"
	snapshotAPI             = "snapshot.storage.k8s.io/v1"
)

// installSnapshots runs the controller of snapshots, which OpenShift's storage operator runs. Its API is on all clusters.
func (b *Testbed) installSnapshots(t testing.TB) {
	t.Helper()
	const name = "csi-snapshot-controller"
	b.step(t, func(ctx context.Context, c client.Client) error { return b.EnsureNamespace(ctx, snapshotNamespace) })
	meta := metav1.ObjectMeta{Namespace: snapshotNamespace, Name: name}
	labels := map[string]string{"app": name}
	for _, object := range []client.Object{
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: snapshotNamespace, Name: "default"}},
		},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: map[string]string{workerLabel: ""},
				Containers:   []corev1.Container{{Name: "snapshot-controller", Image: snapshotControllerImage, Args: []string{"--v=2"}}},
			}},
		}},
	} {
		require.NoError(t, b.Client().Create(t.Context(), object))
	}
}

// Snapshot takes a snapshot of a claim, and waits until it is ready to use. class is the VolumeSnapshotClass; "" is the
// default one.
func (b *Testbed) Snapshot(t testing.TB, claim *corev1.PersistentVolumeClaim, name, class string) *unstructured.Unstructured {
	t.Helper()
	spec := map[string]any{"source": map[string]any{"persistentVolumeClaimName": claim.Name}}
	if class != "" {
		spec["volumeSnapshotClassName"] = class
	}
	snapshot := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": snapshotAPI, "kind": "VolumeSnapshot",
		"metadata": map[string]any{"namespace": claim.Namespace, "name": name}, "spec": spec,
	}}
	require.NoError(t, b.Client().Create(t.Context(), snapshot))
	b.Await(t, Limit, "snapshot "+name+" to be ready", snapshot, func() error {
		if ready, _, _ := unstructured.NestedBool(snapshot.Object, "status", "readyToUse"); !ready {
			return fmt.Errorf("its status is %v", snapshot.Object["status"])
		}
		return nil
	})
	return snapshot
}
