package rollout

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/internal/listing"
)

// maxRetry is longer than the DaemonSet controller ever waits before it tries again to create a pod.
const maxRetry = 20 * time.Minute

// LastRefusal returns why the last pod of a DaemonSet could not be created, as an event says, or "" if that is so long ago that the controller
// must have retried since then without a refusal. Whoever may write events can write any number of them, so only one at a time is in memory.
func LastRefusal(ctx context.Context, core rest.Interface, set *appsv1.DaemonSet, now time.Time) (message string, err error) {
	last := now.Add(-maxRetry)
	refusals := listing.List{Resource: "events", Namespace: set.Namespace, Fields: fmt.Sprintf("involvedObject.uid=%s,reason=FailedCreate", set.UID)}
	err = listing.Each(ctx, core, refusals, func(event corev1.Event) error {
		if at := TimeOf(event); at.After(last) {
			message, last = event.Message, at
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("looking for refused pods of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return message, nil
}

// TimeOf returns when an event happened last. Which of its fields says so depends on the API by which it was written.
func TimeOf(event corev1.Event) time.Time {
	at := event.LastTimestamp.Time
	if event.EventTime.After(at) {
		at = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}
