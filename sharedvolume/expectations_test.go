package sharedvolume

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNewest(t *testing.T) {
	claim := func(version string, deleted bool) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "pvc-logs", ResourceVersion: version}}
		if deleted {
			c.DeletionTimestamp = &metav1.Time{Time: now}
		}
		return c
	}
	var none *corev1.PersistentVolumeClaim
	for _, test := range []struct {
		name            string
		cached, written *corev1.PersistentVolumeClaim
		age             time.Duration
		want            string // "cached" or "written"
		kept            bool
	}{
		{"created, not in the cache yet", none, claim("10", false), 0, "written", true},
		{"created, never in the cache", none, claim("10", false), expectationTimeout + time.Second, "cached", false},
		{"created, in the cache", claim("10", false), claim("10", false), 0, "cached", false},
		{"created, in the cache with a change", claim("11", false), claim("10", false), 0, "cached", false},
		{"patched, not in the cache yet", claim("9", false), claim("10", false), 0, "written", true},
		{"deleted, not in the cache yet", claim("10", false), claim("10", true), 0, "written", true},
		{"deleted, in the cache as terminating", claim("11", true), claim("10", true), 0, "cached", false},
		{"last finalizer removed, not in the cache yet", claim("10", true), claim("10", true), 0, "written", true},
		{"deleted, not in the cache", none, claim("10", true), 0, "cached", false},
		{"deleted, recreated", claim("12", false), claim("10", true), 0, "cached", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			recent := writes{writeKey(test.written, "pvc-logs"): {test.written, time.Now().Add(-test.age)}}
			got := newest(recent, "pvc-logs", test.cached)
			want := test.cached
			if test.want == "written" {
				want = test.written
			}
			if got != want || len(recent) != map[bool]int{true: 1}[test.kept] {
				t.Errorf("got %v, %d writes kept", got, len(recent))
			}
		})
	}
	recent := writes{writeKey(none, "other"): {claim("10", false), time.Now()}}
	assert.Nil(t, newest(recent, "pvc-logs", none), "a write to another object")
}
