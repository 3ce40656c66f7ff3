package switchover

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
// done next is never taken from here, but from what the cluster shows, all but how long OLM still has in a rollback:
// that shows nowhere.
type Journal struct {
	Plan  *Plan
	State State
	// Entries are what was about to be done, the oldest first, each in a line with its time.
	Entries []string

	stored *corev1.ConfigMap
}

// journalLabels are on the ConfigMaps that hold journals.
var journalLabels = map[string]string{"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "switch"}

// The keys of a journal's ConfigMap.
const (
	planKey    = "plan.json"
	stateKey   = "state"
	entriesKey = "log"
)

// journalName names the ConfigMap of the journal of a Subscription, which stands beside that.
func journalName(subscription string) string { return "berth-switch-" + subscription }

// open tells whether the switch is under way.
func (j *Journal) open() bool { return j != nil && (j.State == Applying || j.State == RollingBack) }

// findJournals returns the journals about a package, as it is called before the switch or after it, in a
// namespace, or in all of them if that is empty.
func findJournals(ctx context.Context, c client.Client, namespace, pkg string) ([]*Journal, error) {
	list := &corev1.ConfigMapList{}
	if err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels(journalLabels)); err != nil {
		return nil, fmt.Errorf("looking for journals of earlier switches: %w", err)
	}
	var found []*Journal
	for i := range list.Items {
		j, err := parseJournal(&list.Items[i])
		if err != nil {
			return nil, err
		}
		if pkg == j.Plan.From.Package || pkg == j.Plan.To.Package {
			found = append(found, j)
		}
	}
	return found, nil
}

func parseJournal(stored *corev1.ConfigMap) (*Journal, error) {
	p, err := Read(strings.NewReader(stored.Data[planKey]))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s, data[%q]: %w; if nobody needs that journal, delete it", stored.Namespace, stored.Name, planKey, err)
	}
	return &Journal{Plan: p, State: State(stored.Data[stateKey]), Entries: strings.FieldsFunc(stored.Data[entriesKey], func(r rune) bool { return r == '\n' }), stored: stored}, nil
}

// begin writes a journal for a plan, in place of that of an earlier switch, if there is one.
func begin(ctx context.Context, c client.Client, earlier *Journal, p *Plan) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Subscription.Namespace, Name: journalName(p.Subscription.Name)}}
	if earlier != nil {
		written = earlier.stored.DeepCopy()
	}
	written.Labels = journalLabels
	written.Data = map[string]string{planKey: string(text), stateKey: string(Applying), entriesKey: entry(Record)}
	if earlier == nil {
		return c.Create(ctx, written)
	}
	return c.Update(ctx, written) // it fails if somebody has written since
}

// note writes that a step is about to be taken, or the switch is in another state.
func (j *Journal) note(ctx context.Context, c client.Client, step StepName, state State) error {
	changed := j.stored.DeepCopy()
	changed.Data[stateKey] = string(state)
	changed.Data[entriesKey] += entry(step)
	return c.Patch(ctx, changed, client.MergeFromWithOptions(j.stored, client.MergeFromWithOptimisticLock{}))
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
