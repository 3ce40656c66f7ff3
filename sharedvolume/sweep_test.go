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
type episode struct {
	name string
	// happen is what happens once the SharedVolume is Ready. Without it, the SharedVolume is new.
	happen func(w world, sv *v1alpha1.SharedVolume, p pair)
	// away tells that no controller runs meanwhile; else it watches, and acts while it happens.
	away bool
	// over tells whether all is done that is to be done.
	over func(w world, sv *v1alpha1.SharedVolume, p pair) error
}

var episodes = []episode{
	{name: "create", over: isReady},
	{name: "delete", over: isGone, happen: func(w world, sv *v1alpha1.SharedVolume, _ pair) {
		w.do("delete", w.client.Delete(w.t.Context(), sv))
	}},
	{name: "repair claim", over: isRepaired, happen: func(w world, _ *v1alpha1.SharedVolume, p pair) {
		w.do("delete the claim", w.client.Delete(w.t.Context(), p.claim))
	}},
	{name: "repair volume", over: isRepaired, happen: func(w world, _ *v1alpha1.SharedVolume, p pair) {
		w.do("delete the volume", w.client.Delete(w.t.Context(), p.volume))
	}},
	// A controller that watches repairs the first before the second is deleted, or not.
	{name: "repair both", over: isRepaired, away: true, happen: func(w world, _ *v1alpha1.SharedVolume, p pair) {
		w.do("delete the claim", w.client.Delete(w.t.Context(), p.claim))
		w.do("delete the volume", w.client.Delete(w.t.Context(), p.volume))
		w.gone(p.volume)
	}},
}

func isReady(w world, sv *v1alpha1.SharedVolume, _ pair) error {
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(sv), sv); err != nil {
		return err
	}
	if sv.Status.Phase != v1alpha1.Ready {
		return fmt.Errorf("the SharedVolume is %s: %v", sv.Status.Phase, sv.Status.Conditions)
	}
	return nil
}

func isGone(w world, sv *v1alpha1.SharedVolume, p pair) error {
	for _, object := range []client.Object{sv, p.claim, p.volume} {
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("%T is there, or may be: %v", object, err)
		}
	}
	return nil
}

func isRepaired(w world, sv *v1alpha1.SharedVolume, p pair) error {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(p.claim), claim); err != nil {
		return err
	}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(p.volume), volume); err != nil {
		return err
	}
	if claim.UID == p.claim.UID || volume.DeletionTimestamp != nil || volume.Spec.ClaimRef.UID != claim.UID || volume.Status.Phase != corev1.VolumeBound {
		return fmt.Errorf("the claim is %s, the volume %s", claim.Status.Phase, volume.Status.Phase)
	}
	return isReady(w, sv, p)
}

// TestCrashSweep disturbs the controller at each write and each watch of each episode, in each way
// that there is, and holds what comes of it against the undisturbed episode: the objects in the end,
// how often each was created and deleted, and that nothing is written once all is settled.
func TestCrashSweep(t *testing.T) {
	w := apart(t)
	var plans []fault.Scenario
	for _, e := range episodes {
		undisturbed := w.in(t).play(e, fault.Point{}, "", nil)
		plans = append(plans, fault.Scenario{Name: e.name, Points: undisturbed.points, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
			disturbed := w.in(t).play(e, at, f, undisturbed.end)
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
func (w world) play(e episode, at fault.Point, f fault.Fault, want map[string]any) outcome {
	w.t.Helper()
	namespace := w.lasting()
	sv := w.create(namespace, "logs")
	names := alias{namespace: "namespace", string(sv.UID): "uid"}
	p := pair{}
	if e.happen != nil {
		stop := w.runConfined(namespace)
		p = w.ready(sv)
		stop()
	}

	injector := fault.Inject(names.own(at), f, noPoints)
	if e.away {
		e.happen(w, sv, p)
	}
	stop := w.runDisturbed(injector, namespace)
	defer stop()
	if e.happen != nil && !e.away {
		e.happen(w, sv, p)
	}
	got := outcome{}
	cluster.Eventually(w.t, patience, "the end", func(context.Context) error {
		if idle := injector.Idle(); idle < quietAfter(f) {
			return errors.New("the controller is busy")
		}
		injector.Deliver() // It has settled without the events that are held back.
		if err := e.over(w, sv, p); err != nil {
			return err
		}
		got.end = names.common(w.state(namespace))
		if diff := cmp.Diff(want, got.end); want != nil && diff != "" {
			return fmt.Errorf("the objects (-undisturbed +disturbed):\n%s", diff)
		}
		return nil
	})
	got.came = injector.Came()
	got.points, got.counts = names.points(injector.Points()), names.counts(injector.Counts())
	w.staysSettled(injector, namespace)
	return got
}

// quietAfter is for how long a controller asks for nothing that has settled.
func quietAfter(f fault.Fault) time.Duration {
	if f == fault.TooManyRequests {
		return quiet + time.Second // It was told to come again in a second.
	}
	return quiet
}

// runDisturbed runs a controller for one namespace with an injector between, and waits until it has
// looked at what there is.
func (w world) runDisturbed(injector *fault.Injector, namespace string) (stop func()) {
	began := time.Now()
	stop = w.runInjected(injector, namespace)
	cluster.Eventually(w.t, patience, "the controller to look around", func(context.Context) error {
		if idle := injector.Idle(); idle < quiet || idle >= time.Since(began) {
			return errors.New("it does not, or has not ended")
		}
		return nil
	})
	return stop
}

func (w world) runInjected(injector *fault.Injector, namespace string) (stop func()) {
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
			w.t.Errorf("the controller failed: %v", err)
		}
	})
}

// staysSettled has the controller look at all objects of a namespace again, and checks that it writes
// nothing about them.
func (w world) staysSettled(injector *fault.Injector, namespace string) {
	w.t.Helper()
	before := len(injector.Writes())
	w.poke(namespace)
	marker := newVolume(namespace, "") // is worked on after the poked ones
	marker.GenerateName = "marker-"
	w.do("create", w.client.Create(w.t.Context(), marker))
	volume := w.ready(marker).volume.Name
	for _, write := range injector.Writes()[before:] {
		if name := write.Point.Name; name != marker.Name && name != sharedvolume.ClaimName(marker.Name) && name != volume {
			w.t.Errorf("a write after all was settled: %s, answered %d", write.Point, write.Code)
		}
	}
}
