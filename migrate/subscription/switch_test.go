package subscription_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

// TestSwitch: plans, approvals and rollbacks.
func TestSwitch(t *testing.T) {
	t.Parallel()
	testSwitches(t, map[string]switchTest{
		"an unsafe plan is not applied":           {known: []string{broken}, do: unsafePlan},
		"a missing catalog":                       {do: missingCatalog},
		"a switch in progress has its own plan":   {known: []string{second}, do: inProgress},
		"manual approval stays manual":            {known: []string{second}, approval: v1alpha1.ApprovalManual, do: manualApproval},
		"a dry run writes nothing":                {known: []string{second}, do: dryRun},
		"a rolled back switch can be repeated":    {known: []string{second}, do: repeated},
		"a complete switch cannot be rolled back": {known: []string{second}, do: noRollback},
	})
}

// TestDisturbedSwitch: the switch notices OLM's actions and other people's changes meanwhile.
func TestDisturbedSwitch(t *testing.T) {
	t.Parallel()
	testSwitches(t, map[string]switchTest{
		"a plan is for an unchanged cluster":                       {known: []string{second}, do: clusterChanged},
		"a missing channel":                                        {known: []string{second}, do: missingChannel},
		"an unreachable catalog":                                   {do: unreachableCatalog},
		"a package that OLM v1 has installed":                      {do: installedByOLMv1},
		"two Subscriptions for one package":                        {known: []string{second}, do: twoSubscriptions},
		"somebody changes the Subscription":                        {known: []string{second}, do: changedSubscription},
		"somebody recreates the Subscription":                      {known: []string{second}, do: recreatedSubscription},
		"OLM installs again what was removed":                      {known: []string{renamed}, do: installedAgain},
		"OLM waits for an InstallPlan that is gone":                {known: []string{renamed}, do: missingInstallPlan},
		"OLM creates an InstallPlan late":                          {known: []string{second}, do: lateInstallPlan},
		"the clock of an interrupted run was ahead":                {known: []string{second}, do: clockAhead},
		"OLM creates an unplanned InstallPlan":                     {known: []string{second}, do: unplannedInstallPlan},
		"OLM waits for an InstallPlan that a rollback has deleted": {known: []string{second}, do: stalledRollback},
		"a timeout":                                             {known: []string{second}, do: timesOut},
		"invalid journals":                                      {known: []string{second}, do: invalidJournals},
		"a conflicting request":                                 {known: []string{second}, do: conflictingRequest},
		"somebody changes the configuration":                    {known: []string{second}, do: changedConfig},
		"OLM offers a later version after the switch":           {known: []string{longer}, approval: v1alpha1.ApprovalManual, do: offeredLater},
		"OLM installs a later version during the switch":        {known: []string{longer}, do: installedLater},
		"OLM asks for approval of a later version":              {known: []string{longer}, do: askedForLater},
		"the operator is removed after the switch":              {known: []string{renamed}, do: removedAfter},
		"a recreated Subscription keeps labels and annotations": {known: []string{renamed}, do: keptMetadata},
	})
}

// switchTest is a test in a place of its own.
type switchTest struct {
	approval v1alpha1.Approval
	known    []string
	do       func(*place)
}

func testSwitches(t *testing.T, tests map[string]switchTest) {
	s := newSite(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.do(s.newPlace(t, test.approval, test.known...))
		})
	}
}

func manualApproval(p *place) {
	p.Run(p.apply(p.to(second), migrate.Options{}))
	got, err := p.end(p.t.Context())
	if err != nil || got.approval != v1alpha1.ApprovalManual || got.installed != "buoy.v1.1.0" {
		p.t.Errorf("got %+v, %v; want buoy.v1.1.0, with manual approval", got, err)
	}
}

func dryRun(p *place) {
	p.mustLeaveAsIs(func() { p.Run(p.apply(p.to(second), migrate.Options{DryRun: true})) })
}

// mustLeaveAsIs does something, which must not change the place.
func (p *place) mustLeaveAsIs(do func()) {
	p.t.Helper()
	before, err := p.end(p.t.Context())
	require.NoError(p.t, err)
	do()
	after, err := p.end(p.t.Context())
	require.NoError(p.t, err)
	assert.Empty(p.t, cmp.Diff(before, after, cmp.AllowUnexported(end{})), "the state has changed (-before +after)")
}

// mustApproveAfter waits until approve is the next step, and waits for something that begins with a text, or for nothing
// if the text is empty.
func (p *place) mustApproveAfter(waits string) {
	p.t.Helper()
	cluster.Eventually(p.t, limit, "approve to be the next step", func(context.Context) error {
		if got := p.status(); got.Next != subscription.Approve || !strings.HasPrefix(got.Waits, waits) || waits == "" && got.Waits != "" {
			return fmt.Errorf("the next step is %s, and waits for %q; want %q", got.Next, got.Waits, waits)
		}
		return nil
	})
}

func installedAgain(p *place) {
	removed := &v1alpha1.ClusterServiceVersion{}
	require.NoError(p.t, p.Client().Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "buoy.v1.0.0"}, removed))
	p.applyUntil(subscription.Approve, p.to(renamed))
	p.Create(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: removed.Name}, Spec: removed.Spec})
	p.mustSwitch(renamed, "beacon.v2.0.0")
}

func missingInstallPlan(p *place) {
	p.applyUntil(subscription.Approve, p.to(renamed))
	p.stall()
	p.mustSwitch(renamed, "beacon.v2.0.0")
}

// stall makes the Subscription wait for an InstallPlan that is gone. OLM leaves that behind if an InstallPlan is deleted
// before the Subscription's conditions show it as pending.
func (p *place) stall() {
	p.t.Helper()
	p.waitFor(&v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "install-gone", UID: "gone"}})
}

// waitFor makes the Subscription wait for an InstallPlan.
func (p *place) waitFor(request *v1alpha1.InstallPlan) {
	p.t.Helper()
	cluster.Eventually(p.t, limit, "the Subscription to wait for "+request.Name, func(ctx context.Context) error {
		wrong := &v1alpha1.Subscription{}
		if err := p.Client().Get(ctx, client.ObjectKeyFromObject(p.subscription), wrong); err != nil {
			return err
		}
		return p.PointTo(ctx, wrong, "buoy.v1.0.9", request)
	})
}

// copyUnapproved creates a copy of the unapproved InstallPlan for another ClusterServiceVersion.
func (p *place) copyUnapproved(name, version string) *v1alpha1.InstallPlan {
	p.t.Helper()
	original := p.unapproved()
	copied := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, OwnerReferences: original.OwnerReferences}, Spec: original.Spec}
	copied.Spec.ClusterServiceVersionNames = []string{version}
	p.Create(copied)
	copied.Status = original.Status
	require.NoError(p.t, p.Client().Status().Update(p.t.Context(), copied))
	return copied
}

func unplannedInstallPlan(p *place) {
	applyToApproval(p)
	p.mustApproveAfter("")
	other := p.copyUnapproved("install-other", "buoy.v1.0.9")
	p.waitFor(other)
	p.mustApproveAfter("InstallPlan install-other, for buoy.v1.0.9, to be deleted")
	require.NoError(p.t, p.Client().Delete(p.t.Context(), other))
	p.mustSwitch(second, "buoy.v1.1.0")
}

// unapproved returns the unapproved InstallPlan, once there is one.
func (p *place) unapproved() (found *v1alpha1.InstallPlan) {
	p.t.Helper()
	cluster.Eventually(p.t, limit, "OLM to ask for approval", func(ctx context.Context) error {
		requests := &v1alpha1.InstallPlanList{}
		if err := p.Client().List(ctx, requests, client.InNamespace(p.namespace)); err != nil {
			return err
		}
		at := slices.IndexFunc(requests.Items, func(r v1alpha1.InstallPlan) bool {
			return r.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval
		})
		if at < 0 {
			return fmt.Errorf("none of %d InstallPlans requires approval", len(requests.Items))
		}
		found = &requests.Items[at]
		return nil
	})
	return found
}

// mustSwitch applies a switch to its end, after which only this ClusterServiceVersion must be installed.
func (p *place) mustSwitch(source, name string) {
	p.t.Helper()
	p.Run(p.apply(p.to(source), migrate.Options{}))
	assert.NoError(p.t, p.installed(p.t.Context(), name))
}

func (p *place) patchSubscription(patch string) {
	p.t.Helper()
	require.NoError(p.t, p.Client().Patch(p.t.Context(), p.subscription, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func timesOut(p *place) {
	applyToApproval(p)
	ctx, cancel := context.WithDeadline(p.t.Context(), time.Now())
	defer cancel()
	timeout := &migrate.TimeoutError{}
	made := p.status().Plan
	err := subscription.Switch.Apply(ctx, p.admin(), made, migrate.Options{Report: p.Report(nil)})
	assert.ErrorAs(p.t, err, &timeout)
	if got := p.status(); got.Phase != migrate.Applying || got.Next != subscription.Approve || !got.CanRollBack {
		p.t.Errorf("got %+v; want that approve is next, and that it can be rolled back", got)
	}
}

func (p *place) status() *migrate.Status[*subscription.Plan] {
	p.t.Helper()
	status, err := subscription.Switch.Status(p.t.Context(), p.admin(), subscription.Request{Package: "buoy", Namespace: p.namespace})
	require.NoError(p.t, err)
	return status
}
