package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	kubemetrics "k8s.io/component-base/metrics"

	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/test/hostile"
)

// TestHostileLabels: whatever the type and the reason of a condition are, there is one series with them, which goes with the condition.
func TestHostileLabels(t *testing.T) {
	for _, text := range []string{hostile.Short(), hostile.Long()} {
		registry := kubemetrics.NewKubeRegistry()
		m := metrics.New(registry.MustRegister)
		count := func() (count int) {
			page := httptest.NewRecorder()
			kubemetrics.HandlerFor(registry, kubemetrics.HandlerOpts{}).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			for line := range strings.Lines(page.Body.String()) {
				if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "berth_") {
					t.Errorf("%.300q is no series of the operator", line)
				}
				if strings.HasPrefix(line, "berth_cluster_csi_driver_condition") {
					count++
				}
			}
			return count
		}
		m.SetConditions("sea.csi.example.com", []operatorv1.OperatorCondition{{Type: text, Status: operatorv1.ConditionTrue, Reason: text + "\nforged 1\n"}})
		assert.Equal(t, 1, count(), "series of one condition")
		m.SetConditions("sea.csi.example.com", nil)
		assert.Zero(t, count(), "series of no condition")
	}
}
