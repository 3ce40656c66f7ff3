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

// A Plan is what a sweep does with the points of one undisturbed run.
type Plan struct {
	// Name begins the names of the plan's subtests.
	Name   string
	Points []Point
	// Sample is for clients that take long: without the flag -all-faults, only every Sample-th point is
	// disturbed. 0 stands for 1.
	Sample int
	// Try runs the client with a fault at a point, checks what comes of it, and tells whether the client
	// came to the point. It begins in the same state each time, and is called several times at once.
	Try func(t *testing.T, at Point, f Fault) (came bool)
}

// A Tally is what has become of a plan.
type Tally struct {
	// Points counts the points that have been disturbed, and Tried the faults that were tried at them.
	Points, Tried int
	// Missed are the points, once for each fault, to which the client did not come in any of the attempts.
	Missed []Point
}

// allFaults has sweeps try every fault at every point. That takes many minutes; without it, one fault is
// tried at each point, and at the next another.
var allFaults = flag.Bool("all-faults", false, "sweep: try every fault at every point, not one at each")

// attempts is how often a fault is tried whose point does not come up: controllers run side by side, and
// do not always do the same.
const attempts = 3

// Sweep tries faults at each point of the plans, each in a subtest of its own, which is named after both:
// with the flag -all-faults every fault, without it one, which is the same in every run. A subtest that
// fails tells the command that runs it alone. The plans are worked on in turns, so
// that one may begin with what another has left, by several workers at the same time. The tallies are in
// the order of the plans, and are told in a line each on standard output.
func Sweep(t *testing.T, workers int, plans ...Plan) []Tally {
	t.Helper()
	tallies := make([]tally, len(plans))
	var queues [][]func()
	for n, plan := range plans {
		var queue []func()
		for i, point := range plan.Points {
			if !*allFaults && i%max(plan.Sample, 1) > 0 {
				continue
			}
			for _, f := range chosen(point) {
				queue = append(queue, func() { try(t, plan, point, f, &tallies[n]) })
			}
		}
		queues = append(queues, queue)
	}
	together(workers, roundRobin(queues))
	result := make([]Tally, len(plans))
	for i := range tallies {
		result[i] = tallies[i].sum()
		line := fmt.Sprintf("%s/%s: %s", t.Name(), plans[i].Name, result[i])
		t.Log(line)
		fmt.Println(line)
	}
	return result
}

// chosen are the faults to try at a point.
func chosen(point Point) []Fault {
	faults := point.Faults()
	if *allFaults {
		return faults
	}
	hash := fnv.New32a()
	hash.Write([]byte(point.String()))
	return faults[hash.Sum32()%uint32(len(faults)):][:1]
}

func (a Tally) String() string {
	text := fmt.Sprintf("%d points disturbed, %d faults tried", a.Points, a.Tried)
	if len(a.Missed) > 0 {
		text += fmt.Sprintf("; %d not, as the client did not come there in %d runs: %v", len(a.Missed), attempts, a.Missed)
	}
	return text
}

func try(t *testing.T, plan Plan, point Point, f Fault, tally *tally) {
	t.Run(strings.Join([]string{plan.Name, point.String(), string(f)}, "/"), func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("once more: go test %s -count 1 -all-faults -run '%s'", packagePath(), pattern(t.Name()))
			}
		}()
		came := false
		for i := 0; i < attempts && !came; i++ {
			came = plan.Try(t, point, f)
		}
		tally.count(point, came)
	})
}

// pattern is the argument of -run that selects one test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// packagePath is the import path of the package whose test this is.
func packagePath() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "."
	}
	return strings.TrimSuffix(info.Path, ".test")
}

// tally counts what several workers do.
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

// roundRobin takes one call of each queue, and begins again with the first, until there is none left.
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

// together makes calls, several at the same time.
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
