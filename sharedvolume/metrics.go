package sharedvolume

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
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
		Help:           "Number of SharedVolumes whose access point is listed by no SharedVolumeGrant that is for their namespace, whether they have a volume or not.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})
)

func init() { legacyregistry.MustRegister(openAccess, withoutGrant) }

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
