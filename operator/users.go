package operator

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// volumes are what tells whose a volume of a pod is.
type volumes struct {
	// claim returns a claim by its namespace and name, volume a persistent volume by its name; nil if there
	// is none.
	claim  func(namespace, name string) *corev1.PersistentVolumeClaim
	volume func(name string) *corev1.PersistentVolume
}

// usersSeen returns the pods that use a volume of the driver, sorted, as far as the informers know.
func (u *uninstaller) usersSeen() ([]string, error) {
	core := u.clients.clusterInformers.Core().V1()
	pods, err := core.Pods().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	known := volumes{
		claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			claim, _ := core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
			return claim
		},
		volume: func(name string) *corev1.PersistentVolume {
			volume, _ := core.PersistentVolumes().Lister().Get(name)
			return volume
		},
	}
	return u.usersAmong(pods, known), nil
}

// usersNow asks the API server for them. A watch may be behind, by as much as a broken connection takes to be
// found out, and of a driver that has gone nobody can unmount a volume.
func (u *uninstaller) usersNow(ctx context.Context) ([]string, error) {
	var pods []*corev1.Pod
	ours, claims := map[string]*corev1.PersistentVolume{}, map[string]*corev1.PersistentVolumeClaim{}
	core := u.clients.kube.CoreV1()
	// In the order in which one comes to refer to the other.
	for _, read := range []struct {
		what string
		page func(metav1.ListOptions) (runtime.Object, error)
		take func(object any)
	}{
		{"PersistentVolumes", func(o metav1.ListOptions) (runtime.Object, error) { return core.PersistentVolumes().List(ctx, o) }, func(object any) {
			if volume := object.(*corev1.PersistentVolume); u.provides(volume) {
				ours[volume.Name] = volume
			}
		}},
		{"PersistentVolumeClaims", func(o metav1.ListOptions) (runtime.Object, error) {
			return core.PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, o)
		}, func(object any) {
			if claim := object.(*corev1.PersistentVolumeClaim); ours[claim.Spec.VolumeName] != nil {
				claims[claim.Namespace+"/"+claim.Name] = claim
			}
		}},
		{"Pods", func(o metav1.ListOptions) (runtime.Object, error) { return core.Pods(metav1.NamespaceAll).List(ctx, o) }, func(object any) {
			if pod := object.(*corev1.Pod); len(pod.Spec.Volumes) > 0 {
				pods = append(pods, pod)
			}
		}},
	} {
		err := pager.New(pager.SimplePageFunc(read.page)).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			trimmed, err := trim(object)
			if err == nil {
				read.take(trimmed)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s, to see who uses volumes of the driver: %w", read.what, err)
		}
	}
	return u.usersAmong(pods, volumes{
		claim:  func(namespace, name string) *corev1.PersistentVolumeClaim { return claims[namespace+"/"+name] },
		volume: func(name string) *corev1.PersistentVolume { return ours[name] },
	}), nil
}

// usersAmong returns those of the pods that use a volume of the driver, sorted: through a claim, or inline.
func (u *uninstaller) usersAmong(pods []*corev1.Pod, known volumes) []string {
	var users []string
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return u.serves(pod, v, known) }) {
			users = append(users, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(users)
	return users
}

// serves tells whether a volume of a pod is one of the driver. A claim that is not bound yet is
// nobody's.
func (u *uninstaller) serves(pod *corev1.Pod, volume corev1.Volume, known volumes) bool {
	claimName := ""
	switch {
	case volume.CSI != nil:
		return volume.CSI.Driver == u.driver.CSIName
	case volume.PersistentVolumeClaim != nil:
		claimName = volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		claimName = pod.Name + "-" + volume.Name
	default:
		return false
	}
	claim := known.claim(pod.Namespace, claimName)
	if claim == nil || claim.Spec.VolumeName == "" {
		return false
	}
	persistent := known.volume(claim.Spec.VolumeName)
	return persistent != nil && u.provides(persistent)
}

// provides tells whether a persistent volume is one of the driver.
func (u *uninstaller) provides(volume *corev1.PersistentVolume) bool {
	return volume.Spec.CSI != nil && volume.Spec.CSI.Driver == u.driver.CSIName
}

// trim keeps of a pod, claim or volume what tells who uses what; of those a cluster has many.
func trim(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.Pod:
		object.ManagedFields, object.Annotations = nil, nil
		object.Spec = corev1.PodSpec{Volumes: object.Spec.Volumes}
		object.Status = corev1.PodStatus{Phase: object.Status.Phase}
	case *corev1.PersistentVolume:
		object.ManagedFields, object.Annotations = nil, nil
	case *corev1.PersistentVolumeClaim:
		object.ManagedFields, object.Annotations = nil, nil
	}
	return object, nil
}
