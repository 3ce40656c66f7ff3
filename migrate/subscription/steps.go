package subscription

import (
	"fmt"
	"slices"

	"github.com/berth-csi/berth/migrate"
)

// The steps, in the order of execution.
const (
	RequireApproval      migrate.StepName = "require-approval"      // make OLM ask for approval
	SwitchSource         migrate.StepName = "switch-source"         // set the Subscription to the other catalog
	RemoveOperator       migrate.StepName = "remove-operator"       // delete the Subscription and the ClusterServiceVersion
	RecreateSubscription migrate.StepName = "recreate-subscription" // create the Subscription to the other package
	Approve              migrate.StepName = "approve"               // approve the InstallPlan that was predicted
	Install              migrate.StepName = "install"               // wait until OLM has installed the target
	RestoreApproval      migrate.StepName = "restore-approval"      // restore the Subscription's installPlanApproval
	AwaitOperator        migrate.StepName = "await-operator"        // wait until the operator runs
	CreateDriver         migrate.StepName = "create-driver"         // create the ClusterCSIDriver
	AwaitDriver          migrate.StepName = "await-driver"          // wait until the operator has adopted the driver
)

// The steps of a rollback.
const (
	RestoreSource     migrate.StepName = "restore-source"     // set the Subscription to the earlier catalog
	AwaitResolver     migrate.StepName = "await-resolver"     // wait until OLM has finished its resolution
	DeleteInstallPlan migrate.StepName = "delete-installplan" // delete the unapproved InstallPlan
)

// Steps that no plan lists, because OLM rarely makes them necessary.
const (
	ResetStatus        migrate.StepName = "reset-status"        // reset the Subscription's status, because OLM waits for an InstallPlan that is gone
	ResolveAgain       migrate.StepName = "resolve-again"       // make OLM resolve again
	AwaitUpdates       migrate.StepName = "await-updates"       // give OLM time to update to a later version, as it did before
	DiscardInstallPlan migrate.StepName = "discard-installplan" // delete an InstallPlan for a later version, so that OLM creates one that needs no approval
)

// in returns a function that reports whether a plan has one of these strategies.
func in(strategies ...Strategy) func(*Plan) bool {
	return func(p *Plan) bool { return slices.Contains(strategies, p.Strategy) }
}

var (
	installs = in(Update, Replace)
	never    = in() // such a step is only necessary because of OLM, or in a rollback
)

var steps = migrate.StepTable[*Plan]{
	{Name: RequireApproval, Lists: in(Update), Does: func(*Plan) string {
		return "set installPlanApproval to Manual, so that OLM installs nothing beyond the plan"
	}},
	{Name: SwitchSource, Lists: in(Update, Keep), Does: func(p *Plan) string { return fmt.Sprintf("subscribe to %s", p.To) }},
	{Name: RemoveOperator, Lists: in(Replace), NoReturn: in(Replace), Does: func(p *Plan) string {
		return fmt.Sprintf("delete Subscription %s and ClusterServiceVersion %s; the operator stops, and the objects that it manages stay", p.Subject.Name, p.Installed)
	}},
	{Name: RecreateSubscription, Lists: in(Replace), Does: func(p *Plan) string {
		return fmt.Sprintf("create Subscription %s to %s, with manual approval", p.Subject.Name, p.To)
	}},
	{Name: Approve, Lists: installs, NoReturn: in(Update), Does: func(p *Plan) string {
		return fmt.Sprintf("approve the InstallPlan if it installs exactly the planned version: %s", p.Target)
	}},
	{Name: Install, Lists: installs, Does: func(p *Plan) string {
		if p.Installed == "" {
			return fmt.Sprintf("wait until ClusterServiceVersion %s has succeeded", p.Target)
		}
		return fmt.Sprintf("wait until ClusterServiceVersion %s has succeeded and %s is gone", p.Target, p.Installed)
	}},
	{Name: RestoreApproval, Lists: installs, Does: func(*Plan) string { return "restore installPlanApproval" }},
	{Name: AwaitOperator, Does: func(p *Plan) string {
		if p.Driver == nil {
			return "wait until the operator runs"
		}
		return "wait until the operator runs and holds the lock " + p.Driver.Lock
	}},
	{Name: CreateDriver, Has: (*Plan).createsDriver, Does: func(p *Plan) string {
		return fmt.Sprintf("create ClusterCSIDriver %s if there is none", p.Driver.Name)
	}},
	{Name: AwaitDriver, Has: (*Plan).createsDriver, Does: func(*Plan) string {
		return "wait until the driver is available and all its pods are up to date"
	}},
	{Name: RestoreSource, Lists: never, Does: func(p *Plan) string { return fmt.Sprintf("subscribe to %s, as before", p.From) }},
	{Name: AwaitResolver, Lists: never, Does: func(*Plan) string { return "give OLM time to finish" }},
	{Name: DeleteInstallPlan, Lists: never, Does: func(p *Plan) string {
		return fmt.Sprintf("delete the InstallPlan for %s, which nobody has approved", p.Target)
	}},
	{Name: ResetStatus, Lists: never, Does: func(*Plan) string {
		return "reset the Subscription's status, because OLM waits for an InstallPlan that is gone"
	}},
	{Name: ResolveAgain, Lists: never, Does: func(*Plan) string {
		return "update the time in the Subscription's status, so that OLM resolves again"
	}},
	{Name: AwaitUpdates, Lists: never, Does: func(*Plan) string {
		return "give OLM the time to go on to a later version, as it did before"
	}},
	{Name: DiscardInstallPlan, Lists: never, Does: func(*Plan) string {
		return "delete the InstallPlan for a later version, because OLM would wait for its approval for ever: it then creates one that needs none"
	}},
}

// ListSteps returns the steps of the plan's strategy.
func (p *Plan) ListSteps() []migrate.Step { return steps.List(p) }

// Does describes a step of the plan or of its rollback.
func (p *Plan) Does(name migrate.StepName) string { return steps.Does(p, name) }
