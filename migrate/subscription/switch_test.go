package subscription_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/test/cluster"
)

// TestSwitch covers what can happen to a switch besides running to its end.
func TestSwitch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, test := range map[string]struct {
		approval v1alpha1.Approval
		known    []string
		do       func(*place)
	}{
		"an unsafe plan is not applied":                            {known: []string{broken}, do: unsafePlan},
		"a plan is for an unchanged cluster":                       {known: []string{second}, do: clusterChanged},
		"a missing channel":                                        {known: []string{second}, do: missingChannel},
		"a missing catalog":                                        {do: missingCatalog},
		"an unreachable catalog":                                   {do: unreachableCatalog},
		"two Subscriptions for one package":                        {known: []string{second}, do: twoSubscriptions},
		"a switch in progress has its own plan":                    {known: []string{second}, do: inProgress},
		"manual approval stays manual":                             {known: []string{second}, approval: v1alpha1.ApprovalManual, do: manualApproval},
		"a dry run writes nothing":                                 {known: []string{second}, do: dryRun},
		"somebody changes the Subscription":                        {known: []string{second}, do: changedSubscription},
		"somebody recreates the Subscription":                      {known: []string{second}, do: recreatedSubscription},
		"OLM installs again what was removed":                      {known: []string{renamed}, do: installedAgain},
		"OLM waits for an InstallPlan that is gone":                {known: []string{renamed}, do: missingInstallPlan},
		"OLM creates an InstallPlan late":                          {known: []string{second}, do: lateInstallPlan},
		"the clock of an interrupted run was ahead":                {known: []string{second}, do: clockAhead},
		"OLM creates an unplanned InstallPlan":                     {known: []string{second}, do: unplannedInstallPlan},
		"OLM waits for an InstallPlan that a rollback has deleted": {known: []string{second}, do: stalledRollback},
		"a rolled back switch can be repeated":                     {known: []string{second}, do: repeated},
		"a timeout":                                                {known: []string{second}, do: timesOut},
		"a complete switch cannot be rolled back":                  {known: []string{second}, do: noRollback},
		"invalid journals":                                         {known: []string{second}, do: invalidJournals},
		"a conflicting request":                                    {known: []string{second}, do: conflictingRequest},
		"somebody changes the configuration":                       {known: []string{second}, do: changedConfig},
		"OLM offers a later version after the switch":              {known: []string{longer}, approval: v1alpha1.ApprovalManual, do: offeredLater},
		"OLM installs a later version during the switch":           {known: []string{longer}, do: installedLater},
		"the operator is removed after the switch":                 {known: []string{renamed}, do: removedAfter},
		"a recreated Subscription keeps labels and annotations":    {known: []string{renamed}, do: keptMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.do(s.newPlace(t, test.approval, test.known...))
		})
	}
}

func unsafePlan(p *place) {
	p.mustRefuse(p.to(broken), prediction.NoEdge)
	p.mustLeaveAsIs(func() {
		if err := p.apply(p.to(broken), migrate.Options{})(p.t.Context(), p.Config()); err == nil {
			p.t.Error("an unsafe plan was applied")
		}
	})
}

// check returns the check of a plan with a code, or nil.
func check(p *subscription.Plan, code prediction.Code) *migrate.Check {
	at := slices.IndexFunc(p.Checks, func(c migrate.Check) bool { return c.Code == string(code) })
	if at < 0 {
		return nil
	}
	return &p.Checks[at]
}

func clusterChanged(p *place) {
	text, err := json.Marshal(p.plan(p.to(second)))
	if err != nil {
		p.t.Fatal(err)
	}
	given, err := subscription.Switch.Read(strings.NewReader(string(text)))
	if err != nil {
		p.t.Fatal(err)
	}
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"low"}]}}}`)
	_, _, err = subscription.Switch.EnsureGiven(p.t.Context(), p.admin(), given.Request(), given)
	if err == nil || !strings.Contains(err.Error(), "generation was 1 and is 2") {
		p.t.Errorf("got %v, want that the Subscription's generation has changed", err)
	}
}

func missingChannel(p *place) {
	r := p.to(second)
	r.Channel = "preview"
	p.mustRefuse(r, prediction.ChannelAbsent)
}

func missingCatalog(p *place) { p.mustRefuse(p.to("nowhere"), prediction.SourceMissing) }

func unreachableCatalog(p *place) {
	p.create(&v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: "adrift", Namespace: p.namespace},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: "127.0.0.1:1"}})
	p.mustRefuse(p.to("adrift"), prediction.SourceUnreachable)
}

func twoSubscriptions(p *place) {
	again := p.subscription.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Name: "again", Namespace: p.namespace}
	p.create(again)
	p.mustRefuse(p.to(second), prediction.SecondSubscription)
}

// mustRefuse makes a plan, which must be refused for at least this reason.
func (p *place) mustRefuse(r subscription.Request, code prediction.Code) {
	p.t.Helper()
	made := p.plan(r)
	c := check(made, code)
	if made.Safe || c == nil || c.Verdict != migrate.Refused || c.Do == "" {
		p.t.Fatalf("the plan is safe: %t, check %s is %+v; want it refused, with what to do", made.Safe, code, c)
	}
	if strings.Contains(c.Do, "spec.") {
		p.t.Errorf("what to do is %q, want a flag of the command", c.Do)
	}
	if later := check(made, prediction.Downgrade); made.Target == "" && later != nil {
		p.t.Errorf("OLM installs nothing, but there is a check of the version: %+v", later)
	}
	p.t.Logf("\n%s", made.Text(migrate.Plain))
}

func inProgress(p *place) {
	applyToApproval(p)
	if _, err := subscription.Switch.Plan(p.t.Context(), p.admin(), p.to(second)); err == nil || !strings.Contains(err.Error(), "berth switch rollback buoy") {
		p.t.Errorf("got %v, want that it is in progress, and how to roll back", err)
	}
	p.run(p.rollback)
}

func manualApproval(p *place) {
	p.run(p.apply(p.to(second), migrate.Options{}))
	got, err := p.end(p.t.Context())
	if err != nil || got.approval != v1alpha1.ApprovalManual || got.installed != "buoy.v1.1.0" {
		p.t.Errorf("got %+v, %v; want buoy.v1.1.0, with manual approval", got, err)
	}
}

func dryRun(p *place) {
	p.mustLeaveAsIs(func() { p.run(p.apply(p.to(second), migrate.Options{DryRun: true})) })
}

// mustLeaveAsIs does something, which must not change the place.
func (p *place) mustLeaveAsIs(do func()) {
	p.t.Helper()
	before, err := p.end(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	do()
	after, err := p.end(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(end{})); diff != "" {
		p.t.Errorf("the state has changed (-before +after):\n%s", diff)
	}
}

func changedSubscription(p *place) {
	applyToApproval(p)
	p.patchSubscription(`{"spec":{"channel":"preview"}}`)
	// In this order: a switch cannot be applied any more once its rollback has begun.
	for i, tool := range []tool{p.apply(p.to(second), migrate.Options{}), p.rollback} {
		if err := tool(p.t.Context(), p.Config()); err == nil || !strings.Contains(err.Error(), "somebody has changed Subscription") {
			p.t.Errorf("%s: got %v, want that somebody has changed the Subscription", []string{"apply", "rollback"}[i], err)
		}
	}
	p.patchSubscription(`{"spec":{"channel":"stable"}}`)
	p.run(p.rollback)
	p.patchSubscription(`{"spec":{"channel":"preview"}}`)
	if err := p.rollback(p.t.Context(), p.Config()); err == nil || !strings.Contains(err.Error(), "rolled back already") {
		p.t.Errorf("got %v, want that there is nothing to roll back", err)
	}
}

func recreatedSubscription(p *place) {
	applyToApproval(p)
	former := &v1alpha1.Subscription{}
	if err := p.Client().Get(p.t.Context(), client.ObjectKeyFromObject(p.subscription), former); err != nil {
		p.t.Fatal(err)
	}
	if err := p.Client().Delete(p.t.Context(), former); err != nil {
		p.t.Fatal(err)
	}
	p.create(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: former.Namespace, Name: former.Name}, Spec: former.Spec})
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	err := p.apply(p.to(second), migrate.Options{})(ctx, p.Config())
	if err == nil || !strings.Contains(err.Error(), "deleted and recreated") {
		p.t.Errorf("got %v, want that somebody has recreated the Subscription", err)
	}
	if err := p.rollback(p.t.Context(), p.Config()); err == nil || !strings.Contains(err.Error(), "deleted and recreated") || !strings.Contains(err.Error(), "delete configmap "+p.journal().Name) {
		p.t.Errorf("rollback: got %v, want that somebody has recreated the Subscription, and how to abandon the switch", err)
	}
	if err := p.Client().Delete(p.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.journal().Namespace, Name: p.journal().Name}}); err != nil {
		p.t.Fatal(err)
	}
	if _, err := subscription.Switch.Plan(p.t.Context(), p.admin(), p.to(second)); err != nil {
		p.t.Errorf("got %v, want a new plan", err)
	}
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
	if err := p.Client().Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "buoy.v1.0.0"}, removed); err != nil {
		p.t.Fatal(err)
	}
	p.applyUntil(subscription.Approve, p.to(renamed))
	p.create(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: removed.Name}, Spec: removed.Spec})
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

// rollBackToWait rolls back until OLM is given time.
func rollBackToWait(p *place) {
	p.t.Helper()
	applyToApproval(p)
	cluster.Eventually(p.t, limit, "the rollback to wait for OLM", func(ctx context.Context) error {
		if err := p.rollingBack(migrate.Options{NoWait: true})(ctx, p.Config()); !errors.Is(err, migrate.ErrWaiting) {
			return fmt.Errorf("got %v, want that there is something to wait for", err)
		}
		if next := p.status().Next; next != subscription.AwaitResolver {
			return fmt.Errorf("the next step is %s", next)
		}
		return nil
	})
}

func lateInstallPlan(p *place) {
	rollBackToWait(p)
	p.copyUnapproved("install-late", "buoy.v1.1.0")
	p.mustRollBack()
}

// copyUnapproved creates a copy of the unapproved InstallPlan for another ClusterServiceVersion.
func (p *place) copyUnapproved(name, version string) *v1alpha1.InstallPlan {
	p.t.Helper()
	original := p.unapproved()
	copied := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, OwnerReferences: original.OwnerReferences}, Spec: original.Spec}
	copied.Spec.ClusterServiceVersionNames = []string{version}
	p.create(copied)
	copied.Status = original.Status
	if err := p.Client().Status().Update(p.t.Context(), copied); err != nil {
		p.t.Fatal(err)
	}
	return copied
}

func unplannedInstallPlan(p *place) {
	applyToApproval(p)
	p.mustApproveAfter("")
	other := p.copyUnapproved("install-other", "buoy.v1.0.9")
	p.waitFor(other)
	p.mustApproveAfter("InstallPlan install-other, for buoy.v1.0.9, to be deleted")
	if err := p.Client().Delete(p.t.Context(), other); err != nil {
		p.t.Fatal(err)
	}
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

func clockAhead(p *place) {
	rollBackToWait(p)
	journal := &corev1.ConfigMap{}
	if err := p.Client().Get(p.t.Context(), p.journal(), journal); err != nil {
		p.t.Fatal(err)
	}
	entries := strings.Split(journal.Data["log"], "\n")
	for i := range entries {
		if _, step, found := strings.Cut(entries[i], " "); found {
			entries[i] = "2999-12-31T23:59:59Z " + step
		}
	}
	journal.Data["log"] = strings.Join(entries, "\n")
	if err := p.Client().Update(p.t.Context(), journal); err != nil {
		p.t.Fatal(err)
	}
	p.mustRollBack()
}

func stalledRollback(p *place) {
	rollBackToWait(p)
	if err := p.Client().Delete(p.t.Context(), p.unapproved()); err != nil {
		p.t.Fatal(err)
	}
	cluster.Eventually(p.t, limit, "OLM to notice the deletion", p.isRestored)
	p.stall()
	p.mustRollBack()
}

// mustRollBack runs a rollback to its end.
func (p *place) mustRollBack() {
	p.t.Helper()
	p.run(p.rollback)
	if err := p.isRestored(p.t.Context()); err != nil {
		p.t.Error(err)
	}
}

// isRestored fails unless all is as before the switch: the Subscription waits for nothing, and no InstallPlan is pending.
func (p *place) isRestored(ctx context.Context) error {
	e, err := p.end(ctx)
	if err != nil {
		return err
	}
	subscription := &v1alpha1.Subscription{}
	if err := p.Client().Get(ctx, client.ObjectKeyFromObject(p.subscription), subscription); err != nil {
		return err
	}
	if len(e.pending) > 0 || e.source != first || subscription.Status.State == v1alpha1.SubscriptionStateUpgradePending {
		return fmt.Errorf("the Subscription to %s is %s, and InstallPlans for %q are pending; want it to %s, waiting for nothing, and none pending", e.source, subscription.Status.State, e.pending, first)
	}
	return nil
}

func repeated(p *place) {
	for range 2 {
		applyToApproval(p)
		p.mustRollBack()
	}
	p.mustSwitch(second, "buoy.v1.1.0")
}

// mustSwitch applies a switch to its end, after which only this ClusterServiceVersion must be installed.
func (p *place) mustSwitch(source, name string) {
	p.t.Helper()
	p.run(p.apply(p.to(source), migrate.Options{}))
	if err := p.installed(p.t.Context(), name); err != nil {
		p.t.Error(err)
	}
}

func (p *place) patchSubscription(patch string) {
	p.t.Helper()
	if err := p.Client().Patch(p.t.Context(), p.subscription, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.t.Fatal(err)
	}
}

func timesOut(p *place) {
	applyToApproval(p)
	ctx, cancel := context.WithDeadline(p.t.Context(), time.Now())
	defer cancel()
	timeout := &migrate.TimeoutError{}
	made := p.status().Plan
	if err := subscription.Switch.Apply(ctx, p.admin(), made, migrate.Options{Report: p.report(nil)}); !errors.As(err, &timeout) {
		p.t.Errorf("got %v, want a timeout", err)
	}
	if got := p.status(); got.Phase != migrate.Applying || got.Next != subscription.Approve || !got.CanRollBack {
		p.t.Errorf("got %+v; want that approve is next, and that it can be rolled back", got)
	}
}

func (p *place) status() *migrate.Status[*subscription.Plan] {
	p.t.Helper()
	status, err := subscription.Switch.Status(p.t.Context(), p.admin(), subscription.Request{Package: "buoy", Namespace: p.namespace})
	if err != nil {
		p.t.Fatal(err)
	}
	return status
}

func noRollback(p *place) {
	p.run(p.apply(p.to(second), migrate.Options{}))
	p.mustLeaveAsIs(func() {
		if err := p.rollback(p.t.Context(), p.Config()); err == nil || !strings.Contains(err.Error(), "beyond the point of no return") {
			p.t.Errorf("got %v, want that it cannot be rolled back", err)
		}
	})
}

func invalidJournals(p *place) {
	foreign := journalOf(migrate.DefaultJournalNamespace, "berth-switch."+p.namespace+".other", "garbage")
	own := journalOf(p.journal().Namespace, p.journal().Name, "garbage")
	for _, journal := range []*corev1.ConfigMap{foreign, own} {
		p.create(journal)
		p.t.Cleanup(func() {
			if err := client.IgnoreNotFound(p.Client().Delete(context.Background(), journal)); err != nil {
				p.t.Error(err)
			}
		})
	}
	seen, warned := p.admin(), ""
	seen.Warn = func(what string) { warned += what + "\n" }
	if _, err := subscription.Switch.Plan(p.t.Context(), seen, p.to(second)); err == nil || !strings.Contains(err.Error(), "ConfigMap "+own.Namespace+"/"+own.Name+" is not a valid journal") {
		p.t.Errorf("got %v, want that the Subscription's own journal is not valid", err)
	}
	for _, journal := range []*corev1.ConfigMap{foreign, own} {
		if !strings.Contains(warned, "ignored: ConfigMap "+journal.Namespace+"/"+journal.Name+" is not a valid journal") {
			p.t.Errorf("warnings are %q, want one about %s, too", warned, journal.Name)
		}
	}
	if err := p.Client().Delete(p.t.Context(), own); err != nil {
		p.t.Fatal(err)
	}
	p.mustSwitch(second, "buoy.v1.1.0")
}

func conflictingRequest(p *place) {
	applyToApproval(p)
	r := p.to(second)
	r.Channel = "preview"
	if _, _, err := subscription.Switch.Ensure(p.t.Context(), p.admin(), r); err == nil || !strings.Contains(err.Error(), `--channel: the plan has "stable", requested is "preview"`) {
		p.t.Errorf("got %v, want that another channel is requested", err)
	}
	_, resumed, err := subscription.Switch.Ensure(p.t.Context(), p.admin(), p.to(second))
	if err != nil || resumed == nil || resumed.Next != subscription.Approve || !strings.Contains(resumed.Text(migrate.Plain), "approve the InstallPlan") {
		p.t.Errorf("got %+v, %v; want its status and its steps", resumed, err)
	}
	p.run(p.rollback)
}

func changedConfig(p *place) {
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"high"}]}}}`)
	if text := p.plan(p.to(second)).Text(migrate.Plain); !strings.Contains(text, "value: high") {
		p.t.Errorf("the plan does not show the configuration:\n%s", text)
	}
	applyToApproval(p)
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"low"}]}}}`)
	for i, tool := range []tool{p.apply(p.to(second), migrate.Options{}), p.rollback} {
		if err := tool(p.t.Context(), p.Config()); err == nil || !strings.Contains(err.Error(), "spec.config differs from the plan") {
			p.t.Errorf("%s: got %v, want that somebody has changed the configuration", []string{"apply", "rollback"}[i], err)
		}
	}
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"high"}]}}}`)
	p.run(p.apply(p.to(second), migrate.Options{}))
	// OLM applies each change of the configuration to the Deployment, and installs a ClusterServiceVersion that has
	// succeeded again when it comes to that (reason NeedsReinstall).
	cluster.Eventually(p.t, limit, "OLM to apply the configuration", func(ctx context.Context) error { return p.installed(ctx, "buoy.v1.1.0") })
}
