package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// TestUsageIsNeverMissing: while the usage is set again and again, whoever reads the metrics sees what stays, and at the end nothing that went.
func TestUsageIsNeverMissing(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	g := newGauges()
	g.register(registry.MustRegister)
	used := map[string]usage{"fs-1": {accessPoints: 7}, "fs-2": {accessPoints: 8}}
	g.showUsage("d", 10, used)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				g.showUsage("d", 10, used)
			}
		}
	}()
	for range 200 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if name := family.GetName(); strings.HasPrefix(name, "berth_quota_") && len(family.GetMetric()) != 2 {
				t.Fatalf("%s has %d series, want that of two file systems", name, len(family.GetMetric()))
			}
		}
	}
	close(stop)
	<-stopped
	g.showUsage("d", 10, map[string]usage{"fs-2": {accessPoints: 9}})
	want := "# HELP berth_quota_used [ALPHA] Number of access points of a file system that StorageClasses name.\n" +
		"# TYPE berth_quota_used gauge\nberth_quota_used{driver=\"d\",of=\"fs-2\",resources=\"access points\"} 9\n"
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "berth_quota_used"))
}
