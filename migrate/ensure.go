package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Plan makes a plan. It writes nothing to the cluster. It fails if a migration of the subject is in progress, because that migration has
// its own plan.
func (e Engine[P]) Plan(ctx context.Context, cluster Cluster, r Request[P]) (P, error) {
	var none P
	open, err := e.inProgress(ctx, cluster, r)
	if err != nil {
		return none, err
	}
	if open != nil {
		return none, e.inProgressError(open)
	}
	return e.NewPlan(ctx, cluster, r)
}

// NewPlan makes a plan, unless a migration of exactly this subject is in progress. Unlike Plan it reads only this subject's journal, and
// so needs no permission to list journals.
func (e Engine[P]) NewPlan(ctx context.Context, cluster Cluster, r Request[P]) (P, error) {
	p, err := r.Plan(ctx, cluster)
	if err != nil {
		return p, err
	}
	o := p.GetOutline()
	earlier, err := e.ReadJournal(ctx, cluster, o.Subject) // fails if the journal is invalid, so that it is not overwritten
	if err != nil {
		return p, err
	}
	if earlier.IsOpen() {
		return p, e.inProgressError(earlier)
	}
	o.Schema, o.Safe = e.Schema, o.Checks.Safe()
	o.Steps = e.steps(p)
	if len(o.Objects) > 0 {
		journal := Object{By: "berth", Kind: "ConfigMap", Namespace: cluster.journals(), Name: e.journalName(o.Subject), How: "the journal, created or updated"}
		o.Objects = slices.Insert(o.Objects, 0, journal)
	}
	return p, nil
}

// Ensure returns the plan to apply: the plan and the status of the migration in progress, or the plan of the completed migration, which
// has no steps left if its result still holds, or else a new plan. It fails if the migration in progress differs from the request, or if
// Holds fails.
func (e Engine[P]) Ensure(ctx context.Context, cluster Cluster, r Request[P]) (P, *Status[P], error) {
	p, status, err := e.resume(ctx, cluster, r, r.Conflicts)
	if err != nil || status != nil {
		return p, status, err
	}
	if p, done, err := e.completed(ctx, cluster, r, r.Conflicts); err != nil || done {
		return p, nil, err
	}
	p, err = e.NewPlan(ctx, cluster, r)
	return p, nil, err
}

// EnsureGiven is like Ensure, for a plan that was made before from the same request. It fails if the cluster has changed since.
func (e Engine[P]) EnsureGiven(ctx context.Context, cluster Cluster, r Request[P], given P) (P, *Status[P], error) {
	conflicts := func(p P) error {
		if changes := e.Changes(p, given); len(changes) > 0 {
			return errors.New(strings.Join(changes, "; "))
		}
		return nil
	}
	p, status, err := e.resume(ctx, cluster, r, conflicts)
	if err != nil || status != nil {
		return p, status, err
	}
	if p, done, err := e.completed(ctx, cluster, r, conflicts); err != nil || done {
		return p, nil, err
	}
	if p, err = e.NewPlan(ctx, cluster, r); err != nil {
		return p, nil, err
	}
	if changes := e.Changes(given, p); len(changes) > 0 {
		return p, nil, fmt.Errorf("the cluster has changed since the plan was made: %s; make a new plan", strings.Join(changes, "; "))
	}
	return p, nil, nil
}

// resume returns the plan and the status of the migration in progress. The status is nil if no migration is in
// progress.
func (e Engine[P]) resume(ctx context.Context, cluster Cluster, r Request[P], conflicts func(P) error) (P, *Status[P], error) {
	var none P
	open, err := e.inProgress(ctx, cluster, r)
	if err != nil || open == nil {
		return none, nil, err
	}
	if err := conflicts(open.Plan.(P)); err != nil {
		return none, nil, fmt.Errorf("%w; it differs from the request:\n%w", e.inProgressError(open), err)
	}
	status, err := e.statusOf(ctx, cluster, open)
	return open.Plan.(P), status, err
}

// completed returns the plan of the requested migration if the migration is complete, and reports whether its result is still in place.
// If the result was removed, the error may say what is gone.
func (e Engine[P]) completed(ctx context.Context, cluster Cluster, r Request[P], conflicts func(P) error) (P, bool, error) {
	var none P
	found, err := e.findJournals(ctx, cluster, func(p P) bool { return r.Matches(p) && conflicts(p) == nil })
	if err != nil {
		return none, false, err
	}
	found = slices.DeleteFunc(found, func(j *Journal) bool { return j.Phase != Completed })
	if len(found) == 0 {
		return none, false, nil
	}
	subject, err := r.Find(ctx, cluster)
	if err != nil {
		return none, false, err
	}
	found = slices.DeleteFunc(found, func(j *Journal) bool {
		return subject != nil && j.Plan.GetOutline().Subject.String() != subject.String()
	})
	if len(found) != 1 {
		return none, false, nil
	}
	p := found[0].Plan.(P)
	seen, err := e.observe(ctx, cluster, p)
	if err != nil {
		return none, false, err
	}
	holds, err := seen.holds()
	return p, holds, err
}

// inProgress returns the journal of the migration in progress that a request is about, or nil.
func (e Engine[P]) inProgress(ctx context.Context, cluster Cluster, r Request[P]) (*Journal, error) {
	found, err := e.findJournals(ctx, cluster, r.Matches)
	if err != nil {
		return nil, err
	}
	return e.only(slices.DeleteFunc(found, func(j *Journal) bool { return !j.IsOpen() }), r)
}

// only returns the journal if there is exactly one, or nil if there is none. It fails if there are several.
func (e Engine[P]) only(found []*Journal, r Request[P]) (*Journal, error) {
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	var names []string
	for _, j := range found {
		names = append(names, j.Plan.GetOutline().Subject.String())
	}
	return nil, fmt.Errorf("%s has %d journals, for %ss %s; choose one with --namespace", r, len(found), e.Kind, strings.Join(names, ", "))
}

// inProgressError returns the error that a migration is in progress, with the commands that can be used now.
func (e Engine[P]) inProgressError(j *Journal) error {
	return fmt.Errorf("%s of %s %s is in progress: see how far it is with `%s`, resume it with `%s`, or undo it with `%s`",
		e.Noun, e.Kind, j.Plan.GetOutline().Subject, j.Command(j.Plan, "status"), j.Command(j.Plan, "apply"), j.Command(j.Plan, "rollback"))
}
