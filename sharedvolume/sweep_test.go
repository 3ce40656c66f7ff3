package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/statediff"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

const (
	// sweepers is how many runs are concurrent. They spend most of their time waiting.
	sweepers = 8
	// quiet is longer than a controller ever is between two requests of one pass.
	quiet = 300 * time.Millisecond
)

// noPoints are the requests that get no fault and are not counted.
var noPoints = fault.Target{Resource: "events"}

// scenario is the controller's work while a fault is injected. It starts with one SharedVolume.
type scenario struct {
	name string
	// act acts on the SharedVolume once it is Ready. If nil, the SharedVolume is new.
	act func(env testEnv, sv *v1alpha1.SharedVolume, p pair)
	// stopped is true if no controller runs during act.
	stopped bool
	// done returns an error until the controller has reached the desired state.
	done func(env testEnv, sv *v1alpha1.SharedVolume, p pair) error
}

var scenarios = []scenario{
	{name: "create", done: isReady},
	{name: "delete", done: isGone, act: func(env testEnv, sv *v1alpha1.SharedVolume, _ pair) {
		env.do("delete", env.client.Delete(env.t.Context(), sv))
	}},
	{name: "repair claim", done: isRepaired, act: func(env testEnv, _ *v1alpha1.SharedVolume, p pair) {
		env.do("delete the claim", env.client.Delete(env.t.Context(), p.claim))
	}},
	{name: "repair volume", done: isRepaired, act: func(env testEnv, _ *v1alpha1.SharedVolume, p pair) {
		env.do("delete the volume", env.client.Delete(env.t.Context(), p.volume))
	}},
	// A running controller may or may not repair the claim before the volume is deleted.
	{name: "repair both", done: isRepaired, stopped: true, act: func(env testEnv, _ *v1alpha1.SharedVolume, p pair) {
		env.do("delete the claim", env.client.Delete(env.t.Context(), p.claim))
		env.do("delete the volume", env.client.Delete(env.t.Context(), p.volume))
		env.gone(p.volume)
	}},
}

func isReady(env testEnv, sv *v1alpha1.SharedVolume, _ pair) error {
	if err := env.client.Get(env.t.Context(), client.ObjectKeyFromObject(sv), sv); err != nil {
		return err
	}
	if sv.Status.Phase != v1alpha1.Ready {
		return fmt.Errorf("the SharedVolume is %s: %v", sv.Status.Phase, sv.Status.Conditions)
	}
	return nil
}

func isGone(env testEnv, sv *v1alpha1.SharedVolume, p pair) error {
	for _, object := range []client.Object{sv, p.claim, p.volume} {
		if err := env.client.Get(env.t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("%T may still exist: %v", object, err)
		}
	}
	return nil
}

func isRepaired(env testEnv, sv *v1alpha1.SharedVolume, p pair) error {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := env.client.Get(env.t.Context(), client.ObjectKeyFromObject(p.claim), claim); err != nil {
		return err
	}
	if err := env.client.Get(env.t.Context(), client.ObjectKeyFromObject(p.volume), volume); err != nil {
		return err
	}
	if claim.UID == p.claim.UID || volume.DeletionTimestamp != nil || volume.Spec.ClaimRef.UID != claim.UID || volume.Status.Phase != corev1.VolumeBound {
		return fmt.Errorf("the claim is %s, the volume %s", claim.Status.Phase, volume.Status.Phase)
	}
	return isReady(env, sv, p)
}

// TestCrashSweep injects each fault at each write and each watch of each scenario, and compares the result with a run without
// faults: the objects in the end, and how often each was created and deleted. Once settled, nothing may be written.
func TestCrashSweep(t *testing.T) {
	env := isolated(t)
	var plans []fault.Scenario
	for _, e := range scenarios {
		t.Run(e.name, func(t *testing.T) {
			reference := env.in(t).runScenario(e, fault.Point{}, "", nil)
			plans = append(plans, fault.Scenario{Name: e.name, Points: reference.points, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
				got := env.in(t).runScenario(e, at, f, reference.end)
				assert.Empty(t, cmp.Diff(reference.counts, got.counts), "creations and deletions (-reference +with fault)")
				return got.came
			}})
		})
	}
	for i, tally := range fault.Sweep(t, sweepers, plans...) {
		// The order of writes to a volume by the binder and by the controller differs from run to run.
		assert.LessOrEqualf(t, len(tally.Missed), tally.Tried, "%s: too few of the faults were tried: %s", plans[i].Name, tally)
	}
}

// outcome is the result of a scenario, in names that are the same in every run.
type outcome struct {
	points []fault.Point
	came   bool // to the point with the fault
	end    map[string]any
	counts map[fault.Point]fault.Count
}

// runScenario runs a scenario, with a fault at a point unless that is empty, until its end state is the wanted one unless that
// is nil.
func (env testEnv) runScenario(e scenario, at fault.Point, f fault.Fault, want map[string]any) outcome {
	env.t.Helper()
	namespace := env.keptNamespace()
	sv := env.create(namespace, "logs")
	names := namesOf(sv)
	p := pair{}
	if e.act != nil {
		stop := env.runConfined(namespace)
		p = env.ready(sv)
		stop()
	}

	injector := fault.Inject(at.Rename(names.toOwn), f, noPoints)
	if e.stopped {
		e.act(env, sv, p)
	}
	stop := env.runWithFaults(injector, namespace)
	defer stop()
	if e.act != nil && !e.stopped {
		e.act(env, sv, p)
	}
	got := outcome{}
	cluster.Eventually(env.t, waitLimit, "the end", func(context.Context) error {
		if idle := injector.Idle(); idle < quietPeriod(f) {
			return errors.New("the controller is busy")
		}
		injector.Deliver() // It has settled; now deliver the events that the fault delays.
		if err := e.done(env, sv, p); err != nil {
			return err
		}
		got.end = env.state(namespace, names)
		if diff := statediff.Difference(want, got.end); want != nil && diff != "" {
			return fmt.Errorf("the objects (-reference +with fault):\n%s", diff)
		}
		return nil
	})
	got.came = injector.Came()
	got.points, got.counts = names.points(injector.Points()), names.counts(injector.Counts())
	env.awaitNoWrites(injector, namespace)
	return got
}

// quietPeriod is for how long a settled controller sends no request.
func quietPeriod(f fault.Fault) time.Duration {
	if f == fault.TooManyRequests {
		return quiet + time.Second // It must retry after a second.
	}
	return quiet
}

// runWithFaults runs a controller for one namespace through a fault injector, and waits until it has reconciled everything.
func (env testEnv) runWithFaults(injector *fault.Injector, namespace string) (stop func()) {
	began := time.Now()
	stop = env.runInjected(injector, namespace)
	cluster.Eventually(env.t, waitLimit, "the controller to start", func(context.Context) error {
		if idle := injector.Idle(); idle < quiet || idle >= time.Since(began) {
			return errors.New("it is busy, or has not started")
		}
		return nil
	})
	return stop
}

func (env testEnv) runInjected(injector *fault.Injector, namespace string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		err := injector.Run(ctx, confined(isolatedConfig, namespace), func(ctx context.Context, cfg *rest.Config) error {
			return sharedvolume.Run(ctx, cfg, sharedvolume.Options{})
		})
		if ctx.Err() != nil {
			err = nil // It returns an error if it is stopped while it starts.
		}
		done <- err
	}()
	return sync.OnceFunc(func() {
		cancel()
		assert.NoError(env.t, <-done, "the controller failed")
	})
}

// awaitNoWrites makes the controller reconcile all objects of a namespace again, and checks that it writes nothing about them.
func (env testEnv) awaitNoWrites(injector *fault.Injector, namespace string) {
	env.t.Helper()
	before := len(injector.Writes())
	env.touch(namespace)
	marker := newVolume(namespace, "") // is reconciled after the touched ones
	marker.GenerateName = "marker-"
	env.do("create", env.client.Create(env.t.Context(), marker))
	volume := env.ready(marker).volume.Name
	for _, write := range injector.Writes()[before:] {
		if name := write.Point.Name; name != marker.Name && name != sharedvolume.ClaimName(marker.Name) && name != volume {
			env.t.Errorf("a write after it had settled: %s, with status %d", write.Point, write.Code)
		}
	}
}
