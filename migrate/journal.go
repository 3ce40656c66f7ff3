package migrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// Phase is how far a migration is.
type Phase string

// The phases.
const (
	Applying    Phase = "Applying"    // it is in progress
	Completed   Phase = "Completed"   // it is complete
	RollingBack Phase = "RollingBack" // its rollback is in progress
	RolledBack  Phase = "RolledBack"  // its rollback is complete
)

// Journal is the record of a migration in the cluster: its plan, and the steps with their start times. The next step is decided from the
// observed state and not from the journal. The only exceptions are facts that the cluster does not show; a migration keeps them in Notes.
type Journal struct {
	Plan  Plan
	Phase Phase // empty if there is no journal yet
	// Entries are the steps that were started, the oldest first.
	Entries []Entry
	// Notes are the migration's additional data, by key of the ConfigMap.
	Notes map[string]string

	// command returns the command line of a verb, such as "rollback", for the migration of a plan.
	command         func(p Plan, verb string) string
	parse           func(*corev1.ConfigMap) (*Journal, error)
	namespace, name string
	stored          *corev1.ConfigMap
}

// Entry is the start of a step.
type Entry struct {
	At   time.Time
	Step StepName
}

func (e Entry) String() string { return e.At.UTC().Format(time.RFC3339) + " " + string(e.Step) }

// The keys of a journal's ConfigMap. All others are notes.
const (
	planKey    = "plan.json"
	phaseKey   = "phase"
	entriesKey = "log"
)

// maxEntries is the maximum number of entries. When more are written, the oldest are dropped.
const maxEntries = 500

// labels returns the labels of the ConfigMaps that hold journals.
func (e Engine[P]) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": e.Name}
}

// journalName returns the name of the journal of a subject. The name of a namespace contains no dot, so no two subjects share a journal. A
// hash replaces names that are too long.
func (e Engine[P]) journalName(s Subject) string {
	name := "berth-" + e.Name + "." + s.Namespace + "." + s.Name
	if e.ClusterScoped {
		name = "berth-" + e.Name + "." + s.Name
	}
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	hash := sha256.Sum256([]byte(s.Namespace + "." + s.Name))
	return "berth-" + e.Name + "-long." + hex.EncodeToString(hash[:])
}

// IsOpen reports whether the migration is in progress.
func (j *Journal) IsOpen() bool { return j.Phase == Applying || j.Phase == RollingBack }

// Command returns a command line for the migration of a plan, such as its rollback.
func (j *Journal) Command(p Plan, verb string) string { return j.command(p, verb) }

// Abandon says how to start over.
func (j *Journal) Abandon() string {
	if j.stored == nil {
		return "make a new plan"
	}
	return fmt.Sprintf("to abandon this migration as it stands, run `%s` and make a new plan", escape.Command("kubectl -n %s delete configmap %s", j.namespace, j.name))
}

// findJournals returns the journals that match. It ignores invalid journals, with a warning.
func (e Engine[P]) findJournals(ctx context.Context, cluster Cluster, matches func(P) bool) ([]*Journal, error) {
	list := &corev1.ConfigMapList{}
	if err := cluster.Client.List(ctx, list, client.InNamespace(cluster.journals()), client.MatchingLabels(e.labels())); err != nil {
		return nil, fmt.Errorf("listing journals in namespace %s: %w", cluster.journals(), err)
	}
	var found []*Journal
	for i := range list.Items {
		j, err := e.ParseJournal(&list.Items[i])
		if err != nil {
			if cluster.Warn != nil {
				cluster.Warn("ignored: " + err.Error())
			}
			continue
		}
		if matches(j.Plan.(P)) {
			found = append(found, j)
		}
	}
	return found, nil
}

// ReadJournal returns the journal of a subject, which it reads by its name. If the subject has no journal, it returns an empty one,
// without plan and phase.
func (e Engine[P]) ReadJournal(ctx context.Context, cluster Cluster, s Subject) (*Journal, error) {
	stored := &corev1.ConfigMap{}
	found, err := Find(ctx, cluster.Client, stored, cluster.journals(), e.journalName(s))
	if err != nil {
		return nil, fmt.Errorf("reading the journal of %s %s: %w", e.Kind, s, err)
	}
	if !found {
		return e.newJournal(cluster.journals(), e.journalName(s)), nil
	}
	return e.ParseJournal(stored)
}

func (e Engine[P]) newJournal(namespace, name string) *Journal {
	return &Journal{
		namespace: namespace, name: name, parse: e.ParseJournal,
		command: func(p Plan, verb string) string { return e.command(namespace, p, verb) },
	}
}

// ParseJournal reads a journal from a ConfigMap. It fails unless every field is valid.
func (e Engine[P]) ParseJournal(stored *corev1.ConfigMap) (*Journal, error) {
	j := e.newJournal(stored.Namespace, stored.Name)
	j.stored = stored
	if err := e.decode(j); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s is not a valid journal: %w; delete it if nobody needs it", stored.Namespace, stored.Name, err)
	}
	return j, nil
}

// decode fills a journal with the data of its ConfigMap.
func (e Engine[P]) decode(j *Journal) error {
	for key := range j.stored.BinaryData {
		return fmt.Errorf("binaryData has key %q, want none", key)
	}
	p, err := e.Read(strings.NewReader(j.stored.Data[planKey]))
	if err != nil {
		return fmt.Errorf("data[%q]: %w", planKey, err)
	}
	for i := range p.GetOutline().Checks { // the advice was for whoever made the plan, and commands from a journal are shown to nobody
		p.GetOutline().Checks[i].Do = ""
	}
	j.Plan, j.Phase = p, Phase(j.stored.Data[phaseKey])
	switch o, want := p.GetOutline(), e.journalName(p.GetOutline().Subject); {
	case j.name != want:
		return fmt.Errorf("metadata.name: it holds a plan for %s %s, whose journal is named %s", e.Kind, o.Subject, want)
	case !o.Safe:
		return fmt.Errorf("data[%q]: safe is false, and such a plan is never applied", planKey)
	case !slices.Contains([]Phase{Applying, Completed, RollingBack, RolledBack}, j.Phase):
		return fmt.Errorf("data[%q]: %q is not a phase", phaseKey, j.Phase)
	}
	if j.Entries, err = e.decodeEntries(p, j.stored.Data[entriesKey]); err != nil {
		return fmt.Errorf("data[%q]: %w", entriesKey, err)
	}
	j.Notes = notesOf(j.stored.Data)
	if err := p.ValidateNotes(j.Notes); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

func (e Engine[P]) decodeEntries(p P, text string) (entries []Entry, err error) {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	if len(lines) > maxEntries {
		return nil, fmt.Errorf("it has %d lines, want at most %d", len(lines), maxEntries)
	}
	for _, line := range lines {
		at, step, _ := strings.Cut(line, " ")
		entry := Entry{Step: StepName(step)}
		if entry.At, err = time.Parse(time.RFC3339, at); err != nil || e.Does(p, entry.Step) == "" {
			return nil, fmt.Errorf("line %q is not a time and a step", line)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func notesOf(data map[string]string) map[string]string {
	notes := maps.Clone(data)
	maps.DeleteFunc(notes, func(key, _ string) bool { return slices.Contains([]string{planKey, phaseKey, entriesKey}, key) })
	return notes
}

// encode returns a plan as journals hold it. It fails if the plan is too large.
func encode(p Plan) ([]byte, error) {
	text, err := json.MarshalIndent(p, "", "  ")
	if err == nil && len(text) > maxPlan {
		err = fmt.Errorf("the plan has %d bytes, and its journal holds at most %d", len(text), maxPlan)
	}
	return text, err
}

// isFor reports whether the journal holds exactly this plan, apart from the advice (Do) of its checks.
func (j *Journal) isFor(p Plan) bool {
	if j.Plan == nil {
		return false
	}
	o := p.GetOutline()
	advised := o.Checks
	defer func() { o.Checks = advised }()
	o.Checks = slices.Clone(advised)
	for i := range o.Checks {
		o.Checks[i].Do = ""
	}
	one, err := encode(j.Plan)
	other, otherErr := encode(p)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// begin writes a new journal for a plan, in place of the journal of an earlier migration.
func (e Engine[P]) begin(ctx context.Context, c client.Client, earlier *Journal, p P) error {
	text, err := encode(p)
	if err != nil {
		return err
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: earlier.namespace, Name: earlier.name}}
	if earlier.stored != nil {
		written = earlier.stored.DeepCopy()
	}
	written.Labels = e.labels()
	written.Data = map[string]string{planKey: string(text), phaseKey: string(Applying), entriesKey: now(RecordPlan).String() + "\n"}
	if _, err := e.ParseJournal(written); err != nil { // otherwise nobody could resume it or roll it back
		return fmt.Errorf("the journal could not be read again: %w", err)
	}
	if earlier.stored == nil {
		return c.Create(ctx, written)
	}
	return c.Update(ctx, written) // fails on a conflict
}

// start records that a step is started, or that the migration enters another phase.
func (j *Journal) start(ctx context.Context, c client.Client, step StepName, phase Phase) error {
	var lines strings.Builder
	for _, entry := range append(slices.Clone(j.Entries[max(0, len(j.Entries)+1-maxEntries):]), now(step)) {
		lines.WriteString(entry.String() + "\n")
	}
	return j.patch(ctx, c, func(data map[string]string) { data[phaseKey], data[entriesKey] = string(phase), lines.String() })
}

// isStarted reports whether the step is the last one that was started, at a time that is not in the future by this machine's clock.
func (j *Journal) isStarted(step StepName) bool {
	if len(j.Entries) == 0 {
		return false
	}
	last := j.Entries[len(j.Entries)-1]
	return last.Step == step && !last.At.After(time.Now())
}

// WriteNotes changes the notes.
func (j *Journal) WriteNotes(ctx context.Context, c client.Client, change func(notes map[string]string)) error {
	return j.patch(ctx, c, change)
}

// patch changes the data of the journal. It fails with a conflict if somebody else has changed the journal since it was read.
func (j *Journal) patch(ctx context.Context, c client.Client, change func(data map[string]string)) error {
	changed := j.stored.DeepCopy()
	change(changed.Data)
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(j.stored, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	written, err := j.parse(changed)
	if err == nil {
		*j = *written
	}
	return err
}

func now(step StepName) Entry { return Entry{At: time.Now(), Step: step} }
