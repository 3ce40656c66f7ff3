package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxRetry is longer than the DaemonSet controller ever waits before it tries again to create a pod.
const maxRetry = 20 * time.Minute

// Refusals selects the events about pods that an object's controller could not create.
func Refusals(of client.Object) client.MatchingFields {
	return client.MatchingFields{"involvedObject.uid": string(of.GetUID()), "reason": "FailedCreate"}
}

// LastRefusal returns the message of the last of these events, or "" if that is so old that the controller must have retried since then
// without a refusal.
func LastRefusal(events []corev1.Event, now time.Time) string {
	message, last := "", now.Add(-maxRetry)
	for _, event := range events {
		at := event.LastTimestamp.Time
		for _, other := range []time.Time{event.EventTime.Time, seriesTime(event)} {
			if other.After(at) {
				at = other
			}
		}
		if at.After(last) {
			message, last = event.Message, at
		}
	}
	return message
}

func seriesTime(event corev1.Event) time.Time {
	if event.Series == nil {
		return time.Time{}
	}
	return event.Series.LastObservedTime.Time
}
