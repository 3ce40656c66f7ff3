package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/fault"
)

const (
	// sweepers is how many runs go on at the same time. Most of their time they wait.
	sweepers = 8
	// quiet is longer than a controller takes from one request to the next that follows from it.
	quiet = 300 * time.Millisecond
)

// noPoints are the requests that are neither disturbed nor counted.
var noPoints = fault.Target{Resource: "events"}

// episode is something that the controller is disturbed in. It begins with one SharedVolume.
type scenario struct {
	name string
	// happen is what happens once the SharedVolume is Ready. Without it, the SharedVolume is new.
	happen func(env testEnv, sv *v1alpha1.SharedVolume, p pair)
	// away tells that no controller runs meanwhile; else it watches, and acts while it happens.
	away bool
	// over tells whether all is done that is to be done.
	over func(env testEnv, sv *v1alpha1.SharedVolume, p pair) error
}

var scenarios = []scenario{
	{name: "create", over: isReady},
	{name: "delete", over: isGone, happen: func(env testEnv, sv *v1alpha1.SharedVolume, _ pair) {
		env.do("delete", env.client.Delete(env.t.Context(), sv))
	}},
	{name: "repair claim", over: isRepaired, happen: func(env testEnv, _ *v1alpha1.SharedVolume, p pair) {
		env.do("delete the claim", env.client.Delete(env.t.Context(), p.claim))
	}},
	{name: "repair volume", over: isRepaired, happen: func(env testEnv, _ *v1alpha1.SharedVolume, p pair) {
		env.do("delete the volume", env.client.Delete(env.t.Context(), p.volume))
	}},
	// A controller that watches repairs the first before the second is deleted, or not.
	{name: "repair both", over: isRepaired, away: true, happen: func(env testEnv, _ *v1alpha1.SharedVolume, p pair) {
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
			return fmt.Errorf("%T is there, or may be: %v", object, err)
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

// TestCrashSweep disturbs the controller at each write and each watch of each episode, in each way
// that there is, and holds what comes of it against the undisturbed episode: the objects in the end,
// how often each was created and deleted, and that nothing is written once all is settled.
func TestCrashSweep(t *testing.T) {
	env := isolated(t)
	var plans []fault.Plan
	for _, e := range scenarios {
		undisturbed := env.in(t).runScenario(e, fault.Point{}, "", nil)
		plans = append(plans, fault.Plan{Name: e.name, Points: undisturbed.points, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
			disturbed := env.in(t).runScenario(e, at, f, undisturbed.end)
			if diff := cmp.Diff(undisturbed.counts, disturbed.counts); diff != "" {
				t.Errorf("creations and deletions (-undisturbed +disturbed):\n%s", diff)
			}
			return disturbed.came
		}})
	}
	for i, tally := range fault.Sweep(t, sweepers, plans...) {
		// Where the binder, too, writes to a volume, it and the controller do not take turns in the same
		// way each time.
		if len(tally.Missed) > tally.Tried {
			t.Errorf("%s: too few of the faults were tried: %s", plans[i].Name, tally)
		}
	}
}

// outcome is what comes of an episode, in names that are the same in every run.
type outcome struct {
	points []fault.Point
	came   bool // to the point with the fault
	end    map[string]any
	counts map[fault.Point]fault.Count
}

// play plays an episode, with a fault at a point of it if there is one, until its end is the one
// wanted, if there is one.
func (env testEnv) runScenario(e scenario, at fault.Point, f fault.Fault, want map[string]any) outcome {
	env.t.Helper()
	namespace := env.keptNamespace()
	sv := env.create(namespace, "logs")
	names := alias{namespace: "namespace", string(sv.UID): "uid"}
	p := pair{}
	if e.happen != nil {
		stop := env.runConfined(namespace)
		p = env.ready(sv)
		stop()
	}

	injector := fault.Inject(names.own(at), f, noPoints)
	if e.away {
		e.happen(env, sv, p)
	}
	stop := env.runDisturbed(injector, namespace)
	defer stop()
	if e.happen != nil && !e.away {
		e.happen(env, sv, p)
	}
	got := outcome{}
	cluster.Eventually(env.t, patience, "the end", func(context.Context) error {
		if idle := injector.Idle(); idle < quietPeriod(f) {
			return errors.New("the controller is busy")
		}
		injector.Deliver() // It has settled without the events that are held back.
		if err := e.over(env, sv, p); err != nil {
			return err
		}
		got.end = names.common(env.comparableState(namespace))
		if diff := cmp.Diff(want, got.end); want != nil && diff != "" {
			return fmt.Errorf("the objects (-undisturbed +disturbed):\n%s", diff)
		}
		return nil
	})
	got.came = injector.Came()
	got.points, got.counts = names.points(injector.Points()), names.counts(injector.Counts())
	env.awaitNoWrites(injector, namespace)
	return got
}

// quietAfter is for how long a controller asks for nothing that has settled.
func quietPeriod(f fault.Fault) time.Duration {
	if f == fault.TooManyRequests {
		return quiet + time.Second // It was told to come again in a second.
	}
	return quiet
}

// runDisturbed runs a controller for one namespace with an injector between, and waits until it has
// looked at what there is.
func (env testEnv) runDisturbed(injector *fault.Injector, namespace string) (stop func()) {
	began := time.Now()
	stop = env.runInjected(injector, namespace)
	cluster.Eventually(env.t, patience, "the controller to look around", func(context.Context) error {
		if idle := injector.Idle(); idle < quiet || idle >= time.Since(began) {
			return errors.New("it does not, or has not ended")
		}
		return nil
	})
	return stop
}

func (env testEnv) runInjected(injector *fault.Injector, namespace string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		err := injector.Run(ctx, confined(apartConfig, namespace), func(ctx context.Context, cfg *rest.Config) error {
			return sharedvolume.Run(ctx, cfg, sharedvolume.Options{})
		})
		if ctx.Err() != nil {
			err = nil // Told to end while it starts, it says that it could not.
		}
		done <- err
	}()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			env.t.Errorf("the controller failed: %v", err)
		}
	})
}

// staysSettled has the controller look at all objects of a namespace again, and checks that it writes
// nothing about them.
func (env testEnv) awaitNoWrites(injector *fault.Injector, namespace string) {
	env.t.Helper()
	before := len(injector.Writes())
	env.touch(namespace)
	marker := newVolume(namespace, "") // is worked on after the poked ones
	marker.GenerateName = "marker-"
	env.do("create", env.client.Create(env.t.Context(), marker))
	volume := env.ready(marker).volume.Name
	for _, write := range injector.Writes()[before:] {
		if name := write.Point.Name; name != marker.Name && name != sharedvolume.ClaimName(marker.Name) && name != volume {
			env.t.Errorf("a write after all was settled: %s, answered %d", write.Point, write.Code)
		}
	}
}
