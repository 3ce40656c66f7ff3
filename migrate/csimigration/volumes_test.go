package csimigration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/restarts"
)

// TestStatefulSet: a StatefulSet with a volume of the in-tree EBS plugin survives on, off and on, on a simulated cloud that
// attaches a volume to one node at a time, and lets only that detach it which has attached it. The Attach/Detach controller,
// the scheduler, the StatefulSet controller and the translation are real; kubelets, in-tree plugin and the driver's attacher
// are played.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "4.10.0", true)
	volumes, stop, err := restarts.AddNodes(t.Context(), s.Cluster, ebs.Driver, "played-0", "played-1")
	s.must(err)
	t.Cleanup(func() {
		if err := stop(); err != nil && t.Failed() {
			t.Logf("the last error of the played kubelets: %v", err)
		}
		if t.Failed() {
			t.Log(strings.Join(volumes.History(), "\n"))
		}
	})
	namespace := s.Namespace(t)
	class := ""
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "in-tree",
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	labels := map[string]string{"app": "db"}
	s.create(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"played": ""},
			Containers:   []corev1.Container{{Name: "db", Image: "db", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		}},
	}})
	s.mustUse(volumes, namespace, restarts.InTree)
	for _, by := range []string{restarts.CSI, restarts.InTree, restarts.CSI} {
		if by == restarts.CSI {
			s.mustSwitch(enable)
		} else {
			s.mustSwitch(disable)
		}
		s.mustUse(volumes, namespace, by)
	}
}

// mustUse waits until the pod runs, and its volume is attached to its node in one way, and in no other.
func (s *scene) mustUse(volumes *restarts.Volumes, namespace, by string) {
	s.t.Helper()
	cluster.Eventually(s.t, limit, "the pod to use its volume by "+by, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := s.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "db-0"}, pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			return errors.New("the pod does not run")
		}
		if got, want := fmt.Sprint(volumes.Attached()), fmt.Sprintf("map[vol-1:%s %s]", pod.Spec.NodeName, by); got != want {
			return fmt.Errorf("attached are %s, want %s", got, want)
		}
		return nil
	})
}
