package subscription_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/test/migrations"
)

func offeredLater(p *place) {
	reviewed := p.plan(p.to(longer))
	p.Run(p.apply(p.to(longer), migrate.Options{}))
	cluster.Eventually(p.t, limit, "OLM to offer a later version", func(ctx context.Context) error {
		e, err := p.end(ctx)
		if err == nil && !slices.Equal(e.pending, []string{"buoy.v1.1.1"}) {
			err = fmt.Errorf("unapproved InstallPlans are for %q", e.pending)
		}
		return err
	})
	p.mustBeComplete(longer, reviewed)
	p.withoutJournal(func() {
		if made := p.plan(p.to(longer)); !made.Safe || len(made.Objects) > 0 {
			p.t.Errorf("got a plan that changes %+v; want one that has nothing to do:\n%s", made.Objects, made.Text(findings.Plain))
		}
		p.MustWriteNothing(p.apply(p.to(longer), migrate.Options{}))
	})
	cluster.Eventually(p.t, limit, "OLM to install the later version", func(ctx context.Context) error {
		if err := p.approveAll(ctx); err != nil {
			return err
		}
		return p.installed(ctx, "buoy.v1.1.1")
	})
	p.mustBeComplete(longer, reviewed)
	p.mustReport(p.rollback, "beyond the point of no return")
}

// mustBeComplete fails unless a switch is complete, and stays unchanged however it is applied again.
func (p *place) mustBeComplete(source string, reviewed *subscription.Plan) {
	p.t.Helper()
	status := p.status()
	assert.Equal(p.t, migrate.Completed, status.Phase, "the journal")
	p.mustLeaveAsIs(func() {
		p.MustWriteNothing(p.apply(p.to(source), migrate.Options{}))
		p.MustWriteNothing(p.applyGiven(reviewed))
		p.MustWriteNothing(p.applyAgain(status.Plan))
	})
}

// withoutJournal does something while the journal is gone, as if an administrator had deleted it.
func (p *place) withoutJournal(do func()) {
	p.t.Helper()
	journal := &corev1.ConfigMap{}
	require.NoError(p.t, p.Client().Get(p.t.Context(), p.journal(), journal))
	require.NoError(p.t, p.Client().Delete(p.t.Context(), journal))
	do()
	journal.ResourceVersion, journal.UID = "", ""
	p.Create(journal)
}

// applyAgain applies a plan regardless of a migration in progress.
func (p *place) applyAgain(made *subscription.Plan) migrations.Tool {
	return func(ctx context.Context, config *rest.Config) error {
		seen, err := p.Connect(config)
		if err != nil {
			return err
		}
		return subscription.Switch.Apply(ctx, seen, made, migrate.Options{Report: p.Report(nil)})
	}
}

// mustReport fails unless a tool fails with each of these texts, and writes nothing.
func (p *place) mustReport(t migrations.Tool, want ...string) {
	p.t.Helper()
	recorder := fault.Record()
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	err := recorder.Run(ctx, p.Config(), t)
	for _, text := range want {
		assert.ErrorContains(p.t, err, text)
	}
	assert.Empty(p.t, recorder.Writes())
}

func installedLater(p *place) {
	reviewed := p.plan(p.to(longer))
	p.applyUntil(migrate.Complete, p.to(longer))
	cluster.Eventually(p.t, limit, "OLM to install the later version", func(ctx context.Context) error { return p.installed(ctx, "buoy.v1.1.1") })
	p.mustReport(p.rollback, "OLM has installed buoy.v1.1.1", "berth switch apply buoy")
	if got := p.status(); got.Next != migrate.Complete || got.CanRollBack || got.Stuck != "" {
		p.t.Errorf("the next step is %q, stuck: %q, can be rolled back: %t; want %s, and no way back", got.Next, got.Stuck, got.CanRollBack, migrate.Complete)
	}
	p.mustSwitch(longer, "buoy.v1.1.1")
	if got, err := p.end(p.t.Context()); err != nil || got.approval != p.subscription.Spec.InstallPlanApproval {
		p.t.Errorf("the approval is %q, %v; want %q as before", got.approval, err, p.subscription.Spec.InstallPlanApproval)
	}
	p.mustBeComplete(longer, reviewed)
}

// askedForLater: before approval is restored, OLM creates an InstallPlan for a later version, which asks for approval. It never
// asks again, so the switch deletes that InstallPlan, and OLM creates one that needs no approval.
func askedForLater(p *place) {
	p.applyUntil(subscription.RestoreApproval, p.to(longer))
	asks := p.unapproved()
	require.Equal(p.t, []string{"buoy.v1.1.1"}, asks.Spec.ClusterServiceVersionNames, "the unapproved InstallPlan is for the later version")
	p.Run(p.apply(p.to(longer), migrate.Options{}))
	cluster.Eventually(p.t, limit, "OLM to install the later version", func(ctx context.Context) error { return p.installed(ctx, "buoy.v1.1.1") })
	if got, err := p.end(p.t.Context()); err != nil || len(got.pending) > 0 || got.approval != p.subscription.Spec.InstallPlanApproval {
		p.t.Errorf("got %+v, %v; want no unapproved InstallPlan, and the approval as before", got, err)
	}
}

func removedAfter(p *place) {
	reviewed := p.plan(p.to(renamed))
	p.mustSwitch(renamed, "beacon.v2.0.0")
	completed := p.status().Plan
	for _, object := range []client.Object{
		p.subscription, &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "beacon.v2.0.0"}},
	} {
		p.remove(object)
		for _, t := range []migrations.Tool{p.apply(p.to(renamed), migrate.Options{}), p.applyGiven(reviewed), p.applyAgain(completed)} {
			p.mustReport(t, "the operator was removed", "Subscription "+p.namespace+"/buoy does not exist", "create a Subscription")
		}
	}
	// As if it had been interrupted before its last step.
	journal := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.journal().Namespace, Name: p.journal().Name}}
	require.NoError(p.t, p.Client().Patch(p.t.Context(), journal, client.RawPatch(types.MergePatchType, []byte(`{"data":{"phase":"Applying"}}`))))
	for _, t := range []migrations.Tool{p.apply(p.to(renamed), migrate.Options{}), p.applyGiven(reviewed), p.rollback} {
		p.mustReport(t, "the operator was removed", "create a Subscription", "delete configmap "+journal.Name)
	}
}

// remove deletes an object and waits until it is gone.
func (p *place) remove(object client.Object) {
	p.t.Helper()
	require.NoError(p.t, p.Client().Delete(p.t.Context(), object))
	cluster.Eventually(p.t, limit, object.GetName()+" to be gone", func(ctx context.Context) error {
		err := p.Client().Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		if err == nil {
			return fmt.Errorf("%T %s exists", object, object.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

func keptMetadata(p *place) {
	ofOLM := "operators.coreos.com/buoy." + p.namespace
	p.patchSubscription(fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/instance":"harbour",%q:""},`+
		`"annotations":{"argocd.argoproj.io/tracking-id":"harbour:operators.coreos.com/Subscription:harbour/buoy","olm.generated-by":"install-gone"}}}`, ofOLM))
	p.applyUntil(subscription.RecreateSubscription, p.to(renamed))
	p.mustSwitch(renamed, "beacon.v2.0.0")
	recreated := &v1alpha1.Subscription{}
	require.NoError(p.t, p.Client().Get(p.t.Context(), client.ObjectKeyFromObject(p.subscription), recreated))
	assert.NotEqual(p.t, p.subscription.UID, recreated.UID, "the Subscription was not recreated")
	if recreated.Labels["app.kubernetes.io/instance"] != "harbour" || recreated.Annotations["argocd.argoproj.io/tracking-id"] == "" {
		p.t.Errorf("labels %v and annotations %v, want those of the former Subscription in them", recreated.Labels, recreated.Annotations)
	}
	if _, has := recreated.Labels[ofOLM]; has || recreated.Annotations["olm.generated-by"] != "" {
		p.t.Errorf("labels %v and annotations %v, want none that OLM has written for the former package", recreated.Labels, recreated.Annotations)
	}
}
