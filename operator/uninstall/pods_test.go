package uninstall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHealthOf(t *testing.T) {
	with := func(conditions ...corev1.NodeCondition) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: conditions}}
	}
	pressure := corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}
	for _, test := range []struct {
		name string
		node *corev1.Node
		want health
	}{
		{"ready", with(pressure, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}), healthy},
		{"its kubelet cannot run pods", with(pressure, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse}), notReady},
		{"its kubelet says nothing any more", with(corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}), unreachable},
		{"its kubelet has said nothing yet", with(pressure), unreachable},
		{"does not exist", nil, unreachable},
	} {
		assert.EqualValuesf(t, test.want, healthOf(test.node), "%s: health", test.name)
	}
}

func TestLost(t *testing.T) {
	now := time.Now()
	ends := func(in time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(in)} }
	for _, test := range []struct {
		name          string
		deleted       *metav1.Time
		on            health
		overdue, lost bool
	}{
		{"runs", nil, healthy, false, false},
		{"ends", ends(time.Second), healthy, false, false},
		{"does not end, but its kubelet runs", ends(-time.Hour), healthy, true, false},
		{"not deleted, on a node that is not ready", nil, notReady, false, false},
		{"its kubelet may still end it", ends(time.Second), notReady, false, false},
		{"its kubelet has not ended it", ends(-time.Second), notReady, true, true},
		{"not deleted, on a dead node", nil, unreachable, false, false},
		{"deleted on a dead node", ends(time.Hour), unreachable, false, true},
	} {
		var p pod
		p.Metadata.DeletionTimestamp = test.deleted
		assert.Equalf(t, test.overdue, overdue(p, now), "%s: overdue", test.name)
		assert.Equalf(t, test.lost, lost(p, test.on, now), "%s: lost", test.name)
	}
}

func TestPauseAfter(t *testing.T) {
	for _, test := range []struct{ observation, least, most, want time.Duration }{
		{50 * time.Millisecond, minInUsePause, maxPause, 5 * time.Second},
		{time.Second, minInUsePause, maxPause, 10 * time.Second},
		{time.Hour, minInUsePause, maxPause, 5 * time.Minute},
		{50 * time.Millisecond, 0, maxFailurePause, 500 * time.Millisecond},
		{10 * time.Second, 0, maxFailurePause, 30 * time.Second},
	} {
		assert.Equalf(t, test.want, pauseAfter(test.observation, test.least, test.most), "pause after an observation of %v", test.observation)
	}
}
