package journey

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OperatorPod returns the one pod of an operator that OLM runs. It is labelled with the operator's name.
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

// LockHolder returns the pod that holds the lock by which only one operator is active.
func LockHolder(ctx context.Context, c client.Client, namespace, name string) (*corev1.Pod, error) {
	lock, pod := &corev1.ConfigMap{}, &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lock); err != nil {
		return nil, err
	}
	if len(lock.OwnerReferences) != 1 {
		return nil, fmt.Errorf("lock %s has %d owners, want the pod that holds it", name, len(lock.OwnerReferences))
	}
	holder := lock.OwnerReferences[0]
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: holder.Name}, pod); err != nil {
		return nil, err
	}
	if pod.UID != holder.UID {
		return nil, fmt.Errorf("lock %s is that of a pod %s that is gone", name, pod.Name)
	}
	return pod, nil
}

// PodReference makes a pod the owner of something.
func PodReference(pod *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
}

// PodWithClaim returns a pod that mounts a claim.
func PodWithClaim(namespace, name, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/main", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
}
