package switchover

import (
	"fmt"
	"slices"
)

// Step is a part of a plan.
type Step struct {
	Name StepName `json:"name"`
	Does string   `json:"does"`
	// NoReturn marks the first step that cannot be taken back.
	NoReturn bool `json:"pointOfNoReturn,omitempty"`
}

// StepName names a step.
type StepName string

// The steps, in the order in which they are taken.
const (
	Record   StepName = "record"
	Hold     StepName = "hold"
	Turn     StepName = "turn"
	Remove   StepName = "remove"
	Renew    StepName = "renew"
	Approve  StepName = "approve"
	Install  StepName = "install"
	Release  StepName = "release"
	Operator StepName = "operator"
	Create   StepName = "create"
	Adopt    StepName = "adopt"
	Finish   StepName = "finish"
)

// stepKind is what plans are made of. Without ways it is part of every one.
type stepKind struct {
	name     StepName
	ways     []Way
	driver   bool // only if the ClusterCSIDriver is to be created
	does     func(p *Plan) string
	noReturn bool
}

var steps = []stepKind{
	{name: Record, does: func(p *Plan) string {
		return fmt.Sprintf("write this plan into ConfigMap %s, to go on from there whatever happens", journalName(p.Subscription))
	}},
	{name: Hold, ways: []Way{Update}, does: func(p *Plan) string {
		return "have OLM ask for approval, so that nothing is installed that was not foretold"
	}},
	{name: Turn, ways: []Way{Update, Stay}, does: func(p *Plan) string { return fmt.Sprintf("subscribe to %s", p.To) }},
	{name: Remove, ways: []Way{Replace}, noReturn: true, does: func(p *Plan) string {
		return fmt.Sprintf("delete Subscription %s and ClusterServiceVersion %s; the operator ends, and what it manages stays", p.Subscription.Name, p.Installed)
	}},
	{name: Renew, ways: []Way{Replace}, does: func(p *Plan) string {
		return fmt.Sprintf("create Subscription %s, to %s, which asks for approval", p.Subscription.Name, p.To)
	}},
	{name: Approve, ways: []Way{Update}, noReturn: true, does: approves},
	{name: Approve, ways: []Way{Replace}, does: approves},
	{name: Install, ways: []Way{Update, Replace}, does: func(p *Plan) string {
		return fmt.Sprintf("wait until ClusterServiceVersion %s has succeeded, and %s is gone", p.Target, p.Installed)
	}},
	{name: Release, ways: []Way{Update, Replace}, does: func(p *Plan) string {
		return "have OLM ask for approval only if it did before"
	}},
	{name: Operator, does: func(p *Plan) string { return "wait until the operator runs" + p.andHoldsLock() }},
	{name: Create, driver: true, does: func(p *Plan) string {
		return fmt.Sprintf("create ClusterCSIDriver %s, if there is none", p.Driver.Name)
	}},
	{name: Adopt, driver: true, does: func(p *Plan) string {
		return "wait until the driver is available, and all its pods are as the operator wants them"
	}},
	{name: Finish, does: func(*Plan) string { return "write into the journal that all is done" }},
}

func approves(p *Plan) string {
	return fmt.Sprintf("approve the InstallPlan, if it installs %s and nothing else that was not foretold", p.Target)
}

func (p *Plan) andHoldsLock() string {
	if p.Driver == nil {
		return ""
	}
	return " and holds the lock " + p.Driver.Lock
}

// known tells whether there is a step of that name.
func (name StepName) known() bool {
	return name == Unblock || backDoes[name] != nil || slices.ContainsFunc(steps, func(s stepKind) bool { return s.name == name })
}

// createsDriver tells whether the plan is to create the ClusterCSIDriver.
func (p *Plan) createsDriver() bool { return p.Driver != nil && p.Driver.Create }

// Unblock is a step that no plan lists: as a rule, there is no need for it.
const Unblock StepName = "unblock"

// Does says what a step of the plan does, or one of its rollback.
func (p *Plan) Does(name StepName) string {
	if name == Unblock {
		return "have OLM choose anew: it waits for an InstallPlan that is gone, and will not notice"
	}
	if does := backDoes[name]; does != nil {
		return does(p)
	}
	if at := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Name == name }); at >= 0 {
		return p.Steps[at].Does
	}
	return ""
}

// stepsOf returns the steps of a plan.
func stepsOf(p *Plan) []Step {
	var found []Step
	for _, s := range steps {
		if len(s.ways) > 0 && !slices.Contains(s.ways, p.Way) || s.driver && !p.createsDriver() {
			continue
		}
		found = append(found, Step{Name: s.name, Does: s.does(p), NoReturn: s.noReturn})
	}
	return found
}
