package efs

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// measureVolumes makes the driver on each node report how full volumes are, if the administrator asks for it. EFS has
// no metric for that, so the driver walks through all files of a volume. The API server validates the numbers; zero
// selects the driver's default.
func measureVolumes(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	aws := cluster.ClusterCSIDriver.Spec.DriverConfig.AWS
	if aws == nil || aws.EFSVolumeMetrics == nil || aws.EFSVolumeMetrics.State != operatorv1.AWSEFSVolumeMetricsRecursiveWalk {
		return nil
	}
	container.Args = append(container.Args, "--vol-metrics-opt-in=true")
	walk := aws.EFSVolumeMetrics.RecursiveWalk
	if walk == nil {
		return nil
	}
	if minutes := walk.RefreshPeriodMinutes; minutes != 0 {
		container.Args = append(container.Args, fmt.Sprintf("--vol-metrics-refresh-period=%d", minutes))
	}
	if routines := walk.FSRateLimit; routines != 0 {
		container.Args = append(container.Args, fmt.Sprintf("--vol-metrics-fs-rate-limit=%d", routines))
	}
	return nil
}
