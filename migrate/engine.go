package migrate

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// Engine runs migrations of one kind, whose plans are of type P.
type Engine[P Plan] struct {
	// Name is the command, as in "berth NAME apply". The names and labels of journals contain it.
	Name string
	// Noun names a migration in sentences, with its article, as in "a switch".
	Noun string
	// Kind is the kind of the object that is migrated, such as Subscription.
	Kind string
	// ClusterScoped says that the object has no namespace.
	ClusterScoped bool
	// Schema is the value of Outline.Schema. It changes with the JSON fields of the plan and the names of steps.
	Schema string
	// StatusSchema is the value of Status.Schema. It changes with the JSON fields of a Status.
	StatusSchema string
	// New returns an empty plan to decode JSON into.
	New func() P
	// Changes returns the differences that matter between two plans, each as a phrase. It returns none for the same plan, made at
	// different times.
	Changes func(was, now P) []string
	// Verb, if set, returns the command's names for "apply" and "rollback" of a plan.
	Verb func(p P, verb string) string
}

// Plan is the plan of a migration. It is plain data that JSON can hold; its type embeds an Outline.
type Plan interface {
	GetOutline() *Outline
	// Validate checks the fields that were read from JSON, except the Outline's.
	Validate() error
	// ValidateNotes checks the journal's notes.
	ValidateNotes(notes map[string]string) error
	// ListSteps returns the steps that carry out the plan, without the engine's own steps.
	ListSteps() []Step
	// Does describes a step of the migration or of its rollback, whether or not ListSteps returns it. The description is empty if there is
	// no such step.
	Does(step StepName) string
	// Arguments returns the command line arguments that select this migration, to append to "berth NAME VERB": each has a space before it,
	// and is escaped for a shell as escape.Command does it.
	Arguments(verb string) string
	// Describe writes the source and the target of the migration.
	Describe(lines *escape.Lines)
	// Observe reads the part of the cluster's state that the next step depends on.
	Observe(ctx context.Context, cluster Cluster, j *Journal) (State, error)
}

// State is the observed state of a migration.
type State interface {
	// Verify fails unless the live objects are the planned ones, changed only by the migration.
	Verify() error
	// Next returns the next step, or the zero Decision if the migration is complete. It is called if Verify
	// succeeds. An error says why there is no next step until somebody intervenes.
	Next() (Decision, error)
	// Holds reports whether the result of a complete migration is still in place. It is false if somebody has changed the
	// result since, so that another migration can be planned. An error says what somebody has removed since.
	Holds() (bool, error)
	// Back returns the next step of the rollback, or the zero Decision if it is complete. It is called if Verify
	// succeeds, and fails beyond the point of no return.
	Back() (Decision, error)
	// IsRestored reports whether the migrated object is as it was before the migration.
	IsRestored() bool
	// Execute performs the write of a step. A conflict is not an error of the migration: the engine observes and decides again.
	Execute(ctx context.Context, c client.Client, step StepName) error
}

// Request is a user's request for a migration.
type Request[P Plan] interface {
	// String names the subject in messages.
	String() string
	// Matches reports whether the plan of a journal is about the requested subject.
	Matches(p P) bool
	// Conflicts fails if the request asks for something other than the plan.
	Conflicts(p P) error
	// Find returns the requested subject as it is now. It returns nil if no subject matches, and fails if several do.
	Find(ctx context.Context, cluster Cluster) (*Subject, error)
	// Plan makes a new plan. The engine sets the Outline's Schema, Safe and Steps, and adds the journal to Objects.
	Plan(ctx context.Context, cluster Cluster) (P, error)
}

// Decision is the next step: either a write to execute, or something to wait for. The zero Decision means that no
// step is left.
type Decision struct {
	Step StepName
	// Waits says what the step waits for. It is empty if the step can be executed.
	Waits string
}

// Execute returns the decision to execute a step.
func Execute(step StepName) (Decision, error) { return Decision{Step: step}, nil }

// Wait returns the decision to wait before a step. The text says what for.
func Wait(step StepName, format string, args ...any) (Decision, error) {
	return Decision{Step: step, Waits: fmt.Sprintf(format, args...)}, nil
}

// WaitGone returns the decision to wait before a step until an object that is being deleted is gone. The text names the object's
// finalizers, which may keep the object for ever.
func WaitGone(step StepName, what string, object metav1.Object) (Decision, error) {
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		return Wait(step, "%s to be gone, which has the finalizers %s", what, strings.Join(finalizers, ", "))
	}
	return Wait(step, "%s to be gone", what)
}

// NoStep returns the decision of a stage that is complete.
func NoStep() (Decision, error) { return Decision{}, nil }
