package efs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

func TestMeasureVolumes(t *testing.T) {
	walk := func(minutes, routines int32) *operatorv1.AWSCSIDriverConfigSpec {
		return &operatorv1.AWSCSIDriverConfigSpec{EFSVolumeMetrics: &operatorv1.AWSEFSVolumeMetrics{
			State:         operatorv1.AWSEFSVolumeMetricsRecursiveWalk,
			RecursiveWalk: &operatorv1.AWSEFSVolumeMetricsRecursiveWalkConfig{RefreshPeriodMinutes: minutes, FSRateLimit: routines},
		}}
	}
	const optIn = "--vol-metrics-opt-in=true"
	for _, tc := range []struct {
		name string
		aws  *operatorv1.AWSCSIDriverConfigSpec
		want []string
	}{
		{name: "nothing said"},
		{name: "nothing said of EFS", aws: &operatorv1.AWSCSIDriverConfigSpec{}},
		{name: "disabled", aws: &operatorv1.AWSCSIDriverConfigSpec{EFSVolumeMetrics: &operatorv1.AWSEFSVolumeMetrics{State: operatorv1.AWSEFSVolumeMetricsDisabled}}},
		{
			name: "enabled, no more",
			aws:  &operatorv1.AWSCSIDriverConfigSpec{EFSVolumeMetrics: &operatorv1.AWSEFSVolumeMetrics{State: operatorv1.AWSEFSVolumeMetricsRecursiveWalk}},
			want: []string{optIn},
		},
		{name: "no numbers", aws: walk(0, 0), want: []string{optIn}},
		{name: "a period", aws: walk(60, 0), want: []string{optIn, "--vol-metrics-refresh-period=60"}},
		{name: "a limit", aws: walk(0, 7), want: []string{optIn, "--vol-metrics-fs-rate-limit=7"}},
		{name: "both", aws: walk(43200, 100), want: []string{optIn, "--vol-metrics-refresh-period=43200", "--vol-metrics-fs-rate-limit=100"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			custom := &operatorv1.ClusterCSIDriver{}
			custom.Spec.DriverConfig.AWS = tc.aws
			container := &corev1.Container{}
			measureVolumes(drivers.Cluster{ClusterCSIDriver: custom}, container)
			assert.Empty(t, cmp.Diff(tc.want, container.Args), "arguments (-want +got)")
		})
	}
}
