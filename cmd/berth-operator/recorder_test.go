package main

import (
	"testing"

	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/test/hostile"
)

// TestHostileEvents: whatever an event quotes, its message is harmless, by whichever way the recorder was made and called.
func TestHostileEvents(t *testing.T) {
	for _, text := range hostile.Texts() {
		memory := events.NewInMemoryRecorder("test", clock.RealClock{})
		r := escaping{memory}
		r.Event("A", text)
		r.Warning("B", text)
		for _, r := range []events.Recorder{r, r.WithContext(t.Context()), r.ForComponent("test"), r.WithComponentSuffix("")} {
			r.Eventf("C", "pod %s", text)
			r.Warningf("D", "pod %s", text)
		}
		recorded := memory.Events()
		require.GreaterOrEqual(t, len(recorded), 4, "events were recorded, want all")
		for _, e := range recorded {
			checkEvent(t, e)
		}
	}
}

func checkEvent(t *testing.T, e *corev1.Event) {
	t.Helper()
	hostile.Check(t, "event "+e.Reason, e.Message, 16<<10)
}
