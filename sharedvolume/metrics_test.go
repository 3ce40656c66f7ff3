package sharedvolume

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// TestReadinessTimer: time counts only while the controller and the cluster have something to do, and nobody else.
func TestReadinessTimer(t *testing.T) {
	created := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	key := types.NamespacedName{Namespace: "shop", Name: "website"}
	notBound, notGranted := *pending(reasonNotBound, "it is not bound"), *failed(reasonNotGranted, "there is no grant")
	type step struct {
		after   time.Duration // the creation
		now     readiness
		waited  time.Duration
		done    bool
		overdue int // a second later
	}
	bound := *ready("pv-1")
	for name, tc := range map[string]struct {
		written bool // a controller has written the status before
		steps   []step
	}{
		"ready soon":             {steps: []step{{2 * time.Second, waiting, 0, false, 0}, {5 * time.Second, bound, 5 * time.Second, true, 0}, {time.Hour, bound, 0, false, 0}}},
		"ready at once":          {steps: []step{{3 * time.Second, bound, 3 * time.Second, true, 0}}},
		"late":                   {steps: []step{{2 * time.Second, waiting, 0, false, 0}, {4 * time.Minute, notBound, 0, false, 1}, {time.Hour, bound, time.Hour, true, 0}}},
		"a grant is missing":     {steps: []step{{2 * time.Second, notGranted, 0, false, 0}, {time.Hour, waiting, 0, false, 0}, {time.Hour + 7*time.Second, bound, 7 * time.Second, true, 0}}},
		"a grant, and ready":     {steps: []step{{2 * time.Second, notGranted, 0, false, 0}, {time.Hour, bound, 0, true, 0}}},
		"its claim was deleted":  {written: true, steps: []step{{time.Hour, bound, 0, true, 0}, {2 * time.Hour, waiting, 0, false, 0}, {2*time.Hour + 2*time.Minute, waiting, 0, false, 1}}},
		"the operator restarted": {written: true, steps: []step{{time.Hour, notBound, 0, false, 0}, {time.Hour + time.Minute, bound, time.Minute, true, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := readinessTimer{since: map[types.NamespacedName]time.Time{}}
			sv := &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, CreationTimestamp: metav1.NewTime(created)}}
			if tc.written {
				sv.Status.ObservedGeneration = 1
			}
			for i, s := range tc.steps {
				o := observed{sharedVolume: sv, now: created.Add(s.after)}
				w.begin(key, sv)
				if waited, done := w.observe(key, o, s.now); waited != s.waited || done != s.done {
					t.Errorf("step %d: waited %s, done %t; want %s, %t", i, waited, done, s.waited, s.done)
				}
				sv.Status = statusOf(o, s.now)
				sv.Generation, sv.Status.ObservedGeneration = 1, 1
				if got := w.overdue(o.now.Add(time.Second)); got != s.overdue {
					t.Errorf("step %d: %d are overdue, want %d", i, got, s.overdue)
				}
			}
			w.begin(key, &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}})
			w.forget(key)
			if got := w.overdue(created.Add(time.Hour)); got != 0 {
				t.Errorf("a deleted one is overdue")
			}
		})
	}
}
