package community

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Kind is a kind of objects that must survive when another operator takes over.
type Kind struct {
	Name string
	// List is an empty list of the kind, and Options say where the objects are.
	List    client.ObjectList
	Options []client.ListOption
	// Good is the state of an object that works.
	Good  string
	State func(client.Object) string
}

// UserLabels are labels of the pods that use volumes.
var UserLabels = client.MatchingLabels{"role": "user"}

// Kinds returns all such kinds, for an operator in a namespace.
func Kinds(namespace string) []Kind {
	return []Kind{
		{Name: "DaemonSet", List: &appsv1.DaemonSetList{}, Options: []client.ListOption{client.InNamespace(namespace)}, Good: "Ready",
			State: func(o client.Object) string { return readiness(o.(*appsv1.DaemonSet).Status) }},
		{Name: "PersistentVolume", List: &corev1.PersistentVolumeList{}, Good: string(corev1.VolumeBound),
			State: func(o client.Object) string { return string(o.(*corev1.PersistentVolume).Status.Phase) }},
		{Name: "PersistentVolumeClaim", List: &corev1.PersistentVolumeClaimList{}, Good: string(corev1.ClaimBound),
			State: func(o client.Object) string { return string(o.(*corev1.PersistentVolumeClaim).Status.Phase) }},
		{Name: "SharedVolume", List: &sharedvolume.SharedVolumeList{}, Good: string(sharedvolume.Ready),
			State: func(o client.Object) string { return reason(o.(*sharedvolume.SharedVolume).Status) }},
		{Name: "Pod", List: &corev1.PodList{}, Options: []client.ListOption{UserLabels}, Good: string(corev1.PodRunning),
			State: func(o client.Object) string { return string(o.(*corev1.Pod).Status.Phase) }},
	}
}

func readiness(s appsv1.DaemonSetStatus) string {
	if s.NumberReady == 0 || s.NumberReady < s.DesiredNumberScheduled {
		return fmt.Sprintf("%d of %d pods ready", s.NumberReady, s.DesiredNumberScheduled)
	}
	return "Ready"
}

func reason(s sharedvolume.SharedVolumeStatus) string {
	if s.Phase == sharedvolume.Ready {
		return string(s.Phase)
	}
	return string(s.Phase) + ": " + s.Message
}

// Trouble returns an error with the state of an object that does not work, or nil if the object works.
func (k Kind) Trouble(object client.Object) error {
	if state := k.State(object); state != k.Good {
		return fmt.Errorf("%s %s is %q, want %s", k.Name, client.ObjectKeyFromObject(object), state, k.Good)
	}
	return nil
}

// Objects reads all objects of the kind.
func (k Kind) Objects(ctx context.Context, c client.Client) ([]client.Object, error) {
	if err := c.List(ctx, k.List, k.Options...); err != nil {
		return nil, err
	}
	var objects []client.Object
	err := meta.EachListItem(k.List, func(item runtime.Object) error {
		objects = append(objects, item.(client.Object))
		return nil
	})
	return objects, err
}
