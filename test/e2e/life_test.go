package e2e

import (
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/walk"
)

// The events in the life of any driver's operator.

// earlierOperator is one that was there first, in a namespace of its own.
type earlierOperator struct {
	namespace string
	pod       *corev1.Pod
}

// leaveEarlierOperator creates an earlier operator's objects, objects that cannot be changed to the desired state, and
// the earlier operator's lock, which a pod still holds.
func (w *environment) leaveEarlierOperator() earlierOperator {
	w.t.Helper()
	earlier := earlierOperator{namespace: w.driver.Namespace}
	if earlier.namespace == "" {
		earlier.namespace = w.Namespace(w.t)
	} else {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: earlier.namespace}})
	}
	owner := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKey{Name: "clustercsidrivers.operator.openshift.io"}, owner))
	for _, object := range w.driverObjectsIn(earlier.namespace) {
		unfit := walk.MakeUnfit(object)
		// If the earlier operators have left no mark, the earlier one is like ours.
		first := len(w.driver.History.Labels) == 0 && w.driver.Namespace == "" && object.GetKind() == "DaemonSet"
		if first {
			object.SetLabels(map[string]string{"app.kubernetes.io/managed-by": w.driver.Operator.Name})
		}
		if w.driver.History.Marks(object) {
			object.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition", Name: owner.Name, UID: owner.UID}})
		}
		if unfit || first || w.driver.History.Marks(object) {
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

// replaceEarlierOperator ends an earlier operator once ours has noticed it.
func (w *environment) replaceEarlierOperator(earlier earlierOperator) {
	w.t.Helper()
	w.account.AwaitRequest(w.t, "look for the holder of the earlier operator's lock", func(event cluster.AuditEvent) bool {
		return event.Verb == "list" && event.Resource == "pods" && event.Namespace == earlier.namespace
	})
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, earlier.pod); err != nil {
			return err
		}
		return journey.Gone(ctx, c, earlier.pod)
	})
}

// reconfigure changes a setting that the driver's pods need, and waits until they have it.
func (w *environment) reconfigure(in string) {
	w.t.Helper()
	walk.AwaitNewGenerations(w.t, w.Cluster, w.driverObjectsIn(in), func() {
		w.patch(&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}, `{"spec":{"logLevel":"Debug"}}`)
	})
}

// uninstallInUse removes the driver while a pod uses one of its volumes, and ends that pod once the operator reports
// that it waits.
func (w *environment) uninstallInUse() {
	w.t.Helper()
	user := w.usePersistentVolume()
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
	w.step(func(ctx context.Context, c client.Client) error { return c.Delete(ctx, custom) })
	w.Await(w.t, limit, "the operator to wait for the volume's user", custom, func() error {
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
	w.Await(w.t, limit, "a node for pod "+pod.Name, pod, func() error {
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
	w.Await(w.t, limit, "the claim to be bound", claim, func() error {
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("claim %s is %s", claim.Name, claim.Status.Phase)
		}
		return nil
	})
	return pod
}

func (w *environment) create(object client.Object) {
	w.t.Helper()
	require.NoErrorf(w.t, w.Client().Create(w.t.Context(), object), "create %T %s", object, object.GetName())
}

// patch changes an object by a JSON merge patch.
func (w *environment) patch(object client.Object, body string) {
	w.t.Helper()
	if err := w.Client().Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatalf("patch %T %s: %v", object, object.GetName(), err)
	}
}
