package switchover

import (
	"context"
	"fmt"
	"slices"
)

// Status is how far a switch is. The names of fields in JSON stay as they are.
type Status struct {
	State State `json:"state"`
	// Journal is the ConfigMap that says so, NAMESPACE/NAME.
	Journal string `json:"journal"`
	Plan    *Plan  `json:"plan"`
	// Log is what was done, each in a line with its time.
	Log []string `json:"log"`
	// Next is the step that comes next, and Waits what it waits for, if it does.
	Next  StepName `json:"next,omitempty"`
	Waits string   `json:"waits,omitempty"`
	// Stuck says why somebody has to decide whether to go on or back.
	Stuck string `json:"stuck,omitempty"`
	// Return tells whether there is a way back.
	Return bool `json:"return"`
}

// Find returns the status of the switch of a package, by its name before the switch or after it. Without a
// namespace it is looked for in all of them.
func Find(ctx context.Context, cluster Cluster, namespace, pkg string) (*Status, error) {
	found, err := cluster.findJournals(ctx, namespace, pkg)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(found, (*Journal).open) { // others are past
		found = slices.DeleteFunc(found, func(j *Journal) bool { return !j.open() })
	}
	j, err := only(found, pkg)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, fmt.Errorf("no switch of package %s has been begun%s: namespace %s has no journal of one", pkg, inNamespace(namespace), cluster.journals())
	}
	return j.status(ctx, cluster)
}

func (j *Journal) status(ctx context.Context, cluster Cluster) (*Status, error) {
	s := &Status{State: j.State, Journal: j.stored.Namespace + "/" + j.stored.Name, Plan: j.Plan, Log: j.Entries}
	if !j.open() {
		return s, nil
	}
	seen, err := look(ctx, cluster, j.Plan)
	if err != nil {
		return nil, err
	}
	decide := (*situation).decide
	if j.State == RollingBack {
		decide = (*situation).back
	}
	next, err := decide(seen)
	if err != nil {
		s.Stuck = err.Error()
	}
	s.Next, s.Waits = next.step, next.waits
	_, err = seen.back()
	s.Return = err == nil
	return s, nil
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
