package controllers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-csi/berth/drivers/rollout"
)

func TestAddUnavailable(t *testing.T) {
	for _, tc := range []struct {
		allowed       string
		desired, more int
		want          int
	}{
		{"10%", 3, 1, 2},
		{"10%", 10, 1, 2},
		{"10%", 11, 1, 3}, // the DaemonSet controller rounds up, too
		{"10%", 5000, 7, 507},
		{"10%", 0, 1, 2},
		{"1", 3, 2, 3},
		{"0%", 3, 1, 2}, // which the DaemonSet controller takes for 1
	} {
		got, err := addUnavailable(intstr.Parse(tc.allowed), tc.desired, tc.more)
		require.NoError(t, err)
		assert.Equalf(t, intstr.FromInt(tc.want), got, "%s of %d, and %d more", tc.allowed, tc.desired, tc.more)
	}
	if got, err := addUnavailable(intstr.FromString("some"), 3, 1); err == nil {
		t.Errorf("some: %v, want an error", got.String())
	}
}

func TestAllowUpdate(t *testing.T) {
	daemonSet := func(maxUnavailable string) *appsv1.DaemonSet {
		value := intstr.Parse(maxUnavailable)
		return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Generation: 7},
			Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &value}}},
			Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 4},
		}
	}
	onDelete := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
	for _, tc := range []struct {
		name          string
		desired, live *appsv1.DaemonSet
		left          *rollout.Left
		want          string // "" for none
		stable        bool
	}{
		{name: "pods are to be updated", desired: daemonSet("10%"), live: daemonSet("10%"), left: &rollout.Left{Outdated: 1}, want: "2"},
		{name: "they still are", desired: daemonSet("10%"), live: daemonSet("2"), left: &rollout.Left{Outdated: 3, Unavailable: 1}, want: "2"},
		{name: "the last one starts", desired: daemonSet("10%"), live: daemonSet("2"), left: &rollout.Left{Unavailable: 1}, want: "10%"},
		{name: "none is left", desired: daemonSet("10%"), live: daemonSet("2"), left: &rollout.Left{}, want: "10%"},
		{name: "none is left, and the DaemonSet is as it was", desired: daemonSet("10%"), live: daemonSet("10%"), left: &rollout.Left{}, want: "10%", stable: true},
		{name: "a pod is not ready", desired: daemonSet("10%"), live: daemonSet("10%"), left: &rollout.Left{Unavailable: 1}, want: "10%"},
		{name: "the status is late", desired: daemonSet("10%"), live: daemonSet("2"), want: "2"},
		{name: "pods are updated when they are deleted", desired: onDelete.DeepCopy(), live: onDelete, left: &rollout.Left{Outdated: 1}},
		{name: "all of them have been", desired: onDelete.DeepCopy(), live: onDelete, left: &rollout.Left{}, stable: true},
		{name: "their status is late", desired: onDelete.DeepCopy(), live: onDelete},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.NoError(t, allowUpdate(tc.desired, tc.live, 1, tc.left))
			got := ""
			if rolling := tc.desired.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
				got = rolling.MaxUnavailable.String()
			}
			if stable := tc.desired.Annotations[rollout.StableGeneration] == "7"; got != tc.want || stable != tc.stable {
				t.Errorf("maxUnavailable is %q, and stable %v; want %q and %v", got, stable, tc.want, tc.stable)
			}
		})
	}
}

func TestDescribeNotReady(t *testing.T) {
	for _, tc := range []struct{ names, want string }{
		{"", ""},
		{"a b", "; not counting the pods on nodes that are NotReady: a, b"},
		{strings.Repeat("a ", 12), "; not counting the pods on nodes that are NotReady: a, a, a, a, a, a, a, a, a, a and 2 more"},
	} {
		assert.EqualValuesf(t, tc.want, describeNotReady(strings.Fields(tc.names)), "%q", tc.names)
	}
}
