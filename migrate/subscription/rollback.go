package subscription

import (
	"fmt"
	"slices"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/migrate"
)

// resolverDelay is the time that OLM gets to finish a resolution that it started before the Subscription was restored. The status does not
// show whether OLM has finished: while OLM resolves, which takes seconds with large catalogs, it does not read the Subscription again, and
// then it writes an InstallPlan for its result.
const resolverDelay = 20 * time.Second

// Back decides on the next step of a rollback. The point of no return is reached when OLM may install the target.
func (s *state) Back() (migrate.Decision, error) {
	p := s.plan
	apply := s.journal.Command(p, "apply")
	if err := s.removed(); err != nil {
		return migrate.Decision{}, err
	}
	switch {
	case s.arrived != nil && s.arrived.Name != p.Installed:
		return migrate.Decision{}, fmt.Errorf("OLM has installed %s, and does not go back to an earlier version: this is beyond the point of no return; continue with `%s`", s.arrived.Name, apply)
	case s.subscription == nil || s.subscription.UID != p.Subject.UID || s.subscription.DeletionTimestamp != nil || p.Installed != "" && s.csv(p.Installed) == nil:
		return migrate.Decision{}, fmt.Errorf("the operator has been removed: this is beyond the point of no return; continue with `%s`", apply)
	}
	for _, installPlan := range s.installPlans {
		if phase := installPlan.Status.Phase; installPlan.Spec.Approved && phase != v1alpha1.InstallPlanPhaseFailed && phase != v1alpha1.InstallPlanPhaseComplete {
			return migrate.Decision{}, fmt.Errorf("InstallPlan %s is approved: this is beyond the point of no return; continue with `%s`", installPlan.Name, apply)
		}
	}
	since := s.resolverSince()
	switch {
	case !s.IsRestored() || string(s.subscription.Spec.InstallPlanApproval) != p.Approval:
		return migrate.Execute(RestoreSource)
	case since.IsZero(), since.After(s.now): // the clock of an interrupted run was ahead
		return migrate.Execute(AwaitResolver)
	case s.now.Sub(since) < resolverDelay:
		return migrate.Wait(AwaitResolver, "OLM to finish; it gets %d seconds", int(resolverDelay.Seconds()))
	case s.idleInstallPlan() != nil && s.idleInstallPlan().DeletionTimestamp != nil:
		return migrate.WaitGone(DeleteInstallPlan, "InstallPlan "+s.idleInstallPlan().Name, s.idleInstallPlan())
	case s.idleInstallPlan() != nil:
		return migrate.Execute(DeleteInstallPlan)
	case s.stalled:
		return migrate.Execute(ResetStatus)
	case s.missing && s.isQuiet():
		return migrate.Execute(ResolveAgain)
	case s.missing:
		return migrate.Wait(migrate.CompleteRollback, "OLM to notice that InstallPlan %s is gone", s.subscription.Status.InstallPlanRef.Name)
	}
	return migrate.Decision{}, nil
}

// IsRestored reports whether the Subscription uses the catalog from before the switch, and is not being deleted.
func (s *state) IsRestored() bool {
	return s.subscription != nil && s.subscription.DeletionTimestamp == nil && choiceOf(s.subscription.Spec) == s.plan.From
}

// resolverSince returns the time when resolverDelay began. It is zero if the Subscription was restored since.
func (s *state) resolverSince() time.Time {
	for _, e := range slices.Backward(s.journal.Entries) {
		switch e.Step {
		case AwaitResolver:
			return e.At
		case RestoreSource, migrate.BeginRollback:
			return time.Time{}
		}
	}
	return time.Time{}
}

// idleInstallPlan returns an InstallPlan for the target that installs nothing: it is unapproved, or has failed. While
// it exists, OLM does not look at the catalog.
func (s *state) idleInstallPlan() *v1alpha1.InstallPlan {
	for _, installPlan := range s.installPlans {
		if !installPlan.Spec.Approved || installPlan.Status.Phase == v1alpha1.InstallPlanPhaseFailed {
			return installPlan
		}
	}
	return nil
}
