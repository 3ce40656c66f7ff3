package sharedvolume

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
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
	}, func() float64 {
		if records := current.Load(); records != nil {
			return float64(records.overdue(time.Now()))
		}
		return 0
	})
)

func init() {
	legacyregistry.MustRegister(openAccess, withoutGrant, readyDuration)
	legacyregistry.RawMustRegister(overdue)
}

// readyObjective is the time within which a SharedVolume should be Ready; see docs/operate/slo.md. The alerting rules in drivers/efs
// contain it, too.
const readyObjective = time.Minute

func setOpenMetric(open bool) {
	value := 0.0
	if open {
		value = 1
	}
	openAccess.WithLabelValues(DriverName).Set(value)
}
