package fault

import (
	"flag"
	"fmt"
	"hash/fnv"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Scenario describes the faults that a sweep tries at the points of one undisturbed run.
type Scenario struct {
	// Name is the prefix of the names of its subtests.
	Name   string
	Points []Point
	// Sample is for slow clients: without the flag -all-faults, only every Sample-th point is disturbed. 0 means 1.
	Sample int
	// Try runs the client with a fault at a point, checks the result, and reports whether the client reached the
	// point. It starts from the same state each time. Calls are concurrent.
	Try func(t *testing.T, at Point, f Fault) (came bool)
}

// A Tally is the result of a scenario.
type Tally struct {
	// Points counts the disturbed points, and Tried the faults at them.
	Points, Tried int
	// Missed are the points that the client never reached in any attempt, once for each fault.
	Missed []Point
}

// allFaults makes sweeps try every fault at every point, which takes many minutes. Otherwise they try one fault at each point, which
// depends on the point's name.
var (
	allFaults = flag.Bool("all-faults", false, "sweep: try every fault at every point, not one at each")
	oneFault  = flag.Bool("one-fault", false, "sweep: try one fault at one point of each scenario, as make test does")
)

// All reports whether sweeps try every fault at every point.
func All() bool { return *allFaults }

// attempts is how often a fault is tried if the client does not reach its point: controllers run concurrently, and do
// not always send the same requests.
const attempts = 3

// Sweep tries faults at each point of the scenarios, each in a subtest that is named after both: with the flag -all-faults every fault,
// otherwise one, which is the same in every run. A subtest that fails logs the command that runs it alone. Several workers take subtests
// from the scenarios in turn, so that a subtest of one can start with the state that a subtest of another has left. Sweep returns the
// tallies in the order of the scenarios, and prints each on standard output.
func Sweep(t *testing.T, workers int, scenarios ...Scenario) []Tally {
	t.Helper()
	tallies := make([]tally, len(scenarios))
	var queues [][]func()
	for n, s := range scenarios {
		var queue []func()
		for i, point := range s.Points {
			if !s.disturbs(i) {
				continue
			}
			for _, f := range chosen(point) {
				queue = append(queue, func() { try(t, s, point, f, &tallies[n]) })
			}
		}
		queues = append(queues, queue)
	}
	together(workers, roundRobin(queues))
	result := make([]Tally, len(scenarios))
	for i := range tallies {
		result[i] = tallies[i].sum()
		line := fmt.Sprintf("%s/%s: %s", t.Name(), scenarios[i].Name, result[i])
		t.Log(line)
		fmt.Println(line)
	}
	return result
}

// disturbs reports whether the sweep tries faults at the scenario's i-th point.
func (s Scenario) disturbs(i int) bool {
	switch {
	case All():
		return true
	case *oneFault:
		return i == s.middle()
	}
	return i%max(s.Sample, 1) == 0
}

// middle returns the point nearest to the middle, where a client has begun and has not finished, that every run comes to.
// If there is none, it returns the middle.
func (s Scenario) middle() int {
	middle := len(s.Points) / 2
	for distance := range len(s.Points) {
		for _, i := range []int{middle - distance, middle + distance} {
			if i >= 0 && i < len(s.Points) && !s.Points[i].DependsOnTiming() {
				return i
			}
		}
	}
	return middle
}

// chosen returns the faults to try at a point.
func chosen(point Point) []Fault {
	faults := point.Faults()
	if All() {
		return faults
	}
	hash := fnv.New32a()
	hash.Write([]byte(point.String()))
	return faults[hash.Sum32()%uint32(len(faults)):][:1]
}

func (a Tally) String() string {
	text := fmt.Sprintf("%d points disturbed, %d faults tried", a.Points, a.Tried)
	if len(a.Missed) > 0 {
		text += fmt.Sprintf("; %d not, as the client did not reach the point in %d runs: %v", len(a.Missed), attempts, a.Missed)
	}
	return text
}

// CheckMissed fails the test for each point that the client missed although that does not depend on timing, and if it missed
// more than a third of all.
func (a Tally) CheckMissed(t testing.TB, scenario string) {
	t.Helper()
	for _, point := range a.Missed {
		if !point.DependsOnTiming() {
			t.Errorf("%s: the client did not come to %s, although that does not depend on which of its controllers is faster", scenario, point)
		}
	}
	if most := (a.Tried + len(a.Missed)) / 3; len(a.Missed) > most {
		t.Errorf("%s: %d faults were not injected, want at most a third of all: %d", scenario, len(a.Missed), most)
	}
}

func try(t *testing.T, s Scenario, point Point, f Fault, tally *tally) {
	t.Run(strings.Join([]string{s.Name, point.String(), string(f)}, "/"), func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("once more: go test %s -count 1 -all-faults -run '%s'", packagePath(), pattern(t.Name()))
			}
		}()
		came := false
		for i := 0; i < attempts && !came; i++ {
			came = s.Try(t, point, f)
		}
		tally.count(point, came)
	})
}

// pattern returns the argument of -run that selects one test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// packagePath returns the import path of the package under test.
func packagePath() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "."
	}
	return strings.TrimSuffix(info.Path, ".test")
}

// tally counts the results of several workers.
type tally struct {
	mu     sync.Mutex
	points map[Point]bool
	tried  int
	missed []Point
}

func (a *tally) count(point Point, came bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !came {
		a.missed = append(a.missed, point)
		return
	}
	if a.points == nil {
		a.points = map[Point]bool{}
	}
	a.points[point] = true
	a.tried++
}

func (a *tally) sum() Tally {
	slices.SortFunc(a.missed, func(a, b Point) int { return strings.Compare(a.String(), b.String()) })
	return Tally{Points: len(a.points), Tried: a.tried, Missed: a.missed}
}

// roundRobin takes one call from each queue in turn, until all are empty.
func roundRobin(queues [][]func()) []func() {
	var calls []func()
	for i := 0; ; i++ {
		before := len(calls)
		for _, queue := range queues {
			if i < len(queue) {
				calls = append(calls, queue[i])
			}
		}
		if len(calls) == before {
			return calls
		}
	}
}

// together runs calls concurrently.
func together(workers int, calls []func()) {
	queue := make(chan func())
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for call := range queue {
				call()
			}
		})
	}
	for _, call := range calls {
		queue <- call
	}
	close(queue)
	group.Wait()
}
