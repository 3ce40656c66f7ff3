package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/test/journey"
)

// TestFollowSwitchPage: an administrator runs the commands of the page about switching to another catalog, and their
// output matches it: a plan and one that is not safe, a plan for a package of another name, a switch that is rolled
// back, and one that is completed.
func TestFollowSwitchPage(t *testing.T) {
	if !*followPages {
		t.Skip("-follow-pages is not set; make prove SUITE=pages sets it")
	}
	w := newEnvironment(t, efs(t), cluster.Options{})
	from := communityBundles(t)[0]
	w.serve(communityCatalog, w.buildCatalog(from.folder))
	w.serve(certifiedCatalog, w.catalog)
	other := renumbered(t, from.folder, map[string]string{w.driver.Package.Name: "aws-efs-csi-driver-operator", from.version: "1.0.0"})
	w.serve("redhat-operators", w.buildCatalog(other))
	w.step(func(ctx context.Context, c client.Client) error {
		_, err := journey.Subscribe(ctx, c, w.subscription(communityCatalog, from.channel))
		return err
	})
	w.leaveCommunityOperator(2)

	const page = "move/switch.md"
	r := w.reader()
	r.Follow(t, page, "### Plan", 0, 1)
	r.Follow(t, page, "## If the package has another name there")
	w.interruptSwitch(subscription.Approve)
	cluster.Eventually(t, limit, "OLM to create an InstallPlan for the other catalog's version", func(ctx context.Context) error {
		var plans v1alpha1.InstallPlanList
		if err := w.Client().List(ctx, &plans, client.InNamespace("openshift-operators")); err != nil {
			return err
		}
		if !slices.ContainsFunc(plans.Items, func(p v1alpha1.InstallPlan) bool {
			return !p.Spec.Approved && slices.Contains(p.Spec.ClusterServiceVersionNames, w.driver.Package.Name+".v1.0.0") && p.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval
		}) {
			return fmt.Errorf("there are %d InstallPlans, and none that waits for approval", len(plans.Items))
		}
		return nil
	})
	r.Follow(t, page, "### Status and rollback")
	r.Follow(t, page, "### Apply")
}

// interruptSwitch begins a switch, and interrupts it before a step.
func (w *environment) interruptSwitch(before migrate.StepName) {
	w.t.Helper()
	admin := migrate.Cluster{Config: w.Config(), Client: w.Client()}
	plan, _, err := subscription.Switch.Ensure(w.t.Context(), admin, subscription.Request{Package: w.driver.Package.Name, Source: certifiedCatalog, CreateDriver: true})
	require.NoError(w.t, err)
	ctx, interrupt := context.WithTimeout(w.t.Context(), limit)
	defer interrupt()
	reached := false
	err = subscription.Switch.Apply(ctx, admin, plan, migrate.Options{Report: func(e migrate.Event) {
		if e.Step == before { // it is reported before it is executed
			reached = true
			interrupt()
		}
	}})
	if !reached {
		w.t.Fatalf("the switch ended before step %s: %v", before, err)
	}
}
