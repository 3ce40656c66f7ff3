package clustercsidriver

import (
	"testing"
	"time"

	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/stretchr/testify/assert"
)

func TestIsAwaited(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		cached string
		after  time.Duration
		want   bool
	}{
		"the cache lags behind":           {"7", time.Second, true},
		"the cache has it":                {"8", time.Second, false},
		"the cache lags behind very long": {"7", cacheTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, (write{basedOn: "7", at: at}).isAwaited(tc.cached, at.Add(tc.after)), "awaited")
		})
	}
	assert.False(t, (write{}).isAwaited("7", at), "before the first write, one is awaited")
}

func TestHaveReported(t *testing.T) {
	report := func(types ...string) *applyoperatorv1.OperatorStatusApplyConfiguration {
		status := applyoperatorv1.OperatorStatus()
		for _, conditionType := range types {
			status = status.WithConditions(applyoperatorv1.OperatorCondition().WithType(conditionType))
		}
		return status
	}
	type applied = map[string]*applyoperatorv1.OperatorStatusApplyConfiguration
	for name, tc := range map[string]struct {
		applied applied
		want    bool
	}{
		"nothing":                   {nil, false},
		"one component":             {applied{"node": report("NodeAvailable", "NodeProgressing")}, false},
		"one condition of each":     {applied{"node": report("NodeAvailable"), "controller": report("ControllerAvailable")}, false},
		"failures only":             {applied{"node": report("NodeDegraded"), "controller": report("ControllerDegraded")}, false},
		"all, by whatever reporter": {applied{"a": report("NodeAvailable", "ControllerAvailable"), "b": report("NodeProgressing", "ControllerProgressing")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, haveReported([]Component{{Name: "Node"}, {Name: "Controller"}}, tc.applied), "have reported")
		})
	}
}
