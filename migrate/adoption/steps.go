package adoption

import (
	"fmt"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
)

// The steps of an adoption.
const (
	DeleteSubscription migrate.StepName = "delete-subscription" // delete the Subscription
	DeleteInstallPlans migrate.StepName = "delete-installplans" // delete the InstallPlans that only this operator has
	DeleteVersion      migrate.StepName = "delete-version"      // delete the ClusterServiceVersion
	AwaitOLM           migrate.StepName = "await-olm"           // give OLM the time to carry out an InstallPlan again that it remembers
	AwaitEnd           migrate.StepName = "await-end"           // wait until nothing of the operator runs or has permissions
	AwaitOperator      migrate.StepName = "await-operator"      // wait until the new operator runs
	AwaitDriver        migrate.StepName = "await-driver"        // wait until the new operator has taken the driver over
)

var steps = migrate.StepTable[*Plan]{
	// An operator cannot be given back to OLM in place: OLM does not take a ClusterServiceVersion into a Subscription that did not
	// install it. So the first deletion is the point of no return.
	{Name: DeleteSubscription, Has: isSubscribed, NoReturn: isSubscribed, Does: func(p *Plan) string {
		return fmt.Sprintf("delete Subscription %s, so that OLM installs nothing again; the operator runs on", p.Operator.Subscription.Name)
	}},
	{Name: DeleteInstallPlans, Has: isInstalled, NoReturn: func(p *Plan) bool { return !isSubscribed(p) }, Does: func(*Plan) string {
		return "delete the InstallPlans that only this operator has"
	}},
	{Name: DeleteVersion, Has: isInstalled, Does: func(p *Plan) string {
		return fmt.Sprintf("delete ClusterServiceVersion %s: OLM stops the operator and takes its permissions away; the driver runs on", p.Operator.Version.Name)
	}},
	{Name: AwaitOLM, Has: isInstalled, Does: func(*Plan) string {
		return fmt.Sprintf("give OLM %d seconds: it may carry out an InstallPlan again that it remembers, and then what it installs is deleted again", int(olmDelay.Seconds()))
	}},
	{Name: AwaitEnd, Has: isInstalled, Does: func(*Plan) string {
		return "wait until no Deployment, ReplicaSet or pod of the operator is left, nor any permissions"
	}},
	{Name: AwaitOperator, Does: func(*Plan) string {
		return "wait until the cluster storage operator has started its operator of the driver, in " + drivers.ClusterStorageNamespace
	}},
	{Name: AwaitDriver, Does: func(*Plan) string {
		return "wait until that has taken the driver over, and all the driver's pods are up to date"
	}},
}

// isInstalled reports whether OLM runs an operator, and isSubscribed whether there is a Subscription to it.
func isInstalled(p *Plan) bool  { return p.Operator != nil }
func isSubscribed(p *Plan) bool { return p.Operator != nil && p.Operator.Subscription != nil }

// ListSteps returns the steps of the plan.
func (p *Plan) ListSteps() []migrate.Step { return steps.List(p) }

// Does describes a step of the plan.
func (p *Plan) Does(step migrate.StepName) string { return steps.Does(p, step) }
