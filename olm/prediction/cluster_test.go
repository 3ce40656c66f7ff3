package prediction

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/catalogs/operators"
	"github.com/berth-csi/berth/test/catalogs/serving"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(klog.Background()) // for the informers
	// Parallel tests mostly wait for OLM, and take no processor.
	if err := flag.Set("test.parallel", strconv.Itoa(len(traps))); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

const limit = 5 * time.Minute

// TestAgainstOLM predicts each thing that OLM does with a Subscription, and then watches OLM do it. Approval is manual from
// the beginning, because OLM may take a moment to notice a change of it.
func TestAgainstOLM(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{OLM: true})
	namespace := c.Namespace(t)
	api := c.Client()
	create := func(o client.Object) {
		t.Helper()
		require.NoError(t, api.Create(t.Context(), o))
	}
	create(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: namespace},
		Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{namespace}}})
	first := operators.Entries(t, declcfg.ChannelEntry{Name: "buoy.v1.0.0"})
	second := operators.Entries(t, declcfg.ChannelEntry{Name: "buoy.v1.1.0", Replaces: "buoy.v1.0.0"})
	subscription := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: "buoy", Namespace: namespace},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: "first", CatalogSourceNamespace: namespace, Package: "buoy", Channel: "stable",
			InstallPlanApproval: v1alpha1.ApprovalManual},
	}
	serve := func(name, dir string) {
		t.Helper()
		create(&v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: serving.Start(t, dir)}})
	}
	predict := func(dir string) *Prediction {
		t.Helper()
		states, err := Observe(t.Context(), c.Config(), namespace)
		require.NoError(t, err)
		require.Len(t, states, 1)
		if n := states[0].SubstituteCatalog(read(t, dir)); n != 1 {
			t.Fatalf("the catalog has packages of %d Subscriptions", n)
		}
		predictions, err := states[0].Predict(t.Context())
		require.NoError(t, err)
		return predictions[0]
	}
	// install approves the InstallPlan, and waits until the version is installed.
	install := func(name string) {
		t.Helper()
		pending := &v1alpha1.InstallPlan{}
		cluster.Eventually(t, limit, "OLM to require approval", func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(subscription), subscription); err != nil {
				return err
			}
			if subscription.Status.CurrentCSV != name || subscription.Status.InstallPlanRef == nil || subscription.Status.State != v1alpha1.SubscriptionStateUpgradePending {
				return fmt.Errorf("the Subscription's status is %+v", subscription.Status)
			}
			return api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: subscription.Status.InstallPlanRef.Name}, pending)
		})
		if got := predict(second); got.Reaction != Waits || len(got.Blockers) == 0 {
			t.Errorf("before it is approved: got %+v, want Waits", got)
		}
		require.NoError(t, api.Patch(t.Context(), pending, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"approved":true}}`))))
		cluster.Eventually(t, limit, "OLM to install "+name, func(ctx context.Context) error {
			csv := &v1alpha1.ClusterServiceVersion{}
			if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, csv); err != nil {
				return err
			}
			if csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
				return fmt.Errorf("it is %s: %s", csv.Status.Phase, csv.Status.Message)
			}
			if err := api.Get(ctx, client.ObjectKeyFromObject(subscription), subscription); err != nil {
				return err
			}
			if subscription.Status.InstalledCSV != name {
				return fmt.Errorf("the Subscription's installedCSV is %q", subscription.Status.InstalledCSV)
			}
			return nil
		})
	}

	serve("first", first)
	create(subscription)
	got := predict(first)
	if got.Reaction != Waits || got.Next == nil || got.Next.Name != "buoy.v1.0.0" {
		t.Fatalf("got %+v, want an installation that waits for approval", got)
	}
	install(got.Next.Name)
	if got := predict(first); got.Reaction != Latest {
		t.Errorf("got %+v, want Latest", got)
	}
	if got := predict(operators.Entries(t, declcfg.ChannelEntry{Name: "buoy.v2.0.0"})); got.Reaction != Stranded {
		t.Errorf("got %+v, want Stranded", got)
	}

	// Another source.
	serve("second", second)
	require.NoError(t, api.Patch(t.Context(), subscription, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"source":"second"}}`))))
	got = predict(second)
	if got.Reaction != Waits || got.Next == nil || got.Next.Name != "buoy.v1.1.0" {
		t.Fatalf("got %+v, want an update that waits for approval", got)
	}
	install(got.Next.Name)
}
