package subscription

import (
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/migrate"
)

// Next decides on the next step. Each stage returns its first unfinished step.
func (s *state) Next() (migrate.Decision, error) {
	if err := s.removed(); err != nil {
		return migrate.Decision{}, err
	}
	for _, stage := range []func() (migrate.Decision, error){
		s.switchWithoutInstall, s.installTarget, s.restoreApprovalMode, s.resumeUpdates, s.startOperator, s.adoptDriver,
	} {
		if next, err := stage(); err != nil || next.Step != "" {
			return next, err
		}
	}
	return migrate.NoStep()
}

// switchWithoutInstall is complete when the Subscription uses the other catalog. It does nothing if there is something to install.
func (s *state) switchWithoutInstall() (migrate.Decision, error) {
	switch {
	case s.plan.Strategy != Keep:
		return migrate.NoStep()
	case choiceOf(s.subscription.Spec) == s.plan.To:
		return migrate.NoStep()
	}
	return migrate.Execute(SwitchSource)
}

// installTarget is complete when the target is installed and its predecessor is gone.
func (s *state) installTarget() (migrate.Decision, error) {
	p := s.plan
	if s.subscription != nil && s.subscription.UID != p.Subject.UID && !s.isRecreated() {
		return migrate.Execute(RecreateSubscription) // the new Subscription exists, and its UID is not recorded yet
	}
	if next, err := s.removeAgain(); err != nil || next.Step != "" {
		return next, err
	}
	switch arrived := s.arrived; {
	case arrived == nil:
		return s.approveInstallPlan()
	case arrived.Status.Phase != v1alpha1.CSVPhaseSucceeded:
		return migrate.Wait(Install, "ClusterServiceVersion %s to succeed: its phase is %s%s%s", arrived.Name, phaseOf(arrived), detail(arrived.Status.Message), s.retryDetail())
	case p.Installed != arrived.Name && p.Installed != "" && s.csv(p.Installed) != nil:
		return migrate.WaitGone(Install, "ClusterServiceVersion "+p.Installed, s.csv(p.Installed))
	case s.subscription.Status.InstalledCSV != arrived.Name:
		return migrate.Wait(Install, "the status of the Subscription to show that %s is installed", arrived.Name)
	}
	return migrate.NoStep()
}

// removeAgain is complete when the removed operator has not come back. Some seconds after OLM has executed an InstallPlan, it may execute
// it a second time from its cache, and so install the operator again.
func (s *state) removeAgain() (migrate.Decision, error) {
	removed := s.csv(s.plan.Installed)
	switch {
	case s.plan.Strategy != Replace || removed == nil || s.subscription == nil || s.subscription.UID == s.plan.Subject.UID:
		return migrate.NoStep()
	case removed.DeletionTimestamp != nil:
		return migrate.WaitGone(RemoveOperator, "ClusterServiceVersion "+removed.Name, removed)
	}
	return migrate.Execute(RemoveOperator)
}

// approveInstallPlan is complete when OLM may install the target.
func (s *state) approveInstallPlan() (migrate.Decision, error) {
	if s.plan.Strategy == Keep {
		return migrate.Wait(AwaitOperator, "ClusterServiceVersion %s, or one that OLM updates it to, to exist", s.plan.Target)
	}
	if next, err := s.subscribe(); err != nil || next.Step != "" {
		return next, err
	}
	p, installPlan := s.plan, s.targetInstallPlan()
	switch {
	case installPlan == nil && s.stalled:
		return migrate.Execute(ResetStatus)
	case installPlan == nil && s.current != nil && s.current.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval:
		return migrate.Wait(Approve, "InstallPlan %s, for %s, to be deleted: it is not part of the plan, and OLM does not look at the catalog while it is pending",
			s.current.Name, strings.Join(s.current.Spec.ClusterServiceVersionNames, ", "))
	case installPlan == nil && s.isQuiet():
		return migrate.Execute(ResolveAgain)
	case installPlan == nil:
		return migrate.Wait(Approve, "OLM to create an InstallPlan for %s%s", p.Target, detail(conditionsOf(s.subscription)))
	case installPlan.Status.Phase == v1alpha1.InstallPlanPhaseFailed:
		return migrate.Decision{}, fmt.Errorf("InstallPlan %s has failed%s; roll back with `%s`, or fix the cause and delete the InstallPlan",
			installPlan.Name, detail(installPlan.Status.Message), s.journal.Command(p, "rollback"))
	case installPlan.Spec.Approved:
		return migrate.Wait(Install, "OLM to execute InstallPlan %s, whose phase is %s%s", installPlan.Name, installPlan.Status.Phase, detail(installPlan.Status.Message))
	}
	if installPlan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		// OLM could not write this phase any more if the InstallPlan were approved before.
		return migrate.Wait(Approve, "OLM to ask for approval of InstallPlan %s", installPlan.Name)
	}
	if err := p.matches(installPlan); err != nil {
		return migrate.Decision{}, fmt.Errorf("InstallPlan %s %w: approve it yourself if that is intended, or roll back with `%s`", installPlan.Name, err, s.journal.Command(p, "rollback"))
	}
	return migrate.Execute(Approve)
}

// subscribe is complete when the Subscription uses the other catalog, and OLM asks for approval.
func (s *state) subscribe() (migrate.Decision, error) {
	p := s.plan
	if s.subscription == nil {
		return s.replaceSubscription()
	}
	now, original := choiceOf(s.subscription.Spec), s.subscription.UID == p.Subject.UID
	switch {
	case s.subscription.DeletionTimestamp != nil:
		return migrate.WaitGone(RemoveOperator, "Subscription "+p.Subject.String(), s.subscription)
	case p.Strategy == Replace && original && now == p.From && s.subscription.Status.InstalledCSV == p.Installed:
		return migrate.Execute(RemoveOperator)
	case p.Strategy == Replace && (original || now != p.To):
		return migrate.Decision{}, s.changedError()
	case s.subscription.Spec.InstallPlanApproval != v1alpha1.ApprovalManual:
		return migrate.Execute(RequireApproval)
	case now != p.To:
		return migrate.Execute(SwitchSource)
	}
	return migrate.NoStep()
}

// replaceSubscription returns the next step while the Subscription does not exist.
func (s *state) replaceSubscription() (migrate.Decision, error) {
	p, installed := s.plan, s.csv(s.plan.Installed)
	switch {
	case len(s.leftovers) > 0:
		// OLM identifies InstallPlans by a generation that starts again with the new Subscription, so it would mistake a leftover
		// InstallPlan for a new one. And as long as a leftover exists, OLM may not have observed that the Subscription is gone, and would
		// install the removed operator again.
		return migrate.WaitGone(RemoveOperator, fmt.Sprintf("InstallPlan %s, left over from the deleted Subscription,", s.leftovers[0].Name), s.leftovers[0])
	case installed == nil:
		return migrate.Execute(RecreateSubscription)
	case installed.DeletionTimestamp != nil:
		return migrate.WaitGone(RemoveOperator, "ClusterServiceVersion "+p.Installed, installed)
	}
	return migrate.Execute(RemoveOperator)
}

// quietPeriod is how long OLM gets to create an InstallPlan before the switch makes it resolve again. OLM resolves when something changes.
// After an error it waits, for up to 17 minutes if it fails again and again (its queue's rate limiter), and it misses a change that comes
// while its cache is stale.
const quietPeriod = 30 * time.Second

// isQuiet reports whether neither OLM nor this switch has done anything for a while.
func (s *state) isQuiet() bool {
	last := s.subscription.CreationTimestamp.Time
	if updated := s.subscription.Status.LastUpdated.Time; updated.After(last) {
		last = updated
	}
	if entries := s.journal.Entries; len(entries) > 0 && entries[len(entries)-1].At.After(last) {
		last = entries[len(entries)-1].At
	}
	return s.now.Sub(last) > quietPeriod
}

// restoreApprovalMode is complete when OLM asks for approval only if it did before.
func (s *state) restoreApprovalMode() (migrate.Decision, error) {
	if s.plan.Strategy != Keep && string(s.subscription.Spec.InstallPlanApproval) != s.plan.Approval {
		return migrate.Execute(RestoreApproval)
	}
	return migrate.NoStep()
}

// startOperator is complete when the operator runs, and holds its lock.
func (s *state) startOperator() (migrate.Decision, error) {
	p := s.plan
	for _, d := range s.deployments {
		if missing := missingPods(d); missing != "" {
			return migrate.Wait(AwaitOperator, "Deployment %s: %s", d.Name, missing)
		}
	}
	takesLock := func(d appsv1.Deployment) bool { return d.Name == p.Driver.Operator }
	switch {
	case p.Driver == nil || !slices.ContainsFunc(s.deployments, takesLock): // operators of other vendors need not take the lock
		return migrate.NoStep()
	case s.lockHolder == nil:
		return migrate.Wait(AwaitOperator, "the operator to take the lock %s", p.Driver.Lock)
	case s.lockHolder.DeletionTimestamp != nil || s.lockHolder.Status.Phase != corev1.PodRunning:
		return migrate.Wait(AwaitOperator, "pod %s, which holds the lock %s, to be gone", s.lockHolder.Name, p.Driver.Lock)
	}
	return migrate.NoStep()
}

// missingPods says which pods of a Deployment are missing or out of date; "" if none are.
func missingPods(d appsv1.Deployment) string {
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	switch status := d.Status; {
	case status.ObservedGeneration < d.Generation || status.UpdatedReplicas < replicas:
		return fmt.Sprintf("%d of %d pods are up to date", status.UpdatedReplicas, replicas)
	case status.Replicas > replicas:
		return fmt.Sprintf("%d old pods have to terminate", status.Replicas-replicas)
	case status.AvailableReplicas < replicas:
		return fmt.Sprintf("%d of %d pods are available", status.AvailableReplicas, replicas)
	}
	return ""
}

// adoptDriver is complete when the operator has adopted the driver, and all its pods are up to date, or were so on all nodes that were
// ready, as the operator has recorded.
func (s *state) adoptDriver() (migrate.Decision, error) {
	if !s.plan.createsDriver() {
		return migrate.NoStep()
	}
	if s.driver == nil {
		return migrate.Execute(CreateDriver)
	}
	for _, want := range []operatorv1.OperatorCondition{
		{Type: operatorv1.OperatorStatusTypeAvailable, Status: operatorv1.ConditionTrue},
		{Type: operatorv1.OperatorStatusTypeProgressing, Status: operatorv1.ConditionFalse},
		{Type: operatorv1.OperatorStatusTypeDegraded, Status: operatorv1.ConditionFalse},
	} {
		at := slices.IndexFunc(s.driver.Status.Conditions, func(c operatorv1.OperatorCondition) bool { return c.Type == want.Type })
		if at < 0 {
			return migrate.Wait(AwaitDriver, "ClusterCSIDriver %s to have the condition %s", s.driver.Name, want.Type)
		}
		if found := s.driver.Status.Conditions[at]; found.Status != want.Status {
			return migrate.Wait(AwaitDriver, "ClusterCSIDriver %s to have the condition %s=%s%s", s.driver.Name, want.Type, want.Status, detail(found.Message))
		}
	}
	for _, set := range s.daemonSets {
		if status := set.Status; !rollout.IsComplete(&set) && !rollout.IsStable(&set) {
			return migrate.Wait(AwaitDriver, "DaemonSet %s/%s: %d of %d pods are up to date, %d are ready", set.Namespace, set.Name,
				status.UpdatedNumberScheduled, status.DesiredNumberScheduled, status.NumberReady)
		}
	}
	return migrate.NoStep()
}

// retryDetail returns the message of an InstallPlan that OLM could not execute yet.
func (s *state) retryDetail() string {
	if s.subscription == nil || s.targetInstallPlan() == nil || s.targetInstallPlan().Status.Message == "" {
		return ""
	}
	return fmt.Sprintf("; the status of InstallPlan %s%s", s.targetInstallPlan().Name, detail(s.targetInstallPlan().Status.Message))
}

func phaseOf(csv *v1alpha1.ClusterServiceVersion) string {
	if csv.Status.Phase == "" {
		return "not set"
	}
	return string(csv.Status.Phase)
}

// detail returns a message with a colon before it, to append to a sentence; "" if the message is empty.
func detail(message string) string {
	if message == "" {
		return ""
	}
	return ": " + strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r == '\n' }), "; ")
}

// conditionsOf returns the conditions of a Subscription that say why OLM does not continue.
func conditionsOf(s *v1alpha1.Subscription) string {
	var conditions []string
	for _, c := range s.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" && c.Type != v1alpha1.SubscriptionInstallPlanPending {
			conditions = append(conditions, fmt.Sprintf("%s: %s", c.Type, c.Message))
		}
	}
	return strings.Join(conditions, "; ")
}
