package continuity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/olmv1"
	"github.com/berth-csi/berth/test/openshift45"
)

// TestAdoptEBSOfOLMv1 and the other test here: OLM v1 has installed the operator, for a ClusterExtension. The cluster
// storage operator waits until an administrator hands the driver over. The tool is killed after each of its writes, and
// the API of the operator's configuration stays, though OLM v1 deletes the APIs of a ClusterExtension with it.
func TestAdoptEBSOfOLMv1(t *testing.T) { ebsToAdopt(t, origin{extension: true}).play(t) }

func TestAdoptEBSOfOLMv1WithObjectSets(t *testing.T) {
	ebsToAdopt(t, origin{extension: true, features: []string{"BoxcutterRuntime"}}).play(t)
}

// extend makes OLM v1 install the operator of OpenShift 4.5.
func (a *adopted) extend(t testing.TB, bed *testbed.Testbed, catalog string) {
	t.Helper()
	pkg := bed.Driver.Package.Name
	olm := olmv1.Start(t, bed.Cluster, olmv1.Options{Features: a.from.features})
	olm.AddCatalog("operators", catalog, pkg, map[string]string{openshift45.Version(bed.Driver): openshift45.BundleForControlPlane(t, bed.Driver)})
	olm.Install(pkg, a.former.Namespace, pkg)
}

// handOverExtension hands the driver over as an administrator does who changes their mind once.
func (a *adopted) handOverExtension(t *testing.T) {
	cluster.Eventually(t, testbed.Limit, "the cluster storage operator to wait for an administrator", func(ctx context.Context) error {
		storage := &operatorv1.Storage{}
		if err := a.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		for _, c := range storage.Status.Conditions {
			if c.Type == predecessor.Condition(a.Driver) && c.Status == operatorv1.ConditionTrue && c.Reason == predecessor.Reason && strings.Contains(c.Message, "only an administrator can hand over") {
				return nil
			}
		}
		return fmt.Errorf("the conditions of Storage are %+v", storage.Status.Conditions)
	})
	before := a.extension(t)
	p := a.runUntil(t, func(e migrate.Event) bool { return e.Step == adoption.DeleteExtension })
	if held := a.extension(t); p == nil || len(held.GetFinalizers()) != len(before.GetFinalizers())+1 || held.GetDeletionTimestamp() != nil {
		t.Fatalf("finalizers %q, deletion at %v; want only one more than %q", held.GetFinalizers(), held.GetDeletionTimestamp(), before.GetFinalizers())
	}
	require.NoError(t, adoption.Adopt.Rollback(t.Context(), a.to(), p, migrate.Options{Report: func(migrate.Event) {}}))
	if after := a.extension(t); !slices.Equal(after.GetFinalizers(), before.GetFinalizers()) || after.GetUID() != before.GetUID() {
		t.Errorf("finalizers %q, UID %s; want %q and %s as before", after.GetFinalizers(), after.GetUID(), before.GetFinalizers(), before.GetUID())
	}

	runs := 1
	for ; ; runs++ {
		executed := 0
		if killed := a.runUntil(t, func(e migrate.Event) bool {
			if e.Waits == "" {
				executed++
			}
			return executed == 2
		}); killed == nil {
			break
		}
	}
	a.journal.note("the tool was killed %d times", runs-1)
	a.mustHaveInstalled(t, a.Driver.Package.Name, 1)
}

// to is the cluster, for the tool.
func (a *adopted) to() migrate.Cluster {
	return migrate.Cluster{Config: a.Config(), Client: a.Client()}
}

// runUntil runs the tool until it is killed before a step, and returns its plan then, or nil if it has completed the hand-over.
func (a *adopted) runUntil(t *testing.T, kill func(migrate.Event) bool) *adoption.Plan {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testbed.Limit)
	defer cancel()
	p, _, err := adoption.Adopt.Ensure(ctx, a.to(), adoption.Request{Driver: a.Driver})
	require.NoError(t, err)
	require.Truef(t, p.Safe, "the plan is not safe:\n%s", p.Text(findings.Plain))
	killed := false
	err = adoption.Adopt.Apply(ctx, a.to(), p, migrate.Options{Report: func(e migrate.Event) {
		t.Logf("%s: %s %s", e.Step, e.Does, e.Waits)
		if killed = killed || kill(e); killed {
			cancel()
		}
	}})
	switch {
	case killed:
		return p
	case err != nil:
		t.Fatal(err)
	}
	return nil
}

var extensionKind = schema.GroupVersionKind{Group: "olm.operatorframework.io", Version: "v1", Kind: predecessor.Extension}

// extension returns the ClusterExtension.
func (a *adopted) extension(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(extensionKind)
	require.NoError(t, a.Client().Get(t.Context(), client.ObjectKey{Name: a.Driver.Package.Name}, object))
	return object
}

// mustHaveInstalled fails the test if any object that OLM v1 had installed for a ClusterExtension is left, except some
// APIs.
func (w *watch) mustHaveInstalled(t *testing.T, extension string, apis int) {
	t.Helper()
	const rbac = "rbac.authorization.k8s.io/v1"
	for kind, version := range map[string]string{
		"Deployment": "apps/v1", "ServiceAccount": "v1", "ClusterRole": rbac, "ClusterRoleBinding": rbac, "Role": rbac, "RoleBinding": rbac,
		predecessor.Extension: extensionKind.GroupVersion().String(), "ClusterObjectSet": extensionKind.GroupVersion().String(),
		"CustomResourceDefinition": "apiextensions.k8s.io/v1",
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(kind + "List")
		require.NoError(t, w.Client().List(t.Context(), list, client.MatchingLabels(predecessor.LabelsOf(extension))))
		want := 0
		if kind == "CustomResourceDefinition" {
			want = apis
		}
		assert.Lenf(t, list.Items, want, "there are %d of %s with the labels of the ClusterExtension, want %d", len(list.Items), kind, want)
	}
}
