package adoption

import (
	"fmt"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
)

// The steps of an adoption.
const (
	DeleteSubscription migrate.StepName = "delete-subscription"
	DeleteInstallPlans migrate.StepName = "delete-installplans"
	DeleteVersion      migrate.StepName = "delete-version"
	AwaitOLM           migrate.StepName = "await-olm"
	AwaitEnd           migrate.StepName = "await-end"
	AwaitOperator      migrate.StepName = "await-operator"
	AwaitDriver        migrate.StepName = "await-driver"
)

// ListSteps returns the steps of the plan.
func (p *Plan) ListSteps() []migrate.Step {
	var found []migrate.Step
	for _, name := range []migrate.StepName{DeleteSubscription, DeleteInstallPlans, DeleteVersion, AwaitOLM, AwaitEnd, AwaitOperator, AwaitDriver} {
		if does := p.Does(name); does != "" {
			// An operator cannot be given back to OLM in place: OLM does not take a ClusterServiceVersion into a Subscription that
			// did not install it.
			found = append(found, migrate.Step{Name: name, Does: does, NoReturn: name == p.noReturn()})
		}
	}
	return found
}

// noReturn is the first step that cannot be rolled back, if there is one.
func (p *Plan) noReturn() migrate.StepName {
	switch {
	case p.Operator == nil:
		return ""
	case p.Operator.Subscription == nil:
		return DeleteInstallPlans
	}
	return DeleteSubscription
}

// Does describes a step of the plan.
func (p *Plan) Does(step migrate.StepName) string {
	switch o := p.Operator; {
	case step == AwaitOperator:
		return "wait until the cluster storage operator has started its operator of the driver, in " + drivers.ClusterStorageNamespace
	case step == AwaitDriver:
		return "wait until that has taken the driver over, and all the driver's pods are up to date"
	case o == nil || step == DeleteSubscription && o.Subscription == nil:
		return ""
	case step == DeleteSubscription:
		return fmt.Sprintf("delete Subscription %s, so that OLM installs nothing again; the operator runs on", o.Subscription.Name)
	case step == DeleteInstallPlans:
		return "delete the InstallPlans that only this operator has"
	case step == DeleteVersion:
		return fmt.Sprintf("delete ClusterServiceVersion %s: OLM stops the operator and takes its permissions away; the driver runs on", o.Version.Name)
	case step == AwaitOLM:
		return fmt.Sprintf("give OLM %d seconds: it may carry out an InstallPlan again that it remembers, and then what it installs is deleted again", int(olmDelay.Seconds()))
	case step == AwaitEnd:
		return "wait until no Deployment, ReplicaSet or pod of the operator is left, nor any permissions"
	}
	return ""
}
