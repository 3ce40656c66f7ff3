package adoption

import (
	"fmt"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
)

// The steps of an adoption.
const (
	DeleteSubscription      migrate.StepName = "delete-subscription" // delete the Subscription
	DeleteInstallPlans      migrate.StepName = "delete-installplans" // delete the InstallPlans that only this operator has
	DeleteVersion           migrate.StepName = "delete-version"      // delete the ClusterServiceVersion
	AddHandOverFinalizer    migrate.StepName = "add-finalizer"       // add a finalizer to the ClusterExtension
	DeleteExtension         migrate.StepName = "delete-extension"    // delete the ClusterExtension, and orphan its installed objects
	DeleteObjectSets        migrate.StepName = "delete-objectsets"   // delete its ClusterObjectSets, and orphan their objects
	AwaitOLM                migrate.StepName = "await-olm"           // give OLM time to execute a remembered InstallPlan again
	KeepAPIs                migrate.StepName = "keep-apis"           // orphan APIs that OLM owns again
	RemoveHandOverFinalizer migrate.StepName = "remove-finalizer"    // remove the finalizer from the ClusterExtension
	DeleteOperator          migrate.StepName = "delete-operator"     // delete the operator's Deployment
	AwaitEnd                migrate.StepName = "await-end"           // wait until nothing of the operator runs or has permissions
	DeleteInstalled         migrate.StepName = "delete-installed"    // delete the operator's other installed objects
	AwaitOperator           migrate.StepName = "await-operator"      // wait until the new operator runs
	AwaitDriver             migrate.StepName = "await-driver"        // wait until the new operator has taken the driver over
)

var steps = migrate.StepTable[*Plan]{
	// An operator cannot be given back to OLM in place: OLM does not accept a ClusterServiceVersion for a Subscription that did not
	// install it. So the first deletion is the point of no return.
	{Name: DeleteSubscription, Has: isSubscribed, NoReturn: isSubscribed, Does: func(p *Plan) string {
		return fmt.Sprintf("delete Subscription %s, so that OLM installs nothing again; the operator runs on", p.Operator.Subscription.Name)
	}},
	{Name: DeleteInstallPlans, Has: isOfVersion, NoReturn: func(p *Plan) bool { return !isSubscribed(p) }, Does: func(*Plan) string {
		return "delete the InstallPlans that only this operator has"
	}},
	{Name: DeleteVersion, Has: isOfVersion, Does: func(p *Plan) string {
		return fmt.Sprintf("delete ClusterServiceVersion %s: OLM stops the operator and takes its permissions away; the driver runs on", p.Operator.Version.Name)
	}},
	{Name: AddHandOverFinalizer, Has: isOfExtension, Does: func(p *Plan) string {
		return fmt.Sprintf("add finalizer %s to ClusterExtension %s, so that it stays as long as it owns an API", handOverFinalizer, p.Operator.Extension.Name)
	}},
	{Name: DeleteExtension, Has: isOfExtension, NoReturn: isOfExtension, Does: func(p *Plan) string {
		return fmt.Sprintf("delete ClusterExtension %s and orphan its objects: OLM no longer manages the operator, which keeps running", p.Operator.Extension.Name)
	}},
	{Name: DeleteObjectSets, Has: isOfExtension, Lists: func(*Plan) bool { return false }, Does: func(p *Plan) string {
		return fmt.Sprintf("delete the ClusterObjectSets of ClusterExtension %s and orphan their objects", p.Operator.Extension.Name)
	}},
	{Name: AwaitOLM, Has: isInstalled, Does: func(p *Plan) string {
		if isOfExtension(p) {
			return fmt.Sprintf("give OLM %d seconds: it may be in the middle of applying the ClusterExtension", int(olmDelay.Seconds()))
		}
		return fmt.Sprintf("give OLM %d seconds: it may execute a remembered InstallPlan again, whose objects are then deleted again", int(olmDelay.Seconds()))
	}},
	{Name: KeepAPIs, Has: isOfExtension, Lists: func(*Plan) bool { return false }, Does: func(p *Plan) string {
		return fmt.Sprintf("orphan again an API that ClusterExtension %s owns, so that the API stays", p.Operator.Extension.Name)
	}},
	{Name: RemoveHandOverFinalizer, Has: isOfExtension, Does: func(p *Plan) string {
		return fmt.Sprintf("remove finalizer %s from ClusterExtension %s", handOverFinalizer, p.Operator.Extension.Name)
	}},
	{Name: DeleteOperator, Has: isOfExtension, Does: func(p *Plan) string {
		return fmt.Sprintf("delete Deployment %s/%s: the operator ends; the driver runs on", p.Operator.Namespace, p.Operator.Name)
	}},
	{Name: AwaitEnd, Has: isInstalled, Does: func(*Plan) string {
		return "wait until no Deployment, ReplicaSet or pod of the operator is left, nor any permissions"
	}},
	{Name: DeleteInstalled, Has: isOfExtension, Does: func(p *Plan) string {
		return fmt.Sprintf("delete the permissions, the service account and the monitoring that ClusterExtension %s has installed for the operator", p.Operator.Extension.Name)
	}},
	{Name: AwaitOperator, Does: func(*Plan) string {
		return "wait until the cluster storage operator has started its operator of the driver, in " + drivers.ClusterStorageNamespace
	}},
	{Name: AwaitDriver, Does: func(*Plan) string {
		return "wait until that has taken the driver over, and all the driver's pods are up to date"
	}},
}

// isInstalled reports whether OLM runs an operator, isOfVersion whether for a ClusterServiceVersion, and isOfExtension whether for a
// ClusterExtension. isSubscribed reports whether the operator has a Subscription.
func isInstalled(p *Plan) bool   { return p.Operator != nil }
func isOfVersion(p *Plan) bool   { return p.Operator != nil && p.Operator.Extension == nil }
func isOfExtension(p *Plan) bool { return p.Operator != nil && p.Operator.Extension != nil }
func isSubscribed(p *Plan) bool  { return p.Operator != nil && p.Operator.Subscription != nil }

// ListSteps returns the steps of the plan.
func (p *Plan) ListSteps() []migrate.Step { return steps.List(p) }

// Does describes a step of the plan.
func (p *Plan) Does(step migrate.StepName) string { return steps.Does(p, step) }
