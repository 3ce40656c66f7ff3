package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// interval is the time between two observations while there is something to wait for.
const interval = 500 * time.Millisecond

// Options configure Apply and Rollback.
type Options struct {
	// DryRun sends the first write to the API server as a dry run, and ends.
	DryRun bool
	// NoWait ends with ErrWaiting where there is something to wait for.
	NoWait bool
	// Report is called for each step that is executed and for each thing that is waited for.
	Report func(Event)
}

// Event is the execution of a step, or something that the step waits for.
type Event struct {
	Step StepName
	// Does describes the step.
	Does string
	// Waits says what the step waits for. It is empty if the step is executed.
	Waits string
}

// ErrWaiting is returned with the option NoWait if all that can be done is to wait.
var ErrWaiting = errors.New("nothing can be done now: waiting")

// TimeoutError is returned if the context's deadline is exceeded.
type TimeoutError struct {
	// Waited says what the migration was waiting for.
	Waited string
	cause  error
}

func (e *TimeoutError) Error() string { return "timed out while waiting for " + e.Waited }
func (e *TimeoutError) Unwrap() error { return e.cause }

// StuckError says why a migration has no next step until somebody intervenes.
type StuckError struct{ cause error }

func (e *StuckError) Error() string { return e.cause.Error() }
func (e *StuckError) Unwrap() error { return e.cause }

// Apply carries out a plan from the cluster's current state until the plan is complete or the context ends.
func (e Engine[P]) Apply(ctx context.Context, cluster Cluster, p P, o Options) error {
	return e.run(ctx, cluster, p, o, (*observation).next)
}

// Rollback rolls a plan back. It fails beyond the point of no return.
func (e Engine[P]) Rollback(ctx context.Context, cluster Cluster, p P, o Options) error {
	return e.run(ctx, cluster, p, o, (*observation).back)
}

// Advance executes the next step of a plan, unless the step has to wait. A controller calls it again and again, and reports the returned
// Event instead of waiting. The zero Event means that the migration is complete. Advance fails with a StuckError if there is no next step.
func (e Engine[P]) Advance(ctx context.Context, cluster Cluster, p P) (Event, error) {
	var last Event
	decide := func(o *observation) (Decision, error) {
		next, err := o.next()
		if err != nil {
			err = &StuckError{err}
		}
		return next, err
	}
	became, err := e.advance(ctx, cluster, p, Options{}, decide, func(event Event) { last = event })
	if became == Done {
		return Event{}, err
	}
	return last, err
}

// run observes, decides, executes and observes again.
func (e Engine[P]) run(ctx context.Context, cluster Cluster, p P, o Options, decide func(*observation) (Decision, error)) error {
	return Repeat(ctx, o, func(ctx context.Context, report func(Event)) (Outcome, error) {
		return e.advance(ctx, cluster, p, o, decide, report)
	})
}

// Repeat calls a function until it returns Done or fails, or until the context ends. The function observes, makes at most one write, and
// reports it. An error that may be gone when the request is repeated is not a failure.
func Repeat(ctx context.Context, o Options, advance func(ctx context.Context, report func(Event)) (Outcome, error)) error {
	last := Event{}
	report := func(event Event) {
		if event != last {
			o.Report(event)
		}
		last = event
	}
	for {
		became, err := advance(ctx, report)
		switch {
		case err == nil && became == Done:
			return nil
		case err == nil && became == Executed:
			continue
		case err == nil || ctx.Err() != nil:
		case isTransient(err):
			report(Event{last.Step, last.Does, "the API server to recover from: " + err.Error()})
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return endError(ctx, last)
		case <-time.After(interval):
		}
	}
}

// Outcome is the result of one round of a run.
type Outcome int

// The outcomes.
const (
	Waiting  Outcome = iota // all that can be done is to wait
	Executed                // a write was made
	Done                    // nothing is left to do
)

// advance observes and decides, and executes the next step unless there is something to wait for.
func (e Engine[P]) advance(ctx context.Context, cluster Cluster, p P, o Options, decide func(*observation) (Decision, error), report func(Event)) (Outcome, error) {
	seen, err := e.observe(ctx, cluster, p)
	if err != nil {
		return Waiting, err
	}
	next, err := decide(seen)
	switch {
	case err != nil:
		return Waiting, err
	case next == Decision{}:
		return Done, nil
	}
	report(Event{next.Step, e.Does(p, next.Step), next.Waits})
	switch {
	case next.Waits != "" && o.NoWait:
		return Waiting, fmt.Errorf("%w for %s", ErrWaiting, next.Waits)
	case next.Waits != "":
		return Waiting, nil
	}
	c := cluster.Writer()
	if o.DryRun {
		c = client.NewDryRunClient(c)
	}
	switch err := e.execute(ctx, c, seen, p, next.Step); {
	case IsConflict(err):
		return Waiting, nil
	case err != nil:
		return Waiting, fmt.Errorf("step %s: %w", next.Step, err)
	case o.DryRun:
		return Done, nil
	}
	return Executed, nil
}

// execute records a step in the journal, and then makes the step's write.
func (e Engine[P]) execute(ctx context.Context, c client.Client, seen *observation, p P, step StepName) error {
	j := seen.journal
	switch step {
	case RecordPlan:
		return e.begin(ctx, c, j, p)
	case Complete:
		return j.start(ctx, c, step, Completed)
	case BeginRollback:
		return j.start(ctx, c, step, RollingBack)
	case CompleteRollback:
		return j.start(ctx, c, step, RolledBack)
	}
	if !j.isStarted(step) { // an earlier run may have been interrupted after it recorded the step
		if err := j.start(ctx, c, step, j.Phase); err != nil {
			return err
		}
	}
	return seen.state.Execute(ctx, c, step)
}

// observation is the input of a decision.
type observation struct {
	plan         Plan
	journal      *Journal
	namespaceUID types.UID
	state        State
	// subject names the migrated object with its kind.
	subject string
}

// observe reads the journal of a plan and the observed state.
func (e Engine[P]) observe(ctx context.Context, cluster Cluster, p P) (*observation, error) {
	subject := p.GetOutline().Subject
	o := &observation{plan: p, subject: e.Kind + " " + subject.String()}
	var err error
	if o.journal, err = e.ReadJournal(ctx, cluster, subject); err != nil {
		return nil, err
	}
	if !o.journal.isFor(p) {
		o.journal.Notes = nil // they are about another migration
	}
	if !e.ClusterScoped {
		if o.namespaceUID, err = NamespaceUID(ctx, cluster.Client, subject.Namespace); err != nil {
			return nil, err
		}
	}
	o.state, err = p.Observe(ctx, cluster, o.journal)
	return o, err
}

// verify fails unless the journal and the live objects match the plan.
func (o *observation) verify() error {
	subject := o.plan.GetOutline().Subject
	switch {
	case o.journal.IsOpen() && !o.journal.isFor(o.plan):
		return fmt.Errorf("another migration of %s is in progress: see `%s`", o.subject, o.journal.Command(o.journal.Plan, "status"))
	case o.namespaceUID != subject.NamespaceUID:
		return fmt.Errorf("namespace %s has UID %q, want %q: it was deleted, or recreated under the same name; %s",
			subject.Namespace, o.namespaceUID, subject.NamespaceUID, o.journal.Abandon())
	}
	return o.state.Verify()
}

// holds reports whether the result of a completed migration is still in place.
func (o *observation) holds() (bool, error) {
	if o.namespaceUID != o.plan.GetOutline().Subject.NamespaceUID {
		return false, nil
	}
	return o.state.Holds()
}

// next decides on the next step of a migration. A completed migration has no next step, even if something has changed since.
func (o *observation) next() (Decision, error) {
	if o.journal.Phase == Completed && o.journal.isFor(o.plan) {
		holds, err := o.holds()
		if err == nil && !holds {
			err = fmt.Errorf("the migration of %s is complete, but somebody has changed its result: make a new plan", o.subject)
		}
		return Decision{}, err
	}
	if err := o.verify(); err != nil {
		return Decision{}, err
	}
	if o.journal.Phase == RollingBack {
		return Decision{}, fmt.Errorf("the migration of %s is being rolled back: finish that with `%s`", o.subject, o.journal.Command(o.plan, "rollback"))
	}
	next, err := o.state.Next()
	switch {
	case err != nil:
		return Decision{}, err
	case next == Decision{} && o.journal.IsOpen():
		return Decision{Step: Complete}, nil
	case next != Decision{} && next.Waits == "" && !o.journal.IsOpen():
		return Decision{Step: RecordPlan}, nil
	}
	return next, nil
}

// back decides on the next step of a rollback.
func (o *observation) back() (Decision, error) {
	switch o.journal.Phase {
	case "":
		return Decision{}, nil
	case Completed:
		return Decision{}, fmt.Errorf("the migration of %s is complete: that is beyond the point of no return", o.subject)
	case RolledBack:
		if !o.state.IsRestored() {
			return Decision{}, fmt.Errorf("the migration of %s was rolled back already, and somebody has changed the object since: there is nothing to roll back", o.subject)
		}
		return Decision{}, nil
	}
	if err := o.verify(); err != nil {
		return Decision{}, err
	}
	next, err := o.state.Back()
	switch {
	case err != nil:
		return Decision{}, err
	case o.journal.Phase != RollingBack:
		return Decision{Step: BeginRollback}, nil
	case next == Decision{}:
		return Decision{Step: CompleteRollback}, nil
	}
	return next, nil
}

// IsConflict reports whether a write failed because the object is not as it was observed.
func IsConflict(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// isTransient reports whether a request may succeed when it is repeated.
func isTransient(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) ||
		utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// endError returns the error of a run whose context has ended.
func endError(ctx context.Context, last Event) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	waited := cmp.Or(last.Waits, "the API server")
	if last.Waits == "" && last.Step != "" {
		waited = fmt.Sprintf("step %s to take effect", last.Step)
	}
	return &TimeoutError{Waited: waited, cause: ctx.Err()}
}
