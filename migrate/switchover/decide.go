package switchover

import (
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// decision is what comes next in a switch: a write that belongs to a step, or nothing but to wait until the
// cluster shows something. Without a step all is done.
type decision struct {
	step StepName
	// waits says what for, if there is nothing to write.
	waits string
}

func write(step StepName) (decision, error) { return decision{step: step}, nil }

func wait(step StepName, format string, args ...any) (decision, error) {
	return decision{step, fmt.Sprintf(format, args...)}, nil
}

// decide says what comes next, from what the cluster shows alone. The error says why nothing can: somebody
// has to decide whether to go on or back.
func (s *situation) decide() (decision, error) {
	if err := s.verify(); err != nil {
		return decision{}, err
	}
	if s.journal.open() && s.journal.State == RollingBack {
		return decision{}, fmt.Errorf("it is being rolled back: end that with `%s`", s.plan.command("rollback"))
	}
	next, err := s.next()
	switch writes := err == nil && next.waits == "" && next.step != ""; {
	case writes && !s.journal.open():
		return write(Record)
	case next == decision{} && err == nil && s.journal.open():
		return write(Finish)
	}
	return next, err
}

// next is decide without the journal.
func (s *situation) next() (decision, error) {
	for _, stage := range []func() (decision, error){s.toTurn, s.toInstall, s.toRelease, s.toRun, s.toAdopt} {
		if next, err := stage(); err != nil || next.step != "" {
			return next, err
		}
	}
	return decision{}, nil
}

// toTurn is what is left to do until the Subscription is to the other catalog, where nothing is installed from
// it yet.
func (s *situation) toTurn() (decision, error) {
	if s.plan.Way != Stay {
		return decision{}, nil
	}
	switch {
	case s.subscription == nil:
		return decision{}, s.gone()
	case choiceOf(s.subscription.Spec) == s.plan.To:
		return decision{}, nil
	}
	return write(Turn)
}

// toInstall is what is left to do until the target is installed and its predecessor is gone.
func (s *situation) toInstall() (decision, error) {
	p := s.plan
	if s.subscription != nil && s.subscription.UID != p.Subscription.UID && !s.renewed() {
		return write(Renew) // it is there, and its UID is yet to be written down
	}
	if next, err := s.toClear(); err != nil || next.step != "" {
		return next, err
	}
	target := s.version(p.Target)
	switch {
	case target == nil:
		return s.toApprove()
	case target.Status.Phase != v1alpha1.CSVPhaseSucceeded:
		return wait(Install, "ClusterServiceVersion %s to succeed: it is %s%s%s", p.Target, orPending(target.Status.Phase), because(target.Status.Message), s.retried())
	case p.Installed != p.Target && p.Installed != "" && s.version(p.Installed) != nil:
		return wait(Install, "ClusterServiceVersion %s to be gone", p.Installed)
	case s.subscription == nil:
		return decision{}, s.gone()
	case s.subscription.Status.InstalledCSV != p.Target:
		return wait(Install, "OLM to say in the Subscription that %s is installed", p.Target)
	}
	return decision{}, nil
}

// toClear is what is left to do where the operator was removed, and is there again all the same: OLM may carry out
// an InstallPlan once more that it has carried out some seconds ago, and does so from memory.
func (s *situation) toClear() (decision, error) {
	removed := s.version(s.plan.Installed)
	switch {
	case s.plan.Way != Replace || removed == nil || s.subscription == nil || s.subscription.UID == s.plan.Subscription.UID:
		return decision{}, nil
	case removed.DeletionTimestamp != nil:
		return wait(Remove, "ClusterServiceVersion %s to be gone", removed.Name)
	}
	return write(Remove)
}

// toApprove is what is left to do until OLM may install the target.
func (s *situation) toApprove() (decision, error) {
	if next, err := s.toSubscribe(); err != nil || next.step != "" {
		return next, err
	}
	p, request := s.plan, s.request()
	switch {
	case request == nil && s.stalled:
		return write(Unblock)
	case request == nil && s.named != nil && s.named.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval:
		return wait(Approve, "InstallPlan %s, for %s, to be gone: nobody foretold it, and OLM does not look at the catalog while it is pending; delete it to have OLM choose anew",
			s.named.Name, strings.Join(s.named.Spec.ClusterServiceVersionNames, ", "))
	case request == nil:
		return wait(Approve, "OLM to make an InstallPlan for %s%s", p.Target, because(trouble(s.subscription)))
	case request.Status.Phase == v1alpha1.InstallPlanPhaseFailed:
		return decision{}, fmt.Errorf("OLM could not carry out InstallPlan %s%s; go back with `%s`, or correct that and delete the InstallPlan",
			request.Name, because(request.Status.Message), p.command("rollback"))
	case request.Spec.Approved:
		return wait(Install, "OLM to carry out InstallPlan %s, which is %s%s", request.Name, request.Status.Phase, because(request.Status.Message))
	}
	if request.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		// If it were approved before OLM has written that, OLM could write nothing into it any more.
		return wait(Approve, "OLM to ask for approval of InstallPlan %s", request.Name)
	}
	if err := p.matches(request); err != nil {
		return decision{}, fmt.Errorf("InstallPlan %s %w: approve it if that is right, or go back with `%s`", request.Name, err, p.command("rollback"))
	}
	return write(Approve)
}

// toSubscribe is what is left to do until the Subscription is to the other catalog.
func (s *situation) toSubscribe() (decision, error) {
	p := s.plan
	if s.subscription == nil {
		switch {
		case p.Way != Replace:
			return decision{}, s.gone()
		case len(s.relics) > 0:
			// OLM knows InstallPlans by a number, which begins anew with the Subscription, and takes an old
			// one for what it is to do. And as long as they are there, it may not have noticed that the
			// Subscription is gone: it would install again what is removed.
			return wait(Remove, "InstallPlan %s, of the former Subscription, to be gone", s.relics[0].Name)
		case s.version(p.Installed) == nil:
			return write(Renew)
		case s.version(p.Installed).DeletionTimestamp != nil:
			return wait(Remove, "ClusterServiceVersion %s to be gone", p.Installed)
		}
		return write(Remove)
	}
	now, first := choiceOf(s.subscription.Spec), s.subscription.UID == p.Subscription.UID
	switch {
	case p.Way == Replace && first && now == p.From && s.subscription.Status.InstalledCSV == p.Installed:
		return write(Remove)
	case p.Way == Replace && (first || now == p.From):
		return decision{}, s.changed()
	case s.subscription.Spec.InstallPlanApproval != v1alpha1.ApprovalManual:
		return write(Hold)
	case now == p.From:
		return write(Turn)
	}
	return decision{}, nil
}

func (s *situation) gone() error {
	return fmt.Errorf("Subscription %s is gone; want it as it was, to %s", s.plan.Subscription, s.plan.From)
}

// toRelease is what is left to do until OLM asks for approval as it did before.
func (s *situation) toRelease() (decision, error) {
	if s.plan.Way != Stay && string(s.subscription.Spec.InstallPlanApproval) != s.plan.Subscription.Approval {
		return write(Release)
	}
	return decision{}, nil
}

// toRun is what is left to do until the operator runs.
func (s *situation) toRun() (decision, error) {
	p := s.plan
	for _, d := range s.deployments {
		if why := unfinished(d); why != "" {
			return wait(Operator, "Deployment %s: %s", d.Name, why)
		}
	}
	if p.Driver == nil || !s.mine() {
		return decision{}, nil
	}
	switch {
	case s.holder == nil:
		return wait(Operator, "the operator to take the lock %s", p.Driver.Lock)
	case s.holder.DeletionTimestamp != nil || s.holder.Status.Phase != corev1.PodRunning:
		return wait(Operator, "pod %s, which holds the lock %s, to be gone", s.holder.Name, p.Driver.Lock)
	}
	return decision{}, nil
}

// mine tells whether the target's operator is one that takes the lock of the driver: others need not.
func (s *situation) mine() bool {
	return slices.ContainsFunc(s.deployments, func(d appsv1.Deployment) bool { return d.Name == s.plan.Driver.Operator })
}

// unfinished says what is left to do of a Deployment, if anything.
func unfinished(d appsv1.Deployment) string {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	switch has := d.Status; {
	case has.ObservedGeneration < d.Generation || has.UpdatedReplicas < wanted:
		return fmt.Sprintf("%d of %d pods are up to date", has.UpdatedReplicas, wanted)
	case has.Replicas > wanted:
		return fmt.Sprintf("%d earlier pods are to end", has.Replicas-wanted)
	case has.AvailableReplicas < wanted:
		return fmt.Sprintf("%d of %d pods are available", has.AvailableReplicas, wanted)
	}
	return ""
}

// toAdopt is what is left to do until the driver runs as the operator wants it.
func (s *situation) toAdopt() (decision, error) {
	if !s.plan.createsDriver() {
		return decision{}, nil
	}
	if s.driver == nil {
		return write(Create)
	}
	for _, wanted := range []struct {
		condition string
		status    operatorv1.ConditionStatus
	}{
		{operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionTrue},
		{operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse},
		{operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionFalse},
	} {
		at := slices.IndexFunc(s.driver.Status.Conditions, func(c operatorv1.OperatorCondition) bool { return c.Type == wanted.condition })
		if at < 0 {
			return wait(Adopt, "ClusterCSIDriver %s to have the condition %s", s.driver.Name, wanted.condition)
		}
		if found := s.driver.Status.Conditions[at]; found.Status != wanted.status {
			return wait(Adopt, "ClusterCSIDriver %s to have the condition %s=%s%s", s.driver.Name, wanted.condition, wanted.status, because(found.Message))
		}
	}
	for _, set := range s.nodes {
		has := set.Status
		if wanted := has.DesiredNumberScheduled; has.ObservedGeneration < set.Generation || has.UpdatedNumberScheduled < wanted || has.NumberReady < wanted {
			return wait(Adopt, "DaemonSet %s/%s: %d of %d pods are up to date, %d are ready", set.Namespace, set.Name, has.UpdatedNumberScheduled, wanted, has.NumberReady)
		}
	}
	return decision{}, nil
}

// retried is what OLM says of an InstallPlan that it could not carry out yet.
func (s *situation) retried() string {
	if s.subscription == nil || s.request() == nil || s.request().Status.Message == "" {
		return ""
	}
	return fmt.Sprintf("; OLM says of InstallPlan %s%s", s.request().Name, because(s.request().Status.Message))
}

func orPending(phase v1alpha1.ClusterServiceVersionPhase) string {
	if phase == "" {
		return "new"
	}
	return string(phase)
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r == '\n' }), "; ")
}

// trouble is what OLM says in a Subscription about why it does not go on.
func trouble(s *v1alpha1.Subscription) string {
	var said []string
	for _, c := range s.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" && c.Type != v1alpha1.SubscriptionInstallPlanPending {
			said = append(said, fmt.Sprintf("%s: %s", c.Type, c.Message))
		}
	}
	return strings.Join(said, "; ")
}
