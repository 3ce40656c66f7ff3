package e2e

import (
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/journey"
)

// What happens in the life of an operator, whichever its driver is.

// earlierOperator is one that was there first, in a namespace of its own.
type earlierOperator struct {
	namespace string
	pod       *corev1.Pod
}

// leaveEarlierOperator makes what an earlier operator of the driver has made, objects that cannot be changed
// to what the driver needs, and the earlier operator's lock, which a pod still holds.
func (w *environment) leaveEarlierOperator() earlierOperator {
	w.t.Helper()
	earlier := earlierOperator{namespace: w.driver.Namespace}
	if earlier.namespace == "" {
		earlier.namespace = w.Namespace(w.t)
	} else {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: earlier.namespace}})
	}
	owner := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.Client().Get(w.t.Context(), client.ObjectKey{Name: "clustercsidrivers.operator.openshift.io"}, owner); err != nil {
		w.t.Fatal(err)
	}
	for _, object := range w.driverObjectsIn(earlier.namespace) {
		change := unfit[object.GetKind()]
		if change != nil {
			change(object.Object)
		}
		// Of a driver whose earlier operators have left no mark, it is an operator like ours.
		first := len(w.driver.History.Labels) == 0 && w.driver.Namespace == "" && object.GetKind() == "DaemonSet"
		if first {
			object.SetLabels(map[string]string{"app.kubernetes.io/managed-by": w.driver.Operator.Name})
		}
		if w.driver.History.Marks(object) {
			object.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition", Name: owner.Name, UID: owner.UID}})
		}
		if change != nil || first || w.driver.History.Marks(object) {
			w.create(object)
		}
	}
	earlier.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: earlier.namespace, Name: "earlier-operator"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.example/earlier-operator"}}},
	}
	w.create(earlier.pod)
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: earlier.namespace, Name: w.driver.Operator.Lock,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: earlier.pod.Name, UID: earlier.pod.UID}},
	}})
	return earlier
}

// unfit changes objects, by their kind, in fields that can never be changed back.
var unfit = map[string]func(object map[string]any){
	"CSIDriver": func(object map[string]any) {
		spec := object["spec"].(map[string]any)
		spec["attachRequired"] = spec["attachRequired"] != true
	},
	"RoleBinding":        bindAnotherRole,
	"ClusterRoleBinding": bindAnotherRole,
}

func bindAnotherRole(object map[string]any) {
	object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
}

// replaceEarlierOperator ends an earlier operator when ours has taken notice of it.
func (w *environment) replaceEarlierOperator(earlier earlierOperator) {
	w.t.Helper()
	w.awaitRequest("look for the holder of the earlier operator's lock", func(event cluster.AuditEvent) bool {
		return event.Verb == "list" && event.Resource == "pods" && event.Namespace == earlier.namespace
	})
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, earlier.pod); err != nil {
			return err
		}
		return journey.Gone(ctx, c, earlier.pod)
	})
}

// loseObjects deletes objects of the driver, and waits until all exist again.
func (w *environment) loseObjects(objects ...*unstructured.Unstructured) {
	w.t.Helper()
	before := w.uids(objects...)
	for _, object := range objects {
		if (drivers.Manifest{Object: object}).Kept() {
			delete(before, object.GetKind()+" "+object.GetName())
			continue // nobody takes that away
		}
		if err := w.Client().Delete(w.t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			w.t.Fatal(err)
		}
	}
	cluster.Eventually(w.t, limit, "the objects to be recreated", func(context.Context) error {
		now := w.uids(objects...)
		for name, uid := range before {
			if now[name] == "" || now[name] == uid {
				return fmt.Errorf("%s has UID %q, as before or none", name, now[name])
			}
		}
		return nil
	})
}

// reconfigure changes a setting that the driver's pods need, and waits until they have it.
func (w *environment) reconfigure(in string) {
	w.t.Helper()
	var workloads []*unstructured.Unstructured
	for _, object := range w.driverObjectsIn(in) {
		if kind := object.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
			workloads = append(workloads, object)
		}
	}
	generations := func() map[string]int64 {
		found := map[string]int64{}
		for _, object := range workloads {
			if err := w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				w.t.Fatal(err)
			}
			found[object.GetKind()+" "+object.GetName()] = object.GetGeneration()
		}
		return found
	}
	before := generations()
	w.patch(&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}, `{"spec":{"logLevel":"Debug"}}`)
	cluster.Eventually(w.t, limit, "the driver's pods to have the log level", func(context.Context) error {
		for name, generation := range generations() {
			if generation == before[name] {
				return fmt.Errorf("%s still has generation %d", name, generation)
			}
		}
		return nil
	})
}

// uninstallInUse removes the driver while a pod uses a volume of it, and ends that pod when the operator has
// said that it waits.
func (w *environment) uninstallInUse() {
	w.t.Helper()
	user := w.usePersistentVolume()
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
	w.step(func(ctx context.Context, c client.Client) error { return c.Delete(ctx, custom) })
	cluster.Eventually(w.t, limit, "the operator to wait for the volume's user", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		for _, condition := range custom.Status.Conditions {
			if condition.Reason == "VolumesInUse" && strings.Contains(condition.Message, user.Namespace+"/"+user.Name) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", custom.Status.Conditions)
	})
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, user); err != nil {
			return err
		}
		return journey.Gone(ctx, c, custom)
	})
}

// createScheduled creates a pod, and returns when it has a node. A pod without one uses no volume.
func (w *environment) createScheduled(pod *corev1.Pod) {
	w.t.Helper()
	w.create(pod)
	cluster.Eventually(w.t, limit, "a node for pod "+pod.Name, func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("it has none: %+v", pod.Status.Conditions)
		}
		return nil
	})
}

// usePersistentVolume runs a pod that uses a volume of the driver.
func (w *environment) usePersistentVolume() *corev1.Pod {
	w.t.Helper()
	in, name, class := w.Namespace(w.t), "user", ""
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: in},
		Spec: corev1.PersistentVolumeSpec{AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: w.driver.CSIName, VolumeHandle: "volume"}}},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &class, VolumeName: volume.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}
	pod := journey.PodWithClaim(in, name, claim.Name)
	w.create(volume)
	w.create(claim)
	w.createScheduled(pod)
	cluster.Eventually(w.t, limit, "the claim to be bound", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("claim %s is %s", claim.Name, claim.Status.Phase)
		}
		return nil
	})
	return pod
}

// replaceLeader runs a second pod of the operator, which has to wait for the first one's lock, and ends the first as
// a node does that shuts down: the pod stays.
func (w *environment) replaceLeader() {
	w.t.Helper()
	leader := w.leader()
	second := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: leader.Namespace, Name: "second-operator"},
		Spec:       leader.Spec,
	}
	second.Spec.NodeName = ""
	w.create(second)
	w.awaitRequest("ask whether the leader's node is lost", func(event cluster.AuditEvent) bool {
		return event.Verb == "get" && event.Resource == "nodes" && event.Name == leader.Spec.NodeName
	})
	leader.Status.Phase, leader.Status.Reason = corev1.PodFailed, "Terminated"
	if err := w.Client().Status().Update(w.t.Context(), leader); err != nil {
		w.t.Fatal(err)
	}
	w.awaitRequest("delete the lock of the pod that has ended", func(event cluster.AuditEvent) bool {
		return event.Verb == "delete" && event.Resource == "configmaps" && event.Name == w.driver.Operator.Lock
	})
	cluster.Eventually(w.t, limit, "another pod to hold the lock", func(ctx context.Context) error {
		holder, err := journey.LockHolder(ctx, w.Client(), namespace, w.driver.Operator.Lock)
		if err == nil && holder.UID == leader.UID {
			err = fmt.Errorf("pod %s, which has ended, holds it", holder.Name)
		}
		return err
	})
}

func (w *environment) create(object client.Object) {
	w.t.Helper()
	if err := w.Client().Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// patch changes an object by a JSON merge patch.
func (w *environment) patch(object client.Object, body string) {
	w.t.Helper()
	if err := w.Client().Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatalf("patch %T %s: %v", object, object.GetName(), err)
	}
}
