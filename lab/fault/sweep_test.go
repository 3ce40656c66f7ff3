package fault_test

import (
	"flag"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/fault"
)

// setFlag sets a flag for one test.
func setFlag(t *testing.T, name, value string) {
	set := flag.Lookup(name)
	before := set.Value.String()
	t.Cleanup(func() { set.Value.Set(before) })
	require.NoError(t, set.Value.Set(value))
}

// TestSweepTriesEachFaultAtEachPoint needs no cluster: its scenarios have no client.
func TestSweepTriesEachFaultAtEachPoint(t *testing.T) {
	setFlag(t, "all-faults", "true")
	point := func(verb, name string) fault.Point {
		return fault.Point{Verb: verb, Resource: "secrets", Name: name, Occurrence: 1}
	}
	var mu sync.Mutex
	tries := map[string]int{}
	note := func(at fault.Point, f fault.Fault) int {
		mu.Lock()
		defer mu.Unlock()
		key := at.String() + " " + string(f)
		tries[key]++
		return tries[key]
	}
	write, watch, shy, absent := point("create", "a"), point("watch", "a"), point("watch", "shy"), point("watch", "absent")
	tallies := fault.Sweep(t, 3,
		fault.Scenario{Name: "one", Points: []fault.Point{write, watch}, Try: func(_ *testing.T, at fault.Point, f fault.Fault) bool {
			note(at, f)
			return true
		}},
		fault.Scenario{Name: "other", Points: []fault.Point{shy, absent}, Try: func(_ *testing.T, at fault.Point, f fault.Fault) bool {
			return note(at, f) == 3 && at == shy // is reached in the third run
		}})

	want := []fault.Tally{{Points: 2, Tried: 9}, {Points: 1, Tried: 2, Missed: []fault.Point{absent, absent}}}
	assert.Empty(t, cmp.Diff(want, tallies), "tallies (-want +got)")
	wantTries := map[string]int{
		"watch_secrets_a_1 stale": 1, "watch_secrets_a_1 event-dropped": 1,
		"watch_secrets_shy_1 stale": 3, "watch_secrets_shy_1 event-dropped": 3,
		"watch_secrets_absent_1 stale": 3, "watch_secrets_absent_1 event-dropped": 3,
	}
	for _, f := range []string{"killed-before", "killed-after", "response-dropped", "conflict", "too-many-requests", "server-error", "hang"} {
		wantTries["create_secrets_a_1 "+f] = 1
	}
	assert.Empty(t, cmp.Diff(wantTries, tries), "tries (-want +got)")
}

func TestSweepTriesOneFaultAtEachPoint(t *testing.T) {
	setFlag(t, "all-faults", "false")
	var points []fault.Point
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		points = append(points, fault.Point{Verb: "create", Resource: "secrets", Name: name, Occurrence: 1})
	}
	sweep := func() map[fault.Point]fault.Fault {
		tried := map[fault.Point]fault.Fault{}
		tallies := fault.Sweep(t, 1, fault.Scenario{Name: "one", Points: points, Try: func(_ *testing.T, at fault.Point, f fault.Fault) bool {
			tried[at] = f
			return true
		}})
		assert.Equal(t, []fault.Tally{{Points: len(points), Tried: len(points)}}, tallies)
		return tried
	}
	first := sweep()
	assert.Empty(t, cmp.Diff(first, sweep()), "the faults of two sweeps (-one +other)")
	different := map[fault.Fault]bool{}
	for _, f := range first {
		different[f] = true
	}
	assert.GreaterOrEqualf(t, len(different), 3, "the faults that were tried: %v, want several different ones", first)
}

// One fault alone is at a point that no run misses: otherwise nothing is tried, and the sweep fails.
func TestSweepTriesOneFaultWhereEachRunComes(t *testing.T) {
	setFlag(t, "all-faults", "false")
	setFlag(t, "one-fault", "true")
	point := func(verb string, occurrence int) fault.Point {
		return fault.Point{Verb: verb, Resource: "secrets", Name: "a", Occurrence: occurrence}
	}
	for name, test := range map[string]struct {
		points []fault.Point
		want   fault.Point
	}{
		"in the middle":        {[]fault.Point{point("create", 1), point("patch", 1), point("delete", 1)}, point("patch", 1)},
		"nearest to it":        {[]fault.Point{point("delete", 1), point("create", 1), point("watch", 1), point("update", 1), point("patch", 2)}, point("create", 1)},
		"if there is none: it": {[]fault.Point{point("watch", 1), point("update", 1)}, point("update", 1)},
	} {
		var tried []fault.Point
		fault.Sweep(t, 1, fault.Scenario{Name: name, Points: test.points, Try: func(_ *testing.T, at fault.Point, _ fault.Fault) bool {
			tried = append(tried, at)
			return true
		}})
		assert.Equal(t, []fault.Point{test.want}, tried, name)
	}
}

// TestCheckMissed: a client may miss points that depend on timing, but no others, and not most of them.
func TestCheckMissed(t *testing.T) {
	first := fault.Point{Verb: "patch", Resource: "services", Name: "a", Occurrence: 1}
	second, update, status, watch := first, first, first, first
	second.Occurrence, update.Verb, status.Resource, watch.Verb = 2, "update", "services/status", "watch"
	for name, test := range map[string]struct {
		tally fault.Tally
		fails bool
	}{
		"none":                             {fault.Tally{Tried: 1}, false},
		"those that depend on timing":      {fault.Tally{Tried: 8, Missed: []fault.Point{second, update, status, watch}}, false},
		"one that does not":                {fault.Tally{Tried: 100, Missed: []fault.Point{first}}, true},
		"too many that depend on timing":   {fault.Tally{Tried: 7, Missed: []fault.Point{second, update, status, watch}}, true},
		"all, because none was recognised": {fault.Tally{Missed: []fault.Point{status}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := &verdict{TB: t}
			test.tally.CheckMissed(got, "scenario")
			assert.Equal(t, test.fails, got.failed, "failed")
		})
	}
}

// verdict is a test that may fail.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Errorf(string, ...any) { v.failed = true }
