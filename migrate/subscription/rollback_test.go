package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

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

func clockAhead(p *place) {
	rollBackToWait(p)
	journal := &corev1.ConfigMap{}
	require.NoError(p.t, p.Client().Get(p.t.Context(), p.journal(), journal))
	entries := strings.Split(journal.Data["log"], "\n")
	for i := range entries {
		if _, step, found := strings.Cut(entries[i], " "); found {
			entries[i] = "2999-12-31T23:59:59Z " + step
		}
	}
	journal.Data["log"] = strings.Join(entries, "\n")
	require.NoError(p.t, p.Client().Update(p.t.Context(), journal))
	p.mustRollBack()
}

func stalledRollback(p *place) {
	rollBackToWait(p)
	// OLM notices that an InstallPlan is gone only if it has said before that it waits for it.
	cluster.Eventually(p.t, limit, "OLM to say that an InstallPlan is pending", func(ctx context.Context) error {
		waiting := &v1alpha1.Subscription{}
		if err := p.Client().Get(ctx, client.ObjectKeyFromObject(p.subscription), waiting); err != nil {
			return err
		}
		if c := waiting.Status.GetCondition(v1alpha1.SubscriptionInstallPlanPending); c.Status != corev1.ConditionTrue {
			return fmt.Errorf("its condition %s is %s", c.Type, c.Status)
		}
		return nil
	})
	require.NoError(p.t, p.Client().Delete(p.t.Context(), p.unapproved()))
	cluster.Eventually(p.t, limit, "OLM to notice the deletion", p.isRestored)
	p.stall()
	p.mustRollBack()
}

// mustRollBack runs a rollback to its end.
func (p *place) mustRollBack() {
	p.t.Helper()
	p.Run(p.rollback)
	assert.NoError(p.t, p.isRestored(p.t.Context()))
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
	p.patchSubscription(`{"metadata":{"labels":{"app.kubernetes.io/instance":"harbour"}}}`)
	for range 2 {
		applyToApproval(p)
		p.mustRollBack()
	}
	restored := &v1alpha1.Subscription{}
	require.NoError(p.t, p.Client().Get(p.t.Context(), client.ObjectKeyFromObject(p.subscription), restored))
	if restored.UID != p.subscription.UID || restored.Labels["app.kubernetes.io/instance"] != "harbour" {
		p.t.Errorf("the Subscription has UID %s and labels %v, want %s as before, and its label", restored.UID, restored.Labels, p.subscription.UID)
	}
	p.mustSwitch(second, "buoy.v1.1.0")
}

func noRollback(p *place) {
	p.Run(p.apply(p.to(second), migrate.Options{}))
	p.mustLeaveAsIs(func() {
		assert.ErrorContains(p.t, p.rollback(p.t.Context(), p.Config()), "beyond the point of no return")
	})
}
