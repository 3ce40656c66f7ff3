package switchover

import (
	"bytes"
	"cmp"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultJournalNamespace is where journals are unless an administrator says otherwise. No tenant can write there,
// and none can make a namespace of that name.
const DefaultJournalNamespace = metav1.NamespaceSystem

// State is how far a switch is.
type State string

// The states.
const (
	Applying    State = "Applying"
	Completed   State = "Completed"
	RollingBack State = "RollingBack"
	RolledBack  State = "RolledBack"
)

// Journal is what the cluster remembers of a switch: its plan, and what has been done when. What has to be
// done next is never taken from here, but from what the cluster shows, all but two things that show nowhere: how long
// OLM still has in a rollback, and which Subscription is the one that the switch itself has made.
type Journal struct {
	Plan  *Plan
	State State
	// Entries are what was about to be done, the oldest first, each in a line with its time.
	Entries []string

	renewal renewal
	stored  *corev1.ConfigMap
}

// renewal tells the Subscription that a switch makes anew from one that somebody else makes meanwhile under the same
// name.
type renewal struct {
	// nonce is written here before the Subscription is made, which has it as an annotation.
	nonce string
	// uid is that of the Subscription, written once it is there.
	uid types.UID
}

// journalLabels are on the ConfigMaps that hold journals.
var journalLabels = map[string]string{"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "switch"}

// The keys of a journal's ConfigMap.
const (
	planKey    = "plan.json"
	stateKey   = "state"
	entriesKey = "log"
	nonceKey   = "renewed-nonce"
	uidKey     = "renewed-uid"
)

// maxEntries is how many entries a journal keeps.
const maxEntries = 500

// journalName names the ConfigMap of the journal of a Subscription. A namespace has no dot in its name, so that no two
// Subscriptions share one. Where the names are too long, a hash stands for them.
func journalName(s Subscription) string {
	name := "berth-switch." + s.Namespace + "." + s.Name
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	hash := sha256.Sum256([]byte(s.Namespace + "." + s.Name))
	return "berth-switch-long." + hex.EncodeToString(hash[:])
}

// open tells whether the switch is under way.
func (j *Journal) open() bool { return j != nil && (j.State == Applying || j.State == RollingBack) }

// journals is the namespace of journals.
func (c Cluster) journals() string { return cmp.Or(c.JournalNamespace, DefaultJournalNamespace) }

// findJournals returns the journals about a package, as it is called before the switch or after it, and about a
// Subscription of a namespace, or of any if that is empty. What cannot be read as a journal is named in a warning.
func (c Cluster) findJournals(ctx context.Context, namespace, pkg string) ([]*Journal, error) {
	list := &corev1.ConfigMapList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.journals()), client.MatchingLabels(journalLabels)); err != nil {
		return nil, fmt.Errorf("looking for journals of earlier switches in namespace %s: %w", c.journals(), err)
	}
	var found []*Journal
	for i := range list.Items {
		j, err := parseJournal(&list.Items[i])
		if err != nil {
			if c.Warn != nil {
				c.Warn("ignored: " + err.Error())
			}
			continue
		}
		if (pkg == j.Plan.From.Package || pkg == j.Plan.To.Package) && (namespace == "" || namespace == j.Plan.Subscription.Namespace) {
			found = append(found, j)
		}
	}
	return found, nil
}

// journalOf returns the journal of a Subscription, or nil.
func (c Cluster) journalOf(ctx context.Context, s Subscription) (*Journal, error) {
	stored := &corev1.ConfigMap{}
	if found, err := find(ctx, c.Client, stored, c.journals(), journalName(s)); !found {
		return nil, err
	}
	return parseJournal(stored)
}

// parseJournal reads a journal, and fails unless it is one to the letter.
func parseJournal(stored *corev1.ConfigMap) (*Journal, error) {
	fault := func(what string, err error) error {
		return fmt.Errorf("ConfigMap %s/%s is no journal that can be read: %s: %w; if nobody needs it, delete it", stored.Namespace, stored.Name, what, err)
	}
	known := []string{planKey, stateKey, entriesKey, nonceKey, uidKey}
	for _, key := range slices.Concat(slices.Sorted(maps.Keys(stored.Data)), slices.Sorted(maps.Keys(stored.BinaryData))) {
		if _, text := stored.Data[key]; !text || !slices.Contains(known, key) {
			return nil, fault("data", fmt.Errorf("key %q is there, want only %q", key, known))
		}
	}
	p, err := Read(strings.NewReader(stored.Data[planKey]))
	if err != nil {
		return nil, fault(fmt.Sprintf("data[%q]", planKey), err)
	}
	j := &Journal{
		Plan: p, State: State(stored.Data[stateKey]), stored: stored,
		Entries: strings.FieldsFunc(stored.Data[entriesKey], func(r rune) bool { return r == '\n' }),
		renewal: renewal{stored.Data[nonceKey], types.UID(stored.Data[uidKey])},
	}
	switch want := journalName(p.Subscription); {
	case stored.Name != want:
		return nil, fault("metadata.name", fmt.Errorf("it holds a plan for Subscription %s, whose journal is called %s", p.Subscription, want))
	case !p.Safe:
		return nil, fault(fmt.Sprintf("data[%q]", planKey), fmt.Errorf("safe is false, and no such plan is ever begun"))
	case !slices.Contains([]State{Applying, Completed, RollingBack, RolledBack}, j.State):
		return nil, fault(fmt.Sprintf("data[%q]", stateKey), fmt.Errorf("%q is no state", j.State))
	case len(j.Entries) > maxEntries:
		return nil, fault(fmt.Sprintf("data[%q]", entriesKey), fmt.Errorf("it has %d lines, want at most %d", len(j.Entries), maxEntries))
	}
	for _, line := range j.Entries {
		at, step, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339, at); err != nil || !StepName(step).known() {
			return nil, fault(fmt.Sprintf("data[%q]", entriesKey), fmt.Errorf("line %q is not a time and a step", line))
		}
	}
	if err := j.renewal.check(); err != nil {
		return nil, fault("data", err)
	}
	return j, nil
}

func (r renewal) check() error {
	if _, err := hex.DecodeString(r.nonce); err != nil || r.nonce != "" && len(r.nonce) != nonceLength {
		return fmt.Errorf("%s is %q, want %d hexadecimal digits", nonceKey, r.nonce, nonceLength)
	}
	if r.uid == "" {
		return nil
	}
	if r.nonce == "" {
		return fmt.Errorf("%s is there without %s", uidKey, nonceKey)
	}
	return checkUID(uidKey, r.uid)
}

// encoded is a plan as journals hold it. It fails if the plan is too large for one.
func (p *Plan) encoded() ([]byte, error) {
	text, err := json.MarshalIndent(p, "", "  ")
	if err == nil && len(text) > maxPlan {
		err = fmt.Errorf("the plan has %d bytes, and its journal holds at most %d", len(text), maxPlan)
	}
	return text, err
}

// equal tells whether two plans are the same to the letter.
func (p *Plan) equal(other *Plan) bool {
	one, faultOfOne := p.encoded()
	two, faultOfTwo := other.encoded()
	return faultOfOne == nil && faultOfTwo == nil && bytes.Equal(one, two)
}

// begin writes a journal for a plan, in place of that of an earlier switch, if there is one.
func (c Cluster) begin(ctx context.Context, earlier *Journal, p *Plan) error {
	text, err := p.encoded()
	if err != nil {
		return err
	}
	if _, err := Read(bytes.NewReader(text)); err != nil { // or else nobody could go on, or back
		return fmt.Errorf("the plan could not be read from its journal: %w", err)
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.journals(), Name: journalName(p.Subscription)}}
	if earlier != nil {
		written = earlier.stored.DeepCopy()
	}
	written.Labels = journalLabels
	written.Data = map[string]string{planKey: string(text), stateKey: string(Applying), entriesKey: entry(Record)}
	if earlier == nil {
		return c.Client.Create(ctx, written)
	}
	return c.Client.Update(ctx, written) // it fails if somebody has written since
}

// note writes that a step is about to be taken, or the switch is in another state.
func (j *Journal) note(ctx context.Context, c client.Client, step StepName, state State) error {
	return j.write(ctx, c, func(data map[string]string) {
		data[stateKey] = string(state)
		lines := append(slices.Clone(j.Entries), strings.TrimSuffix(entry(step), "\n"))
		data[entriesKey] = strings.Join(lines[max(0, len(lines)-maxEntries):], "\n") + "\n"
	})
}

// write changes a journal, if it is as it was read, and takes in what it is then.
func (j *Journal) write(ctx context.Context, c client.Client, change func(data map[string]string)) error {
	changed := j.stored.DeepCopy()
	change(changed.Data)
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(j.stored, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	written, err := parseJournal(changed)
	if err == nil {
		*j = *written
	}
	return err
}

// last is the step that was begun last.
func (j *Journal) last() StepName {
	if len(j.Entries) == 0 {
		return ""
	}
	_, step, _ := strings.Cut(j.Entries[len(j.Entries)-1], " ")
	return StepName(step)
}

func entry(step StepName) string {
	return time.Now().UTC().Format(time.RFC3339) + " " + string(step) + "\n"
}
