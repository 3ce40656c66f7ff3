// Package dashboard has a dashboard of all drivers for the console of OpenShift, which shows it under Observe, Dashboards.
//
// The console reads dashboards from ConfigMaps, in the format of an early Grafana: rows of panels, each with queries. It knows
// only some types of panels and fields, see
// https://github.com/openshift/console/tree/release-4.15/frontend/public/components/monitoring/dashboards. Later consoles do
// the same in their plugin for monitoring.
//
// Prometheus reads all pods of an operator at one address, and only the active pod knows the conditions, so queries cover the last five
// minutes. In a table, the console shows one line for each value of the alphabetically first label, so the series of the conditions table
// have the label "about".
package dashboard

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// name is the name of the ConfigMap, and of the dashboard in addresses of the console.
const name = "dashboard-csi-drivers"

//go:embed csi-drivers.json
var board string

// ConfigMap returns the dashboard as the console reads it.
func ConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "openshift-config-managed",
			Name:      name,
			Labels:    map[string]string{"console.openshift.io/dashboard": "true"},
		},
		Data: map[string]string{"csi-drivers.json": board},
	}
}
