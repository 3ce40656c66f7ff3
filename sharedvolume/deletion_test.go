package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestNamespaceDeletion(t *testing.T) {
	env := served(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "deleted-"}}
	env.do("create", env.client.Create(t.Context(), namespace))
	var volumes []*corev1.PersistentVolume
	for i := range 5 {
		volumes = append(volumes, env.ready(env.create(namespace.Name, fmt.Sprintf("logs-%d", i))).volume)
	}
	env.create(namespace.Name, "just-now")
	env.do("delete", env.client.Delete(t.Context(), namespace))
	env.gone(namespace)
	for _, volume := range volumes {
		env.gone(volume)
	}
	env.noVolumes(namespace.Name)
}

func TestDeletionWaitsForPods(t *testing.T) {
	env := served(t)
	sv := env.create(env.Namespace(t), "logs")
	p := env.ready(sv)
	pod := env.pod(sv.Namespace, "web-0", p.claim.Name)

	env.do("delete", env.client.Delete(t.Context(), sv))
	env.until(sv, "ClaimInUse")
	if want := "PersistentVolumeClaim pvc-logs is being deleted; pod web-0 still uses it"; sv.Status.Phase != v1alpha1.Deleting || sv.Status.Message != want {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	env.get(p.volume, "", p.volume.Name)
	assert.Nil(t, p.volume.DeletionTimestamp, "the volume is being deleted before the claim is gone")
	env.do("delete", env.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.gone(sv)
	env.gone(p.volume)
	env.events(sv, "Warning ClaimInUse 1")
}

func TestRecreatedWithOtherIDs(t *testing.T) {
	env := served(t)
	sv := env.create(env.Namespace(t), "logs")
	before := env.ready(sv)
	env.do("delete", env.client.Delete(t.Context(), sv))
	env.gone(sv)
	again := newVolume(sv.Namespace, "logs")
	again.Spec.AccessPointID = "fsap-77"
	env.do("create", env.client.Create(t.Context(), again))
	after := env.ready(again)
	if got, want := after.volume.Spec.CSI.VolumeHandle, "fs-0123456789abcdef0::fsap-77"; got != want || after.volume.UID == before.volume.UID {
		t.Errorf("the new SharedVolume has %s, want %s", got, want)
	}
}

// noVolumes checks that no volume of a namespace exists.
func (env testEnv) noVolumes(namespace string) {
	env.t.Helper()
	var volumes corev1.PersistentVolumeList
	env.do("list", env.client.List(env.t.Context(), &volumes, client.MatchingLabels{sharedvolume.OwnerNamespaceLabel: namespace}))
	for _, volume := range volumes.Items {
		env.t.Errorf("volume %s still exists", volume.Name)
	}
}

// pod creates a pod that mounts a claim, on a node that does not exist.
func (env testEnv) pod(namespace, name, claim string) *corev1.Pod {
	env.t.Helper()
	const unattended = "unattended"
	// Without its Node, the pod would be garbage-collected; without the toleration, it would be evicted.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unattended}, Spec: corev1.NodeSpec{Unschedulable: true}}
	env.do("create a node", client.IgnoreAlreadyExists(env.client.Create(env.t.Context(), node)))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName:    unattended,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "main", Image: "example.com/web"}},
			Volumes: []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
	// A namespace's default service account takes a moment. Its controller gives up if the API server still takes the namespace for an earlier one
	// of the same name, which is being deleted.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	cluster.Eventually(env.t, waitLimit, "a pod", func(ctx context.Context) error {
		err := env.client.Create(ctx, pod)
		if apierrors.IsForbidden(err) {
			return errors.Join(err, client.IgnoreAlreadyExists(env.client.Create(ctx, account.DeepCopy())))
		}
		return err
	})
	return pod
}
