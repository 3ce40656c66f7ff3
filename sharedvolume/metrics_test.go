package sharedvolume

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
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
		waited  *time.Duration // nil if it is not Ready yet, or was before
		overdue int            // a second later
	}
	bound := *ready("pv-1")
	for name, tc := range map[string]struct {
		written bool // a controller has written the status before
		steps   []step
	}{
		"ready soon":             {steps: []step{{2 * time.Second, waiting, nil, 0}, {5 * time.Second, bound, new(5 * time.Second), 0}, {time.Hour, bound, nil, 0}}},
		"ready at once":          {steps: []step{{3 * time.Second, bound, new(3 * time.Second), 0}}},
		"late":                   {steps: []step{{2 * time.Second, waiting, nil, 0}, {4 * time.Minute, notBound, nil, 1}, {time.Hour, bound, new(time.Hour), 0}}},
		"a grant is missing":     {steps: []step{{2 * time.Second, notGranted, nil, 0}, {time.Hour, waiting, nil, 0}, {time.Hour + 7*time.Second, bound, new(7 * time.Second), 0}}},
		"a grant, and ready":     {steps: []step{{2 * time.Second, notGranted, nil, 0}, {time.Hour, bound, new(time.Duration(0)), 0}}},
		"its claim was deleted":  {written: true, steps: []step{{time.Hour, bound, new(time.Duration(0)), 0}, {2 * time.Hour, waiting, nil, 0}, {2*time.Hour + 2*time.Minute, waiting, nil, 1}}},
		"the operator restarted": {written: true, steps: []step{{time.Hour, notBound, nil, 0}, {time.Hour + time.Minute, bound, new(time.Minute), 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			records := newRecords()
			record := records.of(key)
			sv := &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, CreationTimestamp: metav1.NewTime(created)}}
			if tc.written {
				sv.Status.ObservedGeneration = 1
			}
			for i, s := range tc.steps {
				o := observed{sharedVolume: sv, now: created.Add(s.after)}
				record.beginWaiting(sv)
				waited := record.waitedUntil(o, s.now)
				assert.Emptyf(t, cmp.Diff(s.waited, waited), "step %d: waited (-want +got)", i)
				sv.Status = statusOf(o, s.now)
				sv.Generation, sv.Status.ObservedGeneration = 1, 1
				assert.Equalf(t, s.overdue, records.overdue(o.now.Add(time.Second)), "step %d: overdue", i)
			}
			record.beginWaiting(&v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}})
			records.forget(record)
			assert.Zero(t, records.overdue(created.Add(time.Hour)), "a deleted one is overdue")
		})
	}
}
