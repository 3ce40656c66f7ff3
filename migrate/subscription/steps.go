package subscription

import (
	"fmt"
	"slices"

	"github.com/berth-csi/berth/migrate"
)

// The steps, in the order in which they are executed.
const (
	RequireApproval      migrate.StepName = "require-approval"
	SwitchSource         migrate.StepName = "switch-source"
	RemoveOperator       migrate.StepName = "remove-operator"
	RecreateSubscription migrate.StepName = "recreate-subscription"
	Approve              migrate.StepName = "approve"
	Install              migrate.StepName = "install"
	RestoreApproval      migrate.StepName = "restore-approval"
	AwaitOperator        migrate.StepName = "await-operator"
	CreateDriver         migrate.StepName = "create-driver"
	AwaitDriver          migrate.StepName = "await-driver"
)

// The steps of a rollback.
const (
	RestoreSource     migrate.StepName = "restore-source"
	AwaitResolver     migrate.StepName = "await-resolver"
	DeleteInstallPlan migrate.StepName = "delete-installplan"
)

// Steps that no plan lists, because OLM rarely makes them necessary.
const (
	ResetStatus        migrate.StepName = "reset-status"
	ResolveAgain       migrate.StepName = "resolve-again"
	AwaitUpdates       migrate.StepName = "await-updates"
	DiscardInstallPlan migrate.StepName = "discard-installplan"
)

// step is a step that plans are made of.
type step struct {
	name migrate.StepName
	// strategies are those that the step is part of.
	strategies []Strategy
	// driver limits the step to plans that create the ClusterCSIDriver.
	driver bool
	// noReturn is the strategy in which this is the first step that cannot be rolled back.
	noReturn Strategy
	does     func(p *Plan) string
}

var (
	always   = []Strategy{Update, Replace, Keep}
	installs = []Strategy{Update, Replace}
)

var steps = []step{
	{name: RequireApproval, strategies: []Strategy{Update}, does: func(*Plan) string {
		return "set installPlanApproval to Manual, so that OLM installs nothing but what the plan says"
	}},
	{name: SwitchSource, strategies: []Strategy{Update, Keep}, does: func(p *Plan) string { return fmt.Sprintf("subscribe to %s", p.To) }},
	{name: RemoveOperator, strategies: []Strategy{Replace}, noReturn: Replace, does: func(p *Plan) string {
		return fmt.Sprintf("delete Subscription %s and ClusterServiceVersion %s; the operator stops, and what it manages stays", p.Subject.Name, p.Installed)
	}},
	{name: RecreateSubscription, strategies: []Strategy{Replace}, does: func(p *Plan) string {
		return fmt.Sprintf("create Subscription %s to %s, with manual approval", p.Subject.Name, p.To)
	}},
	{name: Approve, strategies: installs, noReturn: Update, does: func(p *Plan) string {
		return fmt.Sprintf("approve the InstallPlan if it installs exactly what the plan says: %s", p.Target)
	}},
	{name: Install, strategies: installs, does: func(p *Plan) string {
		if p.Installed == "" {
			return fmt.Sprintf("wait until ClusterServiceVersion %s has succeeded", p.Target)
		}
		return fmt.Sprintf("wait until ClusterServiceVersion %s has succeeded and %s is gone", p.Target, p.Installed)
	}},
	{name: RestoreApproval, strategies: installs, does: func(*Plan) string { return "set installPlanApproval back to what it was" }},
	{name: AwaitOperator, strategies: always, does: func(p *Plan) string {
		if p.Driver == nil {
			return "wait until the operator runs"
		}
		return "wait until the operator runs and holds the lock " + p.Driver.Lock
	}},
	{name: CreateDriver, strategies: always, driver: true, does: func(p *Plan) string {
		return fmt.Sprintf("create ClusterCSIDriver %s if there is none", p.Driver.Name)
	}},
	{name: AwaitDriver, strategies: always, driver: true, does: func(*Plan) string {
		return "wait until the driver is available and all its pods are up to date"
	}},
	{name: RestoreSource, does: func(p *Plan) string { return fmt.Sprintf("subscribe to %s, as before", p.From) }},
	{name: AwaitResolver, does: func(*Plan) string { return "give OLM the time to finish what it has started" }},
	{name: DeleteInstallPlan, does: func(p *Plan) string {
		return fmt.Sprintf("delete the InstallPlan for %s, which nobody has approved", p.Target)
	}},
	{name: ResetStatus, does: func(*Plan) string {
		return "reset the Subscription's status, because OLM waits for an InstallPlan that is gone"
	}},
	{name: ResolveAgain, does: func(*Plan) string {
		return "update the time in the Subscription's status, so that OLM resolves again"
	}},
	{name: AwaitUpdates, does: func(*Plan) string {
		return "give OLM the time to go on to a later version, as it did before"
	}},
	{name: DiscardInstallPlan, does: func(*Plan) string {
		return "delete the InstallPlan for a later version, for which OLM would wait for approval for ever, so that it creates one that needs none"
	}},
}

// ListSteps returns the steps of the plan's strategy.
func (p *Plan) ListSteps() []migrate.Step {
	var found []migrate.Step
	for _, s := range steps {
		if slices.Contains(s.strategies, p.Strategy) && (!s.driver || p.createsDriver()) {
			found = append(found, migrate.Step{Name: s.name, Does: s.does(p), NoReturn: s.noReturn == p.Strategy})
		}
	}
	return found
}

// Does describes a step of the plan or of its rollback.
func (p *Plan) Does(name migrate.StepName) string {
	at := slices.IndexFunc(steps, func(s step) bool { return s.name == name && (!s.driver || p.createsDriver()) })
	if at < 0 {
		return ""
	}
	return steps[at].does(p)
}
