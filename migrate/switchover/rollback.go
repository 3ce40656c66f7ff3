package switchover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// The steps of a rollback.
const (
	Begin    StepName = "begin"
	Restore  StepName = "restore"
	Settle   StepName = "settle"
	Withdraw StepName = "withdraw"
	End      StepName = "end"
)

// settling is for how long OLM may go on with what it has begun before it was told otherwise. It shows nowhere
// whether it does: while it looks for what to install, which takes seconds where catalogs are large, it reads the
// Subscription no more, and writes then what it has found.
const settling = 20 * time.Second

// backDoes is what each of them does.
var backDoes = map[StepName]func(p *Plan) string{
	Begin:   func(*Plan) string { return "write into the journal that there is a way back, and it is taken" },
	Restore: func(p *Plan) string { return fmt.Sprintf("subscribe to %s, as before", p.From) },
	Settle:  func(*Plan) string { return "give OLM the time to end what it has begun" },
	Withdraw: func(p *Plan) string {
		return fmt.Sprintf("delete the InstallPlan for %s, which nobody has approved", p.Target)
	},
	End: func(*Plan) string { return "write into the journal that all is as before" },
}

// Rollback takes a switch back, up to the point of no return: the Subscription is as it was then, and OLM has
// installed nothing.
func Rollback(ctx context.Context, cluster Cluster, p *Plan, o Options) error {
	return run(ctx, cluster, p, o, (*situation).back)
}

// back says what comes next in a rollback.
func (s *situation) back() (decision, error) {
	p := s.plan
	switch {
	case s.journal == nil:
		return decision{}, nil
	case s.journal.State == RolledBack && (s.subscription == nil || choiceOf(s.subscription.Spec) != p.From):
		return decision{}, fmt.Errorf("this switch was rolled back already, and since then somebody has changed Subscription %s: want it to %s; "+
			"there is nothing to take back", p.Subscription, p.From)
	case s.journal.State == RolledBack:
		return decision{}, nil
	case s.journal.State == Completed:
		return decision{}, fmt.Errorf("all is done, and %s is installed: that is beyond the point of no return, as OLM does not go back to an earlier version", p.Target)
	}
	if err := s.verify(); err != nil {
		return decision{}, err
	}
	switch {
	case p.Target != p.Installed && s.version(p.Target) != nil:
		return decision{}, fmt.Errorf("OLM has installed %s, and does not go back to an earlier version: this is beyond the point of no return; go on with `%s`",
			p.Target, p.command("apply"))
	case s.subscription == nil || s.subscription.UID != p.Subscription.UID || p.Installed != "" && s.version(p.Installed) == nil:
		return decision{}, fmt.Errorf("the operator has been removed: this is beyond the point of no return; go on with `%s`", p.command("apply"))
	}
	for _, request := range s.requests {
		if phase := request.Status.Phase; request.Spec.Approved && phase != v1alpha1.InstallPlanPhaseFailed && phase != v1alpha1.InstallPlanPhaseComplete {
			return decision{}, fmt.Errorf("InstallPlan %s is approved: this is beyond the point of no return; go on with `%s`", request.Name, p.command("apply"))
		}
	}
	switch now := choiceOf(s.subscription.Spec); {
	case s.journal.State != RollingBack:
		return write(Begin)
	case now != p.From || string(s.subscription.Spec.InstallPlanApproval) != p.Subscription.Approval:
		return write(Restore)
	case s.journal.settlingSince().IsZero(), s.journal.settlingSince().After(s.now): // by the clock of somebody who was stopped
		return write(Settle)
	case s.now.Sub(s.journal.settlingSince()) < settling:
		return wait(Settle, "OLM to end what it has begun, for which it gets %d seconds", int(settling.Seconds()))
	case s.idle() != nil:
		return write(Withdraw)
	case s.stalled:
		return write(Unblock)
	case s.missing:
		return wait(End, "OLM to notice that InstallPlan %s is gone", s.subscription.Status.InstallPlanRef.Name)
	}
	return write(End)
}

// settlingSince returns when OLM was given the time to end what it has begun, or zero if it was not since it was told
// otherwise.
func (j *Journal) settlingSince() time.Time {
	for _, e := range slices.Backward(j.Entries) {
		at, step, _ := strings.Cut(e, " ")
		switch StepName(step) {
		case Settle:
			since, err := time.Parse(time.RFC3339, at)
			if err != nil {
				return time.Time{} // somebody has changed it
			}
			return since
		case Restore, Begin:
			return time.Time{}
		}
	}
	return time.Time{}
}

// idle returns an InstallPlan for the target that installs nothing: nobody has approved it, or it has failed.
func (s *situation) idle() *v1alpha1.InstallPlan {
	for _, request := range s.requests {
		if !request.Spec.Approved || request.Status.Phase == v1alpha1.InstallPlanPhaseFailed {
			return request
		}
	}
	return nil
}
