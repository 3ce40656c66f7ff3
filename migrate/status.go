package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Status is how far a migration is.
type Status[P Plan] struct {
	Schema string `json:"schema"`
	Phase  Phase  `json:"phase"`
	// Journal is the ConfigMap that holds the journal, NAMESPACE/NAME.
	Journal string `json:"journal"`
	Plan    P      `json:"plan"`
	// Log lists the steps that were started, each with its time.
	Log []string `json:"log"`
	// Next is the next step, and Waits what it waits for.
	Next  StepName `json:"next,omitempty"`
	Waits string   `json:"waits,omitempty"`
	// Stuck says why there is no next step until somebody intervenes.
	Stuck string `json:"stuck,omitempty"`
	// CanRollBack reports whether the migration is before its point of no return.
	CanRollBack bool `json:"canRollBack"`

	rollback string // the command
}

// Status returns the status of a migration. A migration in progress hides earlier ones. Status fails if no migration was found.
func (e Engine[P]) Status(ctx context.Context, cluster Cluster, r Request[P]) (*Status[P], error) {
	s, err := e.Find(ctx, cluster, r)
	if err == nil && s == nil {
		err = fmt.Errorf("no journal in namespace %s matches %s: nobody has started %s of it", cluster.journals(), r, e.Noun)
	}
	return s, err
}

// All returns the status of each migration that has a journal, sorted by their subjects.
func (e Engine[P]) All(ctx context.Context, cluster Cluster) (all []*Status[P], err error) {
	found, err := e.findJournals(ctx, cluster, func(P) bool { return true })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b *Journal) int {
		return strings.Compare(a.Plan.GetOutline().Subject.String(), b.Plan.GetOutline().Subject.String())
	})
	for _, j := range found {
		s, err := e.statusOf(ctx, cluster, j)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Find is like Status, but returns nil if no migration was found.
func (e Engine[P]) Find(ctx context.Context, cluster Cluster, r Request[P]) (*Status[P], error) {
	j, err := e.FindJournal(ctx, cluster, r)
	if err != nil || j == nil {
		return nil, err
	}
	return e.statusOf(ctx, cluster, j)
}

// FindJournal returns the journal of a migration, or nil if it has no journal. A migration in progress hides earlier ones.
func (e Engine[P]) FindJournal(ctx context.Context, cluster Cluster, r Request[P]) (*Journal, error) {
	found, err := e.findJournals(ctx, cluster, r.Matches)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(found, (*Journal).IsOpen) {
		found = slices.DeleteFunc(found, func(j *Journal) bool { return !j.IsOpen() })
	}
	return e.only(found, r)
}

func (e Engine[P]) statusOf(ctx context.Context, cluster Cluster, j *Journal) (*Status[P], error) {
	s := &Status[P]{Schema: e.StatusSchema, Phase: j.Phase, Journal: j.namespace + "/" + j.name, Plan: j.Plan.(P), rollback: j.Command(j.Plan, "rollback")}
	for _, entry := range j.Entries {
		s.Log = append(s.Log, entry.String())
	}
	if !j.IsOpen() {
		return s, nil
	}
	seen, err := e.observe(ctx, cluster, s.Plan)
	if err != nil {
		return nil, err
	}
	_, cannot := seen.back()
	s.CanRollBack = cannot == nil
	decide := (*observation).next
	if j.Phase == RollingBack {
		decide = (*observation).back
	}
	next, err := decide(seen)
	if err != nil {
		s.Stuck = err.Error()
	}
	s.Next, s.Waits = next.Step, next.Waits
	return s, nil
}
