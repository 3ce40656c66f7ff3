package switchover

import (
	"context"
	"fmt"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The steps of a rollback.
const (
	Begin    StepName = "begin"
	Restore  StepName = "restore"
	Withdraw StepName = "withdraw"
	End      StepName = "end"
)

// backDoes is what each of them does.
var backDoes = map[StepName]func(p *Plan) string{
	Begin:   func(*Plan) string { return "write into the journal that there is a way back, and it is taken" },
	Restore: func(p *Plan) string { return fmt.Sprintf("subscribe to %s, as before", p.From) },
	Withdraw: func(p *Plan) string {
		return fmt.Sprintf("delete the InstallPlan for %s, which nobody has approved", p.Target)
	},
	End: func(*Plan) string { return "write into the journal that all is as before" },
}

// Rollback takes a switch back, up to the point of no return: the Subscription is as it was then, and OLM has
// installed nothing.
func Rollback(ctx context.Context, c client.Client, p *Plan, o Options) error {
	return run(ctx, c, p, o, (*situation).back)
}

// back says what comes next in a rollback.
func (s *situation) back() (decision, error) {
	p := s.plan
	switch {
	case s.journal == nil || s.journal.State == RolledBack:
		return decision{}, nil
	case s.journal.State == Completed:
		return decision{}, fmt.Errorf("all is done, and %s is installed: that is beyond the point of no return, as OLM does not go back to an earlier version", p.Target)
	case p.Target != p.Installed && s.version(p.Target) != nil:
		return decision{}, fmt.Errorf("OLM has installed %s, and does not go back to an earlier version: this is beyond the point of no return; "+
			"go on with `berth switch apply %s --to %s`", p.Target, p.From.Package, p.To.Source)
	case s.subscription == nil || p.Installed != "" && s.version(p.Installed) == nil:
		return decision{}, fmt.Errorf("the operator has been removed: this is beyond the point of no return; go on with `berth switch apply %s --to %s`",
			p.From.Package, p.To.Source)
	}
	for _, request := range s.requests {
		if phase := request.Status.Phase; request.Spec.Approved && phase != v1alpha1.InstallPlanPhaseFailed && phase != v1alpha1.InstallPlanPhaseComplete {
			return decision{}, fmt.Errorf("InstallPlan %s is approved: this is beyond the point of no return; go on with `berth switch apply %s --to %s`",
				request.Name, p.From.Package, p.To.Source)
		}
	}
	switch now := choiceOf(s.subscription.Spec); {
	case s.journal.State != RollingBack:
		return write(Begin)
	case now != p.From && now != p.To:
		return decision{}, s.changed()
	case now != p.From || string(s.subscription.Spec.InstallPlanApproval) != p.Subscription.Approval:
		return write(Restore)
	case s.idle() != nil:
		return write(Withdraw)
	}
	return write(End)
}

// idle returns an InstallPlan for the target that installs nothing: nobody has approved it, or it has failed.
func (s *situation) idle() *v1alpha1.InstallPlan {
	for i := range s.requests {
		if !s.requests[i].Spec.Approved || s.requests[i].Status.Phase == v1alpha1.InstallPlanPhaseFailed {
			return &s.requests[i]
		}
	}
	return nil
}
