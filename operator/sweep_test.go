package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/statediff"
)

// TestCrashSweep runs each scenario undisturbed first, and then once for each fault at each point of that run: at each
// write of the operator, and at each watch event. Whatever the fault, the final objects and how often each was created
// and deleted must be the same as without it, the scenario's invariants must hold, and in the end the operator must write
// nothing any more.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	s := &sweep{envs: newPool(t)}
	s.installation = s.undisturbed(t, install)
	s.keepWatch(t)
	var plans []fault.Scenario
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			reference := s.undisturbed(t, sc)
			plans = append(plans, fault.Scenario{Name: sc.name, Points: reference.points, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
				return s.disturbed(t, sc, reference, at, f)
			}})
		})
	}
	for i, tally := range fault.Sweep(t, len(s.envs.idle), plans...) {
		tally.CheckMissed(t, plans[i].Name)
	}
}

// noPoints are the requests that are neither disturbed nor counted. Nothing depends on events, nor here on nodes, all
// of which are ready, and their kubelets write at any time.
var noPoints = []fault.Target{{Resource: "events"}, {Resource: "nodes"}}

type sweep struct {
	envs *pool
	// installation is the outcome of an undisturbed installation.
	installation outcome
}

// undisturbed runs a scenario twice without any fault, fails unless both have the same outcome, and returns that with the
// points of both.
func (s *sweep) undisturbed(t *testing.T, sc scenario) outcome {
	t.Helper()
	var outcomes []outcome
	for range 2 {
		outcomes = append(outcomes, s.run(t, sc, func(*variant) *fault.Injector { return fault.Record(noPoints...) }, nil))
	}
	reference := outcomes[0]
	outcomes[1].mustBe(t, reference)
	if t.Failed() {
		t.Fatalf("%s: two undisturbed runs differ", sc.name)
	}
	known := map[fault.Point]bool{}
	for _, point := range reference.points {
		known[point] = true
	}
	for _, point := range outcomes[1].points {
		if !known[point] {
			reference.points = append(reference.points, point)
		}
	}
	return reference
}

// disturbed runs a scenario with a fault at a point.
func (s *sweep) disturbed(t *testing.T, sc scenario, reference outcome, at fault.Point, f fault.Fault) (came bool) {
	got := s.run(t, sc, func(v *variant) *fault.Injector { return fault.Inject(v.here(at), f, noPoints...) }, &reference)
	got.mustBe(t, reference)
	return got.came
}

// keepWatch makes an undisturbed operator install the driver, and checks in the end that it has written nothing since. It installs it
// again, because whether an operator has applied all objects shows only where they were missing. Controllers resync only once a minute.
func (s *sweep) keepWatch(t *testing.T) {
	env, giveBack := s.envs.take(t, false)
	env.clear()
	env.installed = false
	r := &run{variantEnv: env, injector: fault.Record(noPoints...)}
	install.prepare(r)
	r.start()
	r.settle(install.end, &s.installation)
	r.mustStaySettled()
	before := len(r.injector.Writes())
	t.Cleanup(func() {
		r.stop()
		giveBack()
		assert.Empty(t, r.injector.Writes()[before:], "while the driver was installed and nothing changed, the operator wrote")
	})
}

// An outcome is the result of a run.
type outcome struct {
	came   bool // to the point of the fault
	points []fault.Point
	state  map[string]any
	counts map[fault.Point]fault.Count
}

func (o outcome) mustBe(t *testing.T, want outcome) {
	t.Helper()
	assert.Empty(t, statediff.Difference(want.state, o.state), "final objects (-undisturbed +now)")
	assert.Empty(t, cmp.Diff(want.counts, o.counts), "creations and deletions of objects (-undisturbed +now)")
}
