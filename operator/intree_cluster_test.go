package operator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
)

// TestUninstallWaitsForInTreeVolumes: Kubernetes hands volumes of its own API to the driver, through claims and inline.
func TestUninstallWaitsForInTreeVolumes(t *testing.T) {
	t.Parallel()
	env := newTestEnvWith(t, ebsDriver(t))
	env.installDriver()
	disk := corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-0123456789abcdef0"}
	env.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "data"},
		Spec:       env.createVolumeOf(corev1.PersistentVolumeSource{AWSElasticBlockStore: &disk}, env.namespace, env.namespace, "data"),
	})
	users := []*corev1.Pod{
		env.createUser("claimed", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}),
		env.createUser("inline", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{AWSElasticBlockStore: &disk}}),
	}
	bystander := env.createUser("bystander", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "disk"}}})
	for _, pod := range append(users, bystander) {
		env.waitUntilRunning(pod)
	}

	env.deleteCustomResource()
	for i, user := range users {
		got := env.waitForUninstallMessage(fmt.Sprintf("in use by %d pod", len(users)-i))
		if got.Reason != "VolumesInUse" || !strings.Contains(got.Message, env.namespace+"/"+user.Name) || strings.Contains(got.Message, bystander.Name) {
			t.Errorf("%s: %s; want VolumesInUse, and just the pods with volumes of the driver", got.Reason, got.Message)
		}
		require.NoError(t, env.Client().Delete(t.Context(), user))
	}
	env.waitUntilRemoved()
}

func ebsDriver(t *testing.T) drivers.Driver {
	t.Helper()
	driver, err := registry.Get("ebs")
	require.NoError(t, err)
	return driver
}
