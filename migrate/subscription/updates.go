package subscription

import (
	"context"
	"slices"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/subscription"
)

// resumeUpdates is complete when OLM updates to later versions without approval, if it did before. While approval is Manual, OLM may
// create an InstallPlan for a version after the target. OLM never approves that InstallPlan, even once approval is Automatic again, and
// does not read the catalog while it is pending. The switch approves nothing that is not part of the plan: it deletes that InstallPlan,
// and OLM creates another one under the present approval.
func (s *state) resumeUpdates() (migrate.Decision, error) {
	switch {
	case s.plan.Strategy == Keep || s.asks:
		return migrate.NoStep()
	case s.isAskedForUpdate() && s.current.DeletionTimestamp != nil:
		return migrate.WaitGone(DiscardInstallPlan, "InstallPlan "+s.current.Name, s.current)
	case s.isAskedForUpdate():
		return migrate.Execute(DiscardInstallPlan)
	case s.stalled:
		return migrate.Execute(ResetStatus)
	case s.missing && s.isQuiet():
		return migrate.Execute(ResolveAgain)
	case s.missing:
		return migrate.Wait(AwaitUpdates, "OLM to notice that InstallPlan %s is gone", s.subscription.Status.InstallPlanRef.Name)
	case s.mayAskForUpdate():
		return migrate.Wait(AwaitUpdates, "OLM to update to a later version; it gets %d seconds", int(resolverDelay.Seconds()))
	}
	return migrate.NoStep()
}

// isAskedForUpdate reports whether the Subscription refers to an InstallPlan that is for something after the target, and requires
// approval.
func (s *state) isAskedForUpdate() bool {
	return s.current != nil && s.targetInstallPlan() == nil && !s.current.Spec.Approved && s.current.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval
}

// mayAskForUpdate reports whether OLM may still create an InstallPlan that requires approval, because it was resolving while approval was
// restored. OLM has decided once the Subscription shows a version after the target. Without a later version in the channel, there is
// nothing to decide.
func (s *state) mayAskForUpdate() bool {
	if own := s.plan.outcome(); own == nil || len(own.Then) == 0 {
		return false
	}
	if current := s.subscription.Status.CurrentCSV; current != "" && current != s.plan.Target {
		return false
	}
	elapsed := s.now.Sub(s.approvalRestored())
	return elapsed >= 0 && elapsed < resolverDelay // the clock of an interrupted run may have been ahead
}

// approvalRestored returns when this switch has restored approval, or the zero time.
func (s *state) approvalRestored() time.Time {
	for _, e := range slices.Backward(s.journal.Entries) {
		if e.Step == RestoreApproval {
			return e.At
		}
	}
	return time.Time{}
}

// readApproval finds out whether OLM asks for approval. OLM does so for all Subscriptions of a namespace if one of them requires it.
func (s *state) readApproval(ctx context.Context, config *rest.Config) error {
	c, err := subscription.Client(config)
	if err != nil {
		return err
	}
	return subscription.Each(ctx, c, s.plan.Subject.Namespace, func(other v1alpha1.Subscription) error {
		s.asks = s.asks || other.Spec != nil && other.Spec.InstallPlanApproval == v1alpha1.ApprovalManual
		return nil
	})
}

// discard deletes the InstallPlan that asks for approval, unless it has changed since it was observed.
func (s *state) discard(ctx context.Context, c client.Client) error {
	return c.Delete(ctx, s.current, unchanged(s.current))
}
