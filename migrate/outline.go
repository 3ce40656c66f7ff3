package migrate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/internal/findings"
)

// Outline is the part that the plans of all migrations have in common.
type Outline struct {
	Schema string `json:"schema"`
	// Subject is the object that is migrated.
	Subject Subject `json:"subject"`
	// Safe reports whether no check refuses the migration.
	Safe   bool   `json:"safe"`
	Checks Checks `json:"checks"`
	Steps  []Step `json:"steps,omitempty"`
	// Objects are the objects that will change.
	Objects []Object `json:"objects,omitempty"`
}

// GetOutline returns the part of a plan that the engine reads and writes.
func (o *Outline) GetOutline() *Outline { return o }

// Subject identifies the object that is migrated, as it was when the plan was made. A subject without a namespace is cluster-scoped, and
// need not exist yet: then it has no UID.
type Subject struct {
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	// NamespaceUID tells the namespace from a later one of the same name.
	NamespaceUID types.UID `json:"namespaceUID,omitempty"`
}

func (s Subject) String() string {
	if s.Namespace == "" {
		return s.Name
	}
	return s.Namespace + "/" + s.Name
}

// Checks are the checks of a plan.
type Checks []findings.Check

// Pass returns a check that finds nothing wrong.
func Pass(code, what string, args ...any) Checks {
	return Checks{findings.Pass(code, what, args...)}
}

// Refuse returns a check that refuses the migration. do says what helps.
func Refuse(code, do, what string, args ...any) Checks {
	return Checks{{Code: code, Verdict: findings.Refused, What: fmt.Sprintf(what, args...), Do: do}}
}

// Warn returns a check that warns. do says what helps.
func Warn(code, do, what string, args ...any) Checks {
	return Checks{findings.Warn(code, do, what, args...)}
}

// Safe reports whether no check refuses the migration.
func (c Checks) Safe() bool {
	return !slices.ContainsFunc(c, func(check findings.Check) bool { return check.Verdict == findings.Refused })
}

// StepName identifies a step.
type StepName string

// The steps that the engine adds to each migration.
const (
	RecordPlan       StepName = "record-plan"       // write the journal
	Complete         StepName = "complete"          // write into the journal that the migration is complete
	BeginRollback    StepName = "begin-rollback"    // write into the journal that the rollback has begun
	CompleteRollback StepName = "complete-rollback" // write into the journal that the rollback is complete
)

// Step is a step of a plan.
type Step struct {
	Name StepName `json:"name"`
	Does string   `json:"does"`
	// NoReturn marks the first step that cannot be rolled back.
	NoReturn bool `json:"pointOfNoReturn,omitempty"`
}

// Object is an object that will change.
type Object struct {
	// By is who changes it: berth, or a controller such as OLM.
	By        string `json:"by"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	How       string `json:"how"`
}

// steps returns the steps of a plan, including the engine's own steps.
func (e Engine[P]) steps(p P) []Step {
	if !p.GetOutline().Safe {
		return nil
	}
	steps := []Step{{Name: RecordPlan, Does: e.Does(p, RecordPlan)}}
	steps = append(steps, p.ListSteps()...)
	return append(steps, Step{Name: Complete, Does: e.Does(p, Complete)})
}

// Does describes a step of a plan or of its rollback. The description is empty if there is no such step.
func (e Engine[P]) Does(p P, step StepName) string {
	switch step {
	case RecordPlan:
		return fmt.Sprintf("write this plan to the journal, ConfigMap %s, so that it can be resumed or rolled back", e.journalName(p.GetOutline().Subject))
	case Complete:
		return "mark the journal as Completed"
	case BeginRollback:
		return "mark the journal as RollingBack"
	case CompleteRollback:
		return "mark the journal as RolledBack"
	}
	return p.Does(step)
}
