package switchover

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status is how far a switch is. The names of fields in JSON stay as they are.
type Status struct {
	State State `json:"state"`
	Plan  *Plan `json:"plan"`
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
func Find(ctx context.Context, c client.Client, namespace, pkg string) (*Status, error) {
	journals, err := findJournals(ctx, c, namespace, pkg)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(journals, (*Journal).open) { // others are past
		journals = slices.DeleteFunc(journals, func(j *Journal) bool { return !j.open() })
	}
	switch len(journals) {
	case 0:
		return nil, fmt.Errorf("no switch of package %s has been begun%s", pkg, inNamespace(namespace))
	case 1:
	default:
		return nil, fmt.Errorf("package %s is switched in several namespaces, such as %s and %s; name one with --namespace",
			pkg, journals[0].Plan.Subscription, journals[1].Plan.Subscription)
	}
	return journals[0].status(ctx, c)
}

func (j *Journal) status(ctx context.Context, c client.Client) (*Status, error) {
	s := &Status{State: j.State, Plan: j.Plan, Log: j.Entries}
	if !j.open() {
		return s, nil
	}
	seen, err := look(ctx, c, j.Plan)
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
