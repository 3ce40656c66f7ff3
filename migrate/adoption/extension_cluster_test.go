package adoption

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/migrate"
)

// boats is an API that a ClusterExtension has installed, and boatKind its kind.
const boats = "boats.example.com"

var boatKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}

// TestExtensionIsOrphaned: the garbage collector deletes neither the API of a ClusterExtension nor its objects, even if
// OLM owns the API again after it was orphaned. The objects that only the operator needed are deleted, but not other
// people's with the same labels.
func TestExtensionIsOrphaned(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	require.NoError(t, crds.OLMv1.Create(t.Context(), c.Client()))
	namespace, tenant := c.Namespace(t), c.Namespace(t)
	create := func(object client.Object) {
		t.Helper()
		cluster.Eventually(t, limit, "to create "+object.GetName(), func(ctx context.Context) error { return c.Client().Create(ctx, object) })
	}

	extension := boatExtension()
	extension.SetUID("")
	extension.Object["spec"] = map[string]any{"namespace": namespace, "source": map[string]any{"sourceType": "Catalog", "catalog": map[string]any{"packageName": "boat-operator"}}}
	create(extension.Unstructured)
	owner := metav1.OwnerReference{APIVersion: "olm.operatorframework.io/v1", Kind: predecessor.Extension, Name: extension.GetName(), UID: extension.GetUID()}
	installed := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: predecessor.LabelsOf("boat"), OwnerReferences: []metav1.OwnerReference{owner}}
	}
	api := newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", boats)
	api.SetLabels(predecessor.LabelsOf("boat"))
	api.SetOwnerReferences([]metav1.OwnerReference{owner})
	api.Object["spec"] = map[string]any{"group": boatKind.Group, "scope": "Cluster", "names": map[string]any{"kind": boatKind.Kind, "plural": "boats"}, "versions": []any{map[string]any{
		"name": boatKind.Version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}}
	create(api)
	boat := newObject("example.com/v1", boatKind.Kind, "cluster")
	create(boat)
	account := &corev1.ServiceAccount{ObjectMeta: installed(namespace, "boat-operator")}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: installed("", "boat-operator"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}}
	note := &corev1.ConfigMap{ObjectMeta: installed(namespace, "note")}
	ofTenant := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "mine", Labels: predecessor.LabelsOf("boat")}}
	for _, object := range []client.Object{account, binding, note, ofTenant} {
		create(object)
	}

	s := begunExtension()
	s.plan.Operator.Namespace, s.plan.Operator.Extension.UID, s.left = namespace, extension.GetUID(), ""
	var executed []migrate.StepName
	step := func() migrate.StepName {
		t.Helper()
		var done migrate.StepName
		cluster.Eventually(t, limit, "the next step", func(ctx context.Context) error {
			s.extension, s.objectSets, s.ownedAPIs, s.installed = nil, nil, nil, nil
			if err := s.readExtension(ctx, c.Client()); err != nil {
				return err
			}
			next, err := s.leaveExtension()
			if err == nil && next.Step == "" {
				next, err = s.endOperator()
			}
			switch {
			case err != nil:
				return err
			case next.Waits != "":
				return fmt.Errorf("it waits for %s", next.Waits)
			case next.Step == AwaitOLM:
				s.log(AwaitOLM, olmDelay)
			case next.Step != "":
				if err := s.Execute(ctx, c.Client(), next.Step); err != nil {
					return err
				}
				s.log(next.Step, 2*olmDelay)
			}
			done = next.Step
			return nil
		})
		executed = append(executed, done)
		return done
	}
	for step() != AwaitOLM {
	}

	// OLM had begun to apply the ClusterExtension before it was deleted, and ends now.
	for _, object := range []client.Object{api, note} {
		require.NoError(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object))
		assert.Emptyf(t, object.GetOwnerReferences(), "owners of %s, which has none any more", object.GetName())
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
		require.NoError(t, c.Client().Update(t.Context(), object))
	}
	for step() != "" {
	}
	want := fmt.Sprint([]migrate.StepName{AddHandOverFinalizer, DeleteExtension, AwaitOLM, KeepAPIs, RemoveHandOverFinalizer, DeleteInstalled, DeleteInstalled, ""})
	assert.Equal(t, want, fmt.Sprint(executed), "steps")
	for _, object := range []client.Object{extension.Unstructured, account, binding} {
		if err := c.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s: error %v, want it to be gone", object, object.GetName(), err)
		}
	}
	cluster.Eventually(t, limit, "the garbage collector to delete what the ClusterExtension owned in the end", c.Gone(note))
	for _, object := range []client.Object{api, boat, ofTenant} {
		uid := object.GetUID()
		if err := c.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() != nil || object.GetUID() != uid {
			t.Errorf("%T %s: error %v, deletion at %v; want it as before", object, object.GetName(), err, object.GetDeletionTimestamp())
		}
	}
}

func newObject(version, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetName(name)
	return object
}
