package clusterstorage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/release"
)

// defaultAnnotation makes a StorageClass the default.
const defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// TestDefaultClass: with all drivers of a platform, a cluster has the right default class, or its administrator's
// choice, and keeps it through restarts and an update.
func TestDefaultClass(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		platform configv1.PlatformType
		given    *storagev1.StorageClass
		want     []string
		// decide is the administrator's action then, and decided the default classes from then on.
		decide  func(*environment)
		decided []string
	}{
		{name: "a fresh cluster", platform: configv1.AWSPlatformType, want: []string{"gp3-csi"}, decide: func(w *environment) {
			w.reader().Follow(w.t, platformsPage, "## Check the storage")
			w.followAlerts("gp3-csi")
			w.mustHaveDefaults("after the runbooks", []string{"gp3-csi"})
			w.setDefault("gp3-csi", "false")
			w.recreate("gp3-csi")
		}},
		{name: "the default is an in-tree class, and moved", platform: configv1.AWSPlatformType, want: []string{"gp2"},
			given:   &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp2", Annotations: map[string]string{defaultAnnotation: "true"}}, Provisioner: "kubernetes.io/aws-ebs"},
			decide:  func(w *environment) { w.reader().Follow(w.t, platformsPage, "## The default StorageClass") },
			decided: []string{"gp3-csi"}},
		{name: "several drivers", platform: configv1.OpenStackPlatformType,
			decide:  func(w *environment) { w.reader().Follow(w.t, "operate/cinder.md", "## The default class") },
			decided: []string{"standard-csi"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, tc.platform, cluster.Options{Images: programs(t)})
			if tc.given != nil {
				w.create(tc.given)
			}
			w.install(release.Payload{Version: version})
			w.awaitSettled(version)
			w.mustHaveDefaults("after the installation", tc.want)
			if tc.decide != nil {
				tc.decide(w)
			}
			w.restartAll()
			w.awaitSettled(version)
			w.mustHaveDefaults("after a restart", tc.decided)
			w.install(release.Payload{Version: nextVersion})
			w.awaitSettled(nextVersion)
			w.awaitRest()
			w.mustHaveDefaults("after an update", tc.decided)
			w.checkForbidden()
		})
	}
}

// nextVersion is the version of an update.
const nextVersion = "4.23.0"

// mustHaveDefaults fails the test unless the default classes are these.
func (w *environment) mustHaveDefaults(when string, want []string) {
	w.t.Helper()
	list := &storagev1.StorageClassList{}
	require.NoError(w.t, w.Client().List(w.t.Context(), list))
	var got []string
	for _, class := range list.Items {
		if class.Annotations[defaultAnnotation] == "true" {
			got = append(got, class.Name)
		}
	}
	assert.Emptyf(w.t, cmp.Diff(want, got), "%s, of %d classes these are the default ones (-want +got)", when, len(list.Items))
}

// setDefault annotates a class as an administrator does.
func (w *environment) setDefault(name, value string) {
	w.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, defaultAnnotation, value)
	require.NoError(w.t, w.Client().Patch(w.t.Context(), class, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// recreate deletes a class, and waits until its operator has created it again.
func (w *environment) recreate(name string) {
	w.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.get(class)
	before := class.UID
	require.NoError(w.t, w.Client().Delete(w.t.Context(), class))
	w.Await(w.t, limit, "StorageClass "+name+" to come back", class, func() error {
		if class.UID == before {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
}

// followAlerts follows the runbooks of the platform's alerts, on a cluster with a second default class, a claim that is
// full and its volume.
func (w *environment) followAlerts(class string) {
	w.t.Helper()
	const second, volume, claim, namespace = "second-default", "full-volume", "full", "default"
	w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: second, Annotations: map[string]string{defaultAnnotation: "true"}}, Provisioner: w.drivers[0].CSIName})
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	w.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, StorageClassName: class, ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: w.drivers[0].CSIName, VolumeHandle: "vol-0123456789abcdef0"}}}})
	w.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: modes, StorageClassName: &class, VolumeName: volume, Resources: corev1.VolumeResourceRequirements{Requests: size}}})
	cluster.Eventually(w.t, limit, "the claim to be bound", func(ctx context.Context) error {
		bound := &corev1.PersistentVolumeClaim{}
		if err := w.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: claim}, bound); err != nil {
			return err
		}
		if bound.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", bound.Status.Phase)
		}
		return nil
	})
	for heading, name := range map[string]string{
		"## ClusterStorageOperatorAbsent": "", "## MultipleDefaultStorageClasses": second, "## PodStartupStorageOperationsFailing": "",
		"## KubePersistentVolumeFillingUp": "", "## KubePersistentVolumeErrors": volume,
	} {
		reader := w.reader()
		reader.Names = strings.NewReplacer("<name>", name, "<namespace>", namespace, "<claim>", claim, "<size>", "2Gi")
		reader.Follow(w.t, "operate/storage-alerts.md", heading)
	}
}
