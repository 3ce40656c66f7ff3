package adoption

import (
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/migrate"
)

// olmDelay is the time that OLM gets, after the operator was deleted, to repeat actions that it remembers. OLM repeats them some seconds
// after an installation, and nothing shows whether it will.
const olmDelay = 15 * time.Second

// Next decides on the next step. Each stage returns its first unfinished step.
func (s *state) Next() (migrate.Decision, error) {
	for _, stage := range []func() (migrate.Decision, error){s.leaveOLM, s.endOperator, s.startSuccessor, s.handOver} {
		if next, err := stage(); err != nil || next.Step != "" {
			return next, err
		}
	}
	return migrate.NoStep()
}

// leaveOLM is complete when OLM has no objects of the operator, and remembers none.
func (s *state) leaveOLM() (migrate.Decision, error) {
	switch {
	case s.plan.Operator == nil:
		return migrate.NoStep()
	case isOfExtension(s.plan):
		return s.leaveExtension()
	case s.subscription() != nil && s.subscription().DeletionTimestamp != nil:
		return migrate.WaitGone(DeleteSubscription, "Subscription "+s.subscription().Namespace+"/"+s.subscription().Name, s.subscription())
	case s.subscription() != nil:
		return migrate.Execute(DeleteSubscription)
	}
	if len(s.installPlans) > 0 {
		switch p := s.installPlans[0]; {
		case p.DeletionTimestamp != nil:
			return migrate.WaitGone(DeleteInstallPlans, "InstallPlan "+p.Name, &p)
		case p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling:
			return migrate.Wait(DeleteInstallPlans, "OLM to carry out InstallPlan %s", p.Name)
		}
		return migrate.Execute(DeleteInstallPlans)
	}
	if len(s.versions) > 0 {
		if v := s.versions[0]; v.DeletionTimestamp != nil {
			return migrate.WaitGone(DeleteVersion, "ClusterServiceVersion "+v.Name, &v)
		}
		return migrate.Execute(DeleteVersion)
	}
	return s.awaitOLM("finish work that it remembers")
}

// leaveExtension is complete when the ClusterExtension is gone, and has taken no API with it.
func (s *state) leaveExtension() (migrate.Decision, error) {
	name := s.plan.Operator.Extension.Name
	switch e := s.extension; {
	case e == nil:
	case e.GetDeletionTimestamp() == nil && !e.isHeld():
		return migrate.Execute(AddHandOverFinalizer)
	case e.GetDeletionTimestamp() == nil:
		return migrate.Execute(DeleteExtension)
	case e.isOrphaning():
		return migrate.Wait(DeleteExtension, "the garbage collector to orphan what ClusterExtension %s has installed", name)
	case len(e.ofOLM()) > 0:
		return migrate.Wait(DeleteExtension, "OLM to notice that ClusterExtension %s is deleted, and to remove its finalizers %s", name, strings.Join(e.ofOLM(), ", "))
	}
	if len(s.objectSets) > 0 {
		if set := s.objectSets[0]; set.DeletionTimestamp != nil {
			return migrate.WaitGone(DeleteObjectSets, "ClusterObjectSet "+set.Name, &set)
		}
		return migrate.Execute(DeleteObjectSets)
	}
	if next, err := s.awaitOLM("finish applying ClusterExtension " + name); next.Step != "" {
		return next, err
	}
	switch e := s.extension; {
	case len(s.ownedAPIs) > 0:
		return migrate.Execute(KeepAPIs)
	case e != nil && e.isHeld():
		return migrate.Execute(RemoveHandOverFinalizer)
	case e != nil:
		return migrate.Wait(RemoveHandOverFinalizer, "ClusterExtension %s to be gone", name)
	}
	return migrate.NoStep()
}

// awaitOLM is complete when olmDelay has passed since something was deleted.
func (s *state) awaitOLM(what string) (migrate.Decision, error) {
	switch since := s.olmSince(); {
	case !s.journal.IsOpen(): // somebody else has removed the operator: the migration has deleted and recorded nothing
		return migrate.NoStep()
	case since.IsZero(), since.After(s.now): // the clock of an interrupted run was ahead
		return migrate.Execute(AwaitOLM)
	case s.now.Sub(since) < olmDelay:
		return migrate.Wait(AwaitOLM, "OLM to %s; it gets %d seconds", what, int(olmDelay.Seconds()))
	}
	return migrate.NoStep()
}

// olmSince returns the time when olmDelay began. It is zero if something was deleted since.
func (s *state) olmSince() time.Time {
	for _, e := range slices.Backward(s.journal.Entries) {
		switch e.Step {
		case AwaitOLM:
			return e.At
		case DeleteSubscription, DeleteInstallPlans, DeleteVersion, DeleteExtension, DeleteObjectSets, migrate.RecordPlan:
			return time.Time{}
		}
	}
	return time.Time{}
}

// endOperator is complete when no pod of the operator is left, and no permissions.
func (s *state) endOperator() (migrate.Decision, error) {
	if at := slices.IndexFunc(s.installed, isDeployment); at >= 0 {
		if d := s.installed[at]; d.DeletionTimestamp != nil {
			return migrate.WaitGone(AwaitEnd, "Deployment "+d.Namespace+"/"+d.Name, &d)
		}
		return migrate.Execute(DeleteOperator)
	}
	if s.left != "" {
		return migrate.Wait(AwaitEnd, "%s to be gone", s.left)
	}
	if len(s.installed) > 0 {
		if i := s.installed[0]; i.DeletionTimestamp != nil {
			return migrate.WaitGone(DeleteInstalled, named(i.Kind, i.Namespace, i.Name), &i)
		}
		return migrate.Execute(DeleteInstalled)
	}
	for _, p := range s.proven {
		if p.Kind == predecessor.Version && s.plan.Operator != nil && p.Namespace == s.plan.Operator.Namespace {
			return migrate.Wait(AwaitEnd, "OLM to delete ClusterRoleBinding %s, which gives the operator permissions", p.Binding)
		}
	}
	return migrate.NoStep()
}

func isDeployment(object metav1.PartialObjectMetadata) bool {
	return object.Kind == deploymentKind.Kind
}

// startSuccessor is complete when the cluster storage operator has started its own operator of the driver.
func (s *state) startSuccessor() (migrate.Decision, error) {
	name := drivers.ClusterStorageNamespace + "/" + s.driver.Operator.Name
	switch {
	case s.successor == nil:
		return migrate.Wait(AwaitOperator, "the cluster storage operator to create Deployment %s%s", name, s.reported("Degraded"))
	case s.successor.Status.AvailableReplicas == 0:
		return migrate.Wait(AwaitOperator, "a pod of Deployment %s to be available", name)
	case s.custom == nil:
		return migrate.Wait(AwaitOperator, "the cluster storage operator to create ClusterCSIDriver %s", s.driver.CSIName)
	}
	return migrate.NoStep()
}

// handOver is complete when the new operator has taken the driver over, and all of the driver's pods are up to date.
func (s *state) handOver() (migrate.Decision, error) {
	for _, want := range []struct {
		conditionType string
		status        operatorv1.ConditionStatus
	}{{"CRAvailable", operatorv1.ConditionTrue}, {"CRProgressing", operatorv1.ConditionFalse}, {"CRDegraded", operatorv1.ConditionFalse}} {
		found := s.condition(want.conditionType)
		if found == nil || found.Status != want.status {
			return migrate.Wait(AwaitDriver, "condition %sCSIDriverOperator%s of Storage cluster to be %s%s", s.driver.ConditionPrefix, want.conditionType, want.status, s.reported(want.conditionType))
		}
	}
	for _, set := range s.sets {
		if status := set.Status; !rollout.IsComplete(&set) && !rollout.IsStable(&set) {
			return migrate.Wait(AwaitDriver, "DaemonSet %s/%s: %d of %d pods are up to date, %d are ready", set.Namespace, set.Name,
				status.UpdatedNumberScheduled, status.DesiredNumberScheduled, status.NumberReady)
		}
	}
	return migrate.NoStep()
}

// condition returns a condition of the driver that the cluster storage operator reports, or nil.
func (s *state) condition(suffix string) *operatorv1.OperatorCondition {
	return v1helpers.FindOperatorCondition(s.conditions, s.driver.ConditionPrefix+"CSIDriverOperator"+suffix)
}

// reported returns the message of a condition, or "".
func (s *state) reported(suffix string) string {
	if found := s.condition(suffix); found != nil && found.Message != "" {
		return ": " + strings.Join(strings.FieldsFunc(found.Message, func(r rune) bool { return r == '\n' }), "; ")
	}
	return ""
}

// subscription returns the Subscription of the plan, or nil.
func (s *state) subscription() *v1alpha1.Subscription {
	o := s.plan.Operator
	for i := range s.subscriptions {
		if o.Subscription != nil && s.subscriptions[i].UID == o.Subscription.UID {
			return &s.subscriptions[i]
		}
	}
	return nil
}

// Holds reports whether OLM still runs no operator of the driver.
func (s *state) Holds() (bool, error) {
	return len(s.proven) == 0 && len(s.versions) == 0 && len(s.subscriptions) == 0 && s.extension == nil, nil
}

// Back decides on the next step of a rollback. Before the Subscription is deleted, nothing has changed but the journal.
func (s *state) Back() (migrate.Decision, error) {
	if e := s.extension; e != nil && e.GetDeletionTimestamp() == nil && e.isHeld() {
		return migrate.Execute(RemoveHandOverFinalizer)
	}
	if !s.IsRestored() {
		return migrate.Decision{}, fmt.Errorf("OLM has no Subscription to the operator and no ClusterExtension of it any more, and does not take an operator back that it did not install: this is beyond the point of no return. "+
			"The driver runs on; continue with `%s`", s.journal.Command(s.plan, "resume"))
	}
	return migrate.NoStep()
}

// IsRestored reports whether OLM runs the operator as before.
func (s *state) IsRestored() bool {
	o := s.plan.Operator
	switch {
	case o == nil:
		return true
	case o.Extension != nil:
		e := s.extension
		return e != nil && e.GetUID() == o.Extension.UID && e.GetDeletionTimestamp() == nil && !e.isHeld()
	}
	version := slices.ContainsFunc(s.versions, func(v v1alpha1.ClusterServiceVersion) bool {
		return v.UID == o.Version.UID && v.DeletionTimestamp == nil
	})
	return version && (o.Subscription == nil || s.subscription() != nil && s.subscription().DeletionTimestamp == nil)
}
