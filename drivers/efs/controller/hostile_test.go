package controller

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/component-base/metrics"

	"github.com/berth-csi/berth/test/hostile"
)

// TestHostileLabels: whatever a StorageClass or the file system that it names is called, there is one series about it, which goes with it.
func TestHostileLabels(t *testing.T) {
	for _, text := range []string{hostile.Short(), hostile.Long()} {
		registry := metrics.NewKubeRegistry()
		g := newGauges()
		g.register(registry.MustRegister)
		count := func() (count int) {
			page := httptest.NewRecorder()
			metrics.HandlerFor(registry, metrics.HandlerOpts{}).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			for line := range strings.Lines(page.Body.String()) {
				if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "berth_") {
					t.Errorf("%.300q is no series of the operator", line)
				}
				if !strings.HasPrefix(line, "#") {
					count++
				}
			}
			return count
		}
		g.showUsage("d", 10, map[string]usage{text + "\nforged 1\n": {accessPoints: 7}})
		g.showRisks("d", []string{text})
		assert.Equal(t, 4, count(), "series of a file system and a StorageClass")
		g.withdraw()
		assert.Zero(t, count(), "series of none")
	}
}
