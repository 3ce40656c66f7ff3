package clusterstorage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/catalogs/serving"
)

// TestAdoptionByOLM: without a cluster storage operator, OLM updates OpenShift 4.5's operator to ours, which takes the
// driver over in place. Then an administrator deletes the old operator's custom resource, as the page says, and the
// driver stays.
func TestAdoptionByOLM(t *testing.T) {
	t.Parallel()
	if !*allAdoptions {
		t.Skip("it takes minutes; run it with -all-adoptions, or make prove SUITE=adopt")
	}
	f := newFormer(t, succeedable()[0], programs(t))
	f.useVolumes()
	before := f.nodePods()
	f.create(&v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "certified"},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: serving.Start(t, certifiedCatalog)}})
	f.patch(f.subscription, `{"spec":{"source":"certified","channel":"`+f.driver.Package.Channel+`"}}`)
	f.version = f.driver.Package.Name + ".v5.0.0"
	f.awaitInstalled()
	f.installOwn()

	f.reader().Follow(t, adoptPage, "## Without a cluster storage operator")
	old := f.old()
	err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(old), old)
	assert.Truef(t, apierrors.IsNotFound(err), "%s %s is still there: %v", old.GetKind(), old.GetName(), err)
	if diff := cmp.Diff(before, f.nodePods()); diff != "" || len(before) == 0 {
		t.Errorf("the driver's DaemonSets (-before +after):\n%s", diff)
	}
}

// nodePods returns the UIDs of the driver's DaemonSets that are not being deleted, by name.
func (f *former) nodePods() map[string]types.UID {
	f.t.Helper()
	sets := &appsv1.DaemonSetList{}
	require.NoError(f.t, f.Client().List(f.t.Context(), sets, client.InNamespace(f.driver.Namespace)))
	found := map[string]types.UID{}
	for _, set := range sets.Items {
		if set.DeletionTimestamp == nil {
			found[set.Name] = set.UID
		}
	}
	return found
}
