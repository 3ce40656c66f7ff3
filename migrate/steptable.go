package migrate

import "slices"

// A StepTable holds the steps of plans of type P, in the order of execution.
type StepTable[P any] []TableStep[P]

// TableStep is a step that plans may consist of.
type TableStep[P any] struct {
	Name StepName
	// Has reports whether the plan or its rollback can include the step; nil means always. Lists reports whether the plan also lists it in
	// advance; nil means whenever it can.
	Has, Lists func(P) bool
	// NoReturn reports whether the step is the plan's first step that cannot be rolled back; nil if it never is.
	NoReturn func(P) bool
	// Does describes the step of a plan that has it.
	Does func(P) string
}

// List returns the steps of a plan.
func (t StepTable[P]) List(p P) (found []Step) {
	for _, s := range t {
		if (s.Has == nil || s.Has(p)) && (s.Lists == nil || s.Lists(p)) {
			found = append(found, Step{Name: s.Name, Does: s.Does(p), NoReturn: s.NoReturn != nil && s.NoReturn(p)})
		}
	}
	return found
}

// Does describes a step of a plan. It returns "" if the plan does not have the step.
func (t StepTable[P]) Does(p P, name StepName) string {
	at := slices.IndexFunc(t, func(s TableStep[P]) bool { return s.Name == name })
	if at < 0 || t[at].Has != nil && !t[at].Has(p) {
		return ""
	}
	return t[at].Does(p)
}
