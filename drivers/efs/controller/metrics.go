package controller

import (
	"sync"

	"k8s.io/component-base/metrics"
)

// resources is the value of the label for the counted resources.
const resources = "access points"

// gauges are the metrics of the controller. A process has one driver.
type gauges struct {
	mu                             sync.Mutex
	used, limit, shared, classRisk *series
}

func newGauges() *gauges {
	gauge := func(name, help string, labels ...string) *series {
		return &series{metrics.NewGaugeVec(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels), map[string]map[string]string{}}
	}
	return &gauges{
		used: gauge("berth_quota_used", "Number of access points of a file system that StorageClasses name.", "driver", "resources", "of"),
		limit: gauge("berth_quota_limit", "Number of access points that a file system may have, unless AWS has raised that for the account.",
			"driver", "resources", "of"),
		shared: gauge("berth_quota_shared_ids", "Number of group IDs that several access points of a file system share, although each should have its own.",
			"driver", "resources", "of"),
		classRisk: gauge("berth_storage_class_risk", "1 for each StorageClass of the driver whose claims endanger the files of others.",
			"driver", "storageclass"),
	}
}

func (g *gauges) register(mustRegister func(...metrics.Registerable)) {
	mustRegister(g.used, g.limit, g.shared, g.classRisk)
}

// withdraw removes all series.
func (g *gauges) withdraw() {
	g.showUsage("", 0, nil)
	g.showRisks("", nil)
}

// showUsage replaces the series about access points, by file system.
func (g *gauges) showUsage(driver string, limit int, counted map[string]usage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	used, limits, shared := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for of, u := range counted {
		used[of], limits[of], shared[of] = float64(u.accessPoints), float64(limit), float64(len(u.shared))
	}
	labels := func(of string) map[string]string {
		return map[string]string{"driver": driver, "resources": resources, "of": of}
	}
	g.used.replace(used, labels)
	g.limit.replace(limits, labels)
	g.shared.replace(shared, labels)
}

// showRisks replaces the series of StorageClasses that endanger files.
func (g *gauges) showRisks(driver string, classes []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	risks := map[string]float64{}
	for _, class := range classes {
		risks[class] = 1
	}
	g.classRisk.replace(risks, func(class string) map[string]string {
		return map[string]string{"driver": driver, "storageclass": class}
	})
}

// series is a metric with a changing set of labels.
type series struct {
	*metrics.GaugeVec
	shown map[string]map[string]string // labels, by the thing's name
}

// replace shows values by name, and removes others. A concurrent reader misses no value that stays.
func (s *series) replace(values map[string]float64, labels func(name string) map[string]string) {
	for name, value := range values {
		s.shown[name] = labels(name)
		s.With(s.shown[name]).Set(value)
	}
	for name, of := range s.shown {
		if _, stays := values[name]; !stays {
			s.Delete(of)
			delete(s.shown, name)
		}
	}
}
