package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/statediff"
)

const (
	// runLimit bounds how long a run may take to settle. It is far longer than a run, for busy machines: a removal that
	// waits pauses ten times as long as it takes to observe the cluster.
	runLimit = 10 * time.Minute
	// quiet is for how long an operator that has settled sends no requests.
	quiet = 500 * time.Millisecond
	// rounds is how often an operator may have something left to write when it syncs again: a fault may have delayed it.
	rounds = 3
	// nudgeAnnotation on a ClusterCSIDriver has no meaning to the operator.
	nudgeAnnotation = "example.com/nudge"
)

// run is one run of a scenario.
type run struct {
	*variantEnv
	injector *fault.Injector
	stop     func()
}

// run runs a scenario until the operator has settled, in the state of the reference if there is one.
func (s *sweep) run(t *testing.T, sc scenario, injector func(*variant) *fault.Injector, reference *outcome) outcome {
	t.Helper()
	env, giveBack := s.envs.take(t, sc.installed)
	defer giveBack()
	if sc.installed && !env.installed {
		env.clear()
		s.installIn(env)
	}
	if !sc.installed {
		env.clear()
	}
	env.installed = false
	r := &run{variantEnv: env, injector: injector(env.variant)}
	sc.prepare(r)
	r.start()
	defer r.stop()
	if sc.installed {
		r.settle(install.end, nil)
	}
	sc.play(r)
	r.settle(sc.end, reference)
	r.mustStaySettled()
	r.stop()
	got := r.outcome()
	for _, violation := range append(sc.violations(r), r.violations()...) {
		t.Error(violation)
	}
	env.installed = statediff.Difference(s.installation.state, got.state) == ""
	return got
}

// installIn runs an undisturbed operator to install the driver.
func (s *sweep) installIn(env *variantEnv) {
	env.t.Helper()
	r := &run{variantEnv: env, injector: fault.Record(noPoints...)}
	install.prepare(r)
	r.start()
	defer r.stop()
	r.settle(install.end, &s.installation)
}

// start runs the operator until stop is called. A crash restarts it.
func (r *run) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- r.injector.Run(ctx, r.cfg, func(ctx context.Context, cfg *rest.Config) error { return r.operate(ctx, cfg) })
	}()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		assert.NoError(r.t, <-done, "the operator ended with")
	}
}

// settle waits until the scenario has ended and the operator no longer sends requests.
func (r *run) settle(end func(*variantEnv) error, reference *outcome) {
	r.t.Helper()
	seen, last := -1, errors.New("it was never idle")
	r.awaitOperator("to settle", func() error {
		if r.injector.Idle() < quiet {
			return last
		}
		now := r.view.changes()
		if now == seen {
			return last
		}
		seen = now
		last = end(r.variantEnv)
		if last == nil && reference != nil {
			if diff := statediff.Difference(reference.state, r.view.state()); diff != "" {
				last = fmt.Errorf("objects (-undisturbed +now):\n%s", diff)
			}
		}
		return last
	})
}

// mustStaySettled makes the operator sync all of its objects again, and fails if it keeps writing.
func (r *run) mustStaySettled() {
	r.t.Helper()
	if r.customResourceNow() == nil {
		return // nothing to check
	}
	var late []fault.Write
	for range rounds {
		before := len(r.injector.Writes())
		r.nudge()
		if late = r.injector.Writes()[before:]; len(late) == 0 {
			return
		}
	}
	r.t.Errorf("the operator has settled, but still writes whenever it syncs: %v", late)
}

// nudge makes a meaningless change to the ClusterCSIDriver, and returns when the operator has synced because of it.
func (r *run) nudge() {
	r.t.Helper()
	began := time.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, nudgeAnnotation, began.UnixNano())
	require.NoError(r.t, r.Client().Patch(context.Background(), r.customResource(), client.RawPatch("application/merge-patch+json", patch)))
	r.awaitOperator("to read its objects again", func() error {
		switch idle := r.injector.Idle(); {
		case idle >= time.Since(began):
			return errors.New("it has asked for nothing since")
		case idle < quiet:
			return errors.New("it is busy")
		}
		return nil
	})
}

// outcome returns the outcome of the run.
func (r *run) outcome() outcome {
	got := outcome{came: r.injector.Came(), state: r.view.state(), counts: map[fault.Point]fault.Count{}}
	for _, point := range r.injector.Points() {
		got.points = append(got.points, r.variant.original(point))
	}
	for object, count := range r.injector.Counts() {
		got.counts[r.variant.original(object)] = count
	}
	return got
}

// violations returns what must not happen in any scenario.
func (r *run) violations() []error {
	var found []error
	for _, write := range r.injector.Writes() {
		if write.Point.Resource == "persistentvolumes" || write.Point.Resource == "persistentvolumeclaims" {
			found = append(found, fmt.Errorf("the operator wrote to a volume or a claim: %s", write.Point))
		}
		if write.Code == http.StatusForbidden {
			found = append(found, fmt.Errorf("the operator's request was forbidden: %s", write.Point))
		}
	}
	return found
}

// awaitOperator waits until the operator has done something. Watch events that are withheld from it are delivered once it
// has settled without them.
func (r *run) awaitOperator(what string, check func() error) {
	r.t.Helper()
	r.await("the operator "+what, func() error {
		err := check()
		if err != nil && r.injector.Idle() >= quiet {
			r.injector.Deliver()
		}
		return err
	})
}

// await waits until check returns nil. check sends no requests.
func (env *variantEnv) await(what string, check func() error) {
	env.t.Helper()
	cluster.Eventually(env.t, runLimit, what, func(context.Context) error { return check() })
}
