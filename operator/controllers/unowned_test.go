package controllers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/lab/cluster"
)

// unownedLimit is for what usually takes seconds.
const unownedLimit = 2 * time.Minute

// TestObjectsGoWithTheOperator: with the permissions of a bundle, an operator gives its ClusterServiceVersion as an owner to
// what OLM has created without one, also when OLM does that again. An owner that an object has already remains.
func TestObjectsGoWithTheOperator(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	earlier := f.createVersion("earlier")
	current := f.createVersion("current")
	objects := f.createUnowned(ownerReference(earlier))

	f.start()
	f.awaitOwners(objects, ownerReference(current), ownerReference(earlier))

	// OLM applies the bundle once more.
	for _, object := range objects {
		object.SetOwnerReferences(nil)
		f.do(f.Client().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))))
	}
	f.awaitOwners(objects, ownerReference(current))

	f.do(f.Client().Delete(t.Context(), current))
	for _, object := range objects {
		cluster.Eventually(t, unownedLimit, object.GetKind()+" to be gone", f.Gone(object))
	}
}

// TestEndingVersion: a ClusterServiceVersion that berth move deletes without its objects becomes the owner of nothing.
func TestEndingVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	current := f.createVersion("current")
	objects := f.createUnowned()
	unowned, err := NewUnowned(f.Config(), efs.Driver, f.namespace, "current")
	f.do(err)
	end := func(version types.UID) {
		condition := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "current"}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, predecessor.EndingAnnotation, version)
		cluster.Eventually(t, unownedLimit, "OLM's OperatorCondition", func(ctx context.Context) error {
			if err := f.Client().Patch(ctx, condition, client.RawPatch(types.MergePatchType, patch)); err != nil {
				return err
			}
			return unowned.ownAll(ctx, f.Client())
		})
	}

	end(current.UID)
	f.awaitOwners(objects)
	end("of an earlier one")
	f.awaitOwners(objects, ownerReference(current))
}

// TestWaitsForOLM: OLM creates the objects, and what names their owner, after it has started the operator.
func TestWaitsForOLM(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start()
	current := f.createVersion("current")
	objects := f.createUnowned()
	f.awaitOwners(objects, ownerReference(current))
}

// TestNothingToOwn: OLM v1 and the cluster storage operator make no OperatorCondition.
func TestNothingToOwn(t *testing.T) {
	unowned, err := NewUnowned(nil, efs.Driver, "any", "")
	require.NoError(t, err)
	assert.NoError(t, unowned.Own(t.Context()))
}

type fixture struct {
	*cluster.Cluster
	t         *testing.T
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, Cluster: cluster.Shared(t, cluster.Options{OLM: true})}
	f.namespace = f.Namespace(t)
	return f
}

func (f *fixture) do(err error) {
	f.t.Helper()
	require.NoError(f.t, err)
}

// start starts to own objects, with the permissions that the bundle has in the operator's namespace.
func (f *fixture) start() {
	f.t.Helper()
	rules, err := efs.Driver.OperatorPolicyRules(permissions.Removable)
	f.do(err)
	name := efs.Driver.Operator.Name
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Rules: append(rules.Permissions,
		rbacv1.PolicyRule{APIGroups: []string{operatorsv2.GroupVersion.Group}, Resources: []string{"operatorconditions"}, Verbs: []string{"get"}})} // OLM's
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: name}}}
	f.do(f.Client().Create(f.t.Context(), role))
	f.do(f.Client().Create(f.t.Context(), binding))
	unowned, err := NewUnowned(f.ServiceAccountConfig(f.t, f.namespace, name), efs.Driver, f.namespace, "current")
	f.do(err)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(f.t.Context())
	go func() { ended <- unowned.Own(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		assert.NoError(f.t, <-ended)
	})
}

// createVersion creates a ClusterServiceVersion. OLM creates an OperatorCondition for it.
func (f *fixture) createVersion(name string) *v1alpha1.ClusterServiceVersion {
	f.t.Helper()
	version := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Spec: v1alpha1.ClusterServiceVersionSpec{
		DisplayName:     name,
		InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{}}},
	}}
	f.do(f.Client().Create(f.t.Context(), version))
	return version
}

// createUnowned creates a bundle's objects to which OLM gives no owner.
func (f *fixture) createUnowned(owners ...metav1.OwnerReference) []*unstructured.Unstructured {
	f.t.Helper()
	unowned, err := efs.Driver.UnownedInBundle()
	f.do(err)
	var objects []*unstructured.Unstructured
	for _, m := range unowned {
		object := m.Object.DeepCopy()
		object.SetNamespace(f.namespace)
		object.SetOwnerReferences(owners)
		f.do(f.Client().Create(f.t.Context(), object))
		objects = append(objects, object)
	}
	require.Lenf(f.t, objects, 2, "found %d objects that OLM gives no owner, want a Role and a RoleBinding", len(objects))
	return objects
}

// awaitOwners waits until objects have these owners. The API server puts a patch's owners first.
func (f *fixture) awaitOwners(objects []*unstructured.Unstructured, want ...metav1.OwnerReference) {
	f.t.Helper()
	for _, object := range objects {
		cluster.Eventually(f.t, unownedLimit, object.GetKind()+" to have its owners", func(ctx context.Context) error {
			if err := f.Client().Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if found := object.GetOwnerReferences(); !slices.EqualFunc(found, want, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
				return fmt.Errorf("found %v, want %v", found, want)
			}
			return nil
		})
	}
}

func ownerReference(version *v1alpha1.ClusterServiceVersion) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind, Name: version.Name, UID: version.UID}
}
