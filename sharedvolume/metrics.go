package sharedvolume

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// The controller's metrics. Each series has the label "driver", the name of the driver that mounts the
// volumes.
var (
	openAccess = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "berth_shared_volumes_open",
		Help:           "1 if SharedVolumes need no grants, so that whoever may create one may mount any access point; 0 if they need grants.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})

	withoutGrant = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "berth_shared_volumes_without_grant",
		Help:           "Number of SharedVolumes whose access point no SharedVolumeGrant for their namespace lists, whether they have a volume or not.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})

	readyDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "berth_shared_volume_ready_duration_seconds",
		Help: "Seconds until a SharedVolume was Ready, from its creation, from the end of a problem that its author or an administrator had to solve, " +
			"or from the loss of its claim or volume.",
		Buckets:        []float64{1, 2, 5, 10, 20, 30, readyObjective.Seconds(), 120, 300, 600, 1800},
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})

	overdue = metrics.NewGaugeFunc(&metrics.GaugeOpts{
		Name:           "berth_shared_volumes_overdue",
		Help:           "Number of SharedVolumes that are not Ready after a minute although their authors and administrators have nothing to solve.",
		ConstLabels:    map[string]string{"driver": DriverName},
		StabilityLevel: metrics.ALPHA,
	}, func() float64 { return float64(waits.overdue(time.Now())) })
)

func init() {
	legacyregistry.MustRegister(openAccess, withoutGrant, readyDuration)
	legacyregistry.RawMustRegister(overdue)
}

// readyObjective is the time within which a SharedVolume should be Ready; see docs/slo.md. Rules of drivers/efs name
// it, too.
const readyObjective = time.Minute

// waits are the SharedVolumes of this process that are not Ready yet.
var waits = readinessTimer{since: map[types.NamespacedName]time.Time{}}

// readinessTimer measures how long SharedVolumes take to become Ready. It does not count the time while somebody else
// has to solve a problem, such as a missing grant.
type readinessTimer struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// begin records a SharedVolume whose status no controller has written: it waits since its creation.
func (w *readinessTimer) begin(key types.NamespacedName, sv *v1alpha1.SharedVolume) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.since[key]; !known && sv.Status.ObservedGeneration == 0 && sv.DeletionTimestamp == nil {
		w.since[key] = sv.CreationTimestamp.Time
	}
}

// observe records the next readiness of a SharedVolume. It returns how long the SharedVolume has waited, once it is
// Ready.
func (w *readinessTimer) observe(key types.NamespacedName, o observed, now readiness) (waited time.Duration, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, known := w.since[key]
	if !known {
		since = o.now
	}
	if now.reason == reasonPending || now.reason == reasonNotBound {
		w.since[key] = since
		return 0, false
	}
	delete(w.since, key)
	if now.phase != v1alpha1.Ready || meta.IsStatusConditionTrue(o.sharedVolume.Status.Conditions, v1alpha1.ConditionReady) {
		return 0, false
	}
	return max(0, o.now.Sub(since)), true
}

func (w *readinessTimer) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, key)
}

// overdue returns how many wait longer than they should.
func (w *readinessTimer) overdue(now time.Time) (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, since := range w.since {
		if now.Sub(since) > readyObjective {
			count++
		}
	}
	return count
}

func setOpenMetric(open bool) {
	value := 0.0
	if open {
		value = 1
	}
	openAccess.WithLabelValues(DriverName).Set(value)
}

// ungranted are the SharedVolumes without a grant.
type ungranted struct {
	mu  sync.Mutex
	all map[types.NamespacedName]struct{}
}

func newUngranted() *ungranted { return &ungranted{all: map[types.NamespacedName]struct{}{}} }

// set records whether a SharedVolume has a grant. A deleted one counts as having one.
func (u *ungranted) set(key types.NamespacedName, has bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if has {
		delete(u.all, key)
	} else {
		u.all[key] = struct{}{}
	}
	withoutGrant.WithLabelValues(DriverName).Set(float64(len(u.all)))
}
