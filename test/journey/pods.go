package journey

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/lock"
	"github.com/berth-csi/berth/lab/cluster"
)

// OperatorPod returns the only pod of an operator that OLM runs. Its label is the operator's name.
func OperatorPod(ctx context.Context, c client.Client, namespace, operator string) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"name": operator}); err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("operator %s has %d pods, want 1", operator, len(pods.Items))
	}
	return &pods.Items[0], nil
}

// LockHolder returns the pod that holds the lock of a driver's operators. It fails if none does.
func LockHolder(ctx context.Context, c client.Client, namespace, name string) (*corev1.Pod, error) {
	pod, err := lock.Holder(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
	if err == nil && pod == nil {
		err = fmt.Errorf("no pod holds the lock %s in namespace %s", name, namespace)
	}
	return pod, err
}

// PodReference returns an owner reference to a pod.
func PodReference(pod *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
}

// DataFolder is where a pod mounts its claim.
const DataFolder = "/data"

// UserImage is the repository of the image of pods that use volumes. On real nodes, it has the program of lab/user.
const UserImage = "registry.example/user"

// PodWithClaim returns a pod that mounts a claim.
func PodWithClaim(namespace, name, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: UserImage, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: DataFolder}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
}

// AwaitPod waits until a pod is ready.
func AwaitPod(ctx context.Context, c client.Client, key client.ObjectKey) error {
	return cluster.Until(ctx, fmt.Sprintf("pod %s to be ready", key), func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, key, pod); err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.ContainerStatuses)
	})
}
