package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers/rollout"
)

// TestLastRefusal: the last event counts, whichever of its fields says when it was.
func TestLastRefusal(t *testing.T) {
	now := time.Now()
	ago := func(message string, minutes int) corev1.Event {
		return corev1.Event{Message: message, LastTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))}
	}
	series := ago("series", 30)
	series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(-time.Minute))}
	for name, test := range map[string]struct {
		events []corev1.Event
		want   string
	}{
		"none":                     {nil, ""},
		"one":                      {[]corev1.Event{ago("a", 1)}, "a"},
		"the last":                 {[]corev1.Event{ago("a", 2), ago("b", 1), ago("c", 3)}, "b"},
		"one that is over":         {[]corev1.Event{ago("a", 21)}, ""},
		"one that is tried seldom": {[]corev1.Event{ago("a", 17)}, "a"},
		"a new time":               {[]corev1.Event{{Message: "a", EventTime: metav1.NewMicroTime(now.Add(-time.Minute))}}, "a"},
		"a series":                 {[]corev1.Event{ago("a", 2), series}, "series"},
	} {
		assert.EqualValues(t, test.want, rollout.LastRefusal(test.events, now), name)
	}
}
