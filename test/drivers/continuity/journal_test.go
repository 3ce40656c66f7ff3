package continuity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/lab/cluster"
)

// journal has an entry for each step.
type journal []entry

// entry is the record of a step.
type entry struct {
	what         string
	began, ended time.Time
	pause        time.Duration // the longest one of all writers; 0 if there was none to pause
	notes        []string
}

func (j *journal) begin(what string) { *j = append(*j, entry{what: what, began: time.Now()}) }
func (j journal) end()               { j[len(j)-1].ended = time.Now() }
func (j journal) began() time.Time   { return j[len(j)-1].began }

func (j journal) paused(pause time.Duration) { j[len(j)-1].pause = max(j[len(j)-1].pause, pause) }

// note adds an event to the step's entry.
func (j journal) note(format string, args ...any) {
	j[len(j)-1].notes = append(j[len(j)-1].notes, fmt.Sprintf(format, args...))
}

// table is the journal as text, with the operator's writes.
func (j journal) table(writes []cluster.AuditEvent) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "STEP\tTOOK\tLONGEST PAUSE\tOPERATOR'S WRITES\tMOST OF THEM")
	for _, e := range j {
		pause := "no writer"
		if e.pause > 0 {
			pause = e.pause.Round(time.Millisecond).String()
		}
		all, most := count(writes, e.began, e.ended)
		fmt.Fprintf(columns, "%s\t%.0f s\t%s\t%d\t%s\n", e.what, e.ended.Sub(e.began).Seconds(), pause, all, most)
	}
	columns.Flush()
	for _, e := range j {
		if len(e.notes) > 0 {
			fmt.Fprintf(&text, "\n%s:\n  %s\n", e.what, strings.Join(e.notes, "\n  "))
		}
	}
	return text.String()
}

// count returns the number of requests in a time, and the most frequent ones.
func count(events []cluster.AuditEvent, from, to time.Time) (all int, most string) {
	kinds := map[string]int{}
	for _, event := range events {
		if !event.Received.Before(from) && event.Received.Before(to) {
			all++
			kinds[event.Verb+" "+event.Resource]++
		}
	}
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		if kinds[a] != kinds[b] {
			return kinds[b] - kinds[a]
		}
		return strings.Compare(a, b)
	})
	var shown []string
	for _, name := range names[:min(3, len(names))] {
		shown = append(shown, fmt.Sprintf("%d %s", kinds[name], name))
	}
	return all, strings.Join(shown, ", ")
}

// TestJournal: an entry has the writes of its time and no others.
func TestJournal(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	j := journal{
		{what: "one", began: began, ended: at(2), pause: 1500 * time.Microsecond, notes: []string{"something"}},
		{what: "two", began: at(2), ended: at(3)},
	}
	event := func(second int, verb, resource string) cluster.AuditEvent {
		return cluster.AuditEvent{Received: at(second), Verb: verb, Resource: resource}
	}
	got := j.table([]cluster.AuditEvent{
		event(-1, "create", "pods"), event(0, "patch", "nodes"), event(1, "create", "events"), event(1, "create", "events"), event(2, "delete", "pods"), event(3, "patch", "nodes"),
	})
	want := `STEP  TOOK  LONGEST PAUSE  OPERATOR'S WRITES  MOST OF THEM
one   2 s   2ms            3                  2 create events, 1 patch nodes
two   1 s   no writer      1                  1 delete pods

one:
  something
`
	assert.Empty(t, cmp.Diff(want, got), "the journal (-want +got)")
}
