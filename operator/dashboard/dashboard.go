// Package dashboard has a dashboard of all drivers for the console of OpenShift, which shows it under Observe, Dashboards.
//
// The console reads dashboards from ConfigMaps, in the format of an early Grafana: rows of panels, each with queries. It knows
// only some types of panels and fields, see
// https://github.com/openshift/console/tree/release-4.15/frontend/public/components/monitoring/dashboards. Later consoles do
// the same in their plugin for monitoring.
package dashboard

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// name is the name of the ConfigMap, and of the dashboard in addresses of the console.
const name = "dashboard-csi-drivers"

// ConfigMap returns the dashboard as the console reads it.
func ConfigMap() (*corev1.ConfigMap, error) {
	content := &strings.Builder{}
	encoder := json.NewEncoder(content)
	encoder.SetEscapeHTML(false) // so that people can read queries
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(board()); err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "openshift-config-managed",
			Name:      name,
			Labels:    map[string]string{"console.openshift.io/dashboard": "true"},
		},
		Data: map[string]string{"csi-drivers.json": content.String()},
	}, nil
}

// panel is a panel. Its fields beside the first three are in the console's terms.
type panel struct {
	title  string
	width  int // of 12 columns
	query  string
	kind   string
	legend string      // of the lines of a graph, with labels such as {{driver}}
	unit   string      // of a graph
	column []column    // of a table
	texts  []textOfOne // of a number
}

type column struct{ label, title string }

type textOfOne struct{ value, text string }

// The kinds of panels.
const (
	number = "singlestat"
	graph  = "graph"
	table  = "table"
)

// row is a row of panels.
type row struct {
	title  string
	panels []panel
}

// All pods of an operator are read at one address, and only the active one knows the conditions, so queries look at the last
// five minutes.
const conditions = `max by (driver, condition, reason) (last_over_time(berth_cluster_csi_driver_condition`

// rows are the rows of the dashboard.
var rows = []row{
	{"Drivers", []panel{
		{title: "Not available", width: 3, kind: number,
			query: `count(max by (driver) (last_over_time(berth_cluster_csi_driver_condition{condition="Available"}[5m])) < 1) or vector(0)`},
		{title: "Degraded", width: 3, kind: number,
			query: `count(max by (driver) (last_over_time(berth_cluster_csi_driver_condition{condition="Degraded"}[5m])) == 1) or vector(0)`},
		{title: "Operators that wait for another one", width: 3, kind: number,
			query: `count(max by (driver, namespace) (last_over_time(berth_operator_waiting_for_lock[5m])) == 1) or vector(0)`},
		{title: "Pods that block the removal of a driver", width: 3, kind: number,
			query: `sum(max by (driver) (last_over_time(berth_uninstall_blocking_pods[5m]))) or vector(0)`},
	}},
	{"Conditions that are not as they should be", []panel{
		// The console shows one line for each value of the label that is first in the alphabet.
		{title: "Conditions", width: 12, kind: table,
			query: `label_join(` +
				conditions + `{condition=~".*(Degraded|Progressing)"}[5m]) == 1) or ` +
				conditions + `{condition=~".*(Available|Upgradeable)"}[5m]) < 1), "about", " ", "driver", "condition")`,
			column: []column{{"driver", "Driver"}, {"condition", "Condition"}, {"reason", "Reason"}}},
	}},
	{"Requests of the sidecars to the drivers", []panel{
		{title: "Requests per second", width: 4, kind: graph, unit: "short", legend: "{{driver_name}} {{method_name}}",
			query: `sum by (driver_name, method_name) (rate(csi_sidecar_operations_seconds_count[5m]))`},
		{title: "Failed requests per second", width: 4, kind: graph, unit: "short", legend: "{{driver_name}} {{method_name}} {{grpc_status_code}}",
			query: `sum by (driver_name, method_name, grpc_status_code) (rate(csi_sidecar_operations_seconds_count{grpc_status_code!="OK"}[5m])) > 0`},
		{title: "Time of 95% of the requests", width: 4, kind: graph, unit: "s", legend: "{{driver_name}} {{method_name}}",
			query: `histogram_quantile(0.95, sum by (le, driver_name, method_name) (rate(csi_sidecar_operations_seconds_bucket[5m])))`},
	}},
	{"Limits", []panel{
		{title: "Used of what the cloud allows", width: 6, kind: graph, unit: "percentunit", legend: "{{resources}} {{of}}",
			query: `max by (resources, of) (last_over_time(berth_quota_used[5m]) / last_over_time(berth_quota_limit[5m]))`},
		{title: "Used of what claims asked for", width: 6, kind: graph, unit: "percentunit", legend: "{{namespace}} {{persistentvolumeclaim}}",
			query: `topk(10, persistentvolumeclaim:berth_used:ratio)`},
	}},
	{"SharedVolumes", []panel{
		{title: "SharedVolumes that wait for too long", width: 4, kind: number,
			query: `sum(max by (driver) (max_over_time(berth_shared_volumes_overdue[5m]))) or vector(0)`},
		{title: "SharedVolumes without a grant", width: 4, kind: number,
			query: `sum(max by (driver) (last_over_time(berth_shared_volumes_without_grant[5m]))) or vector(0)`},
		{title: "Access", width: 4, kind: number, texts: []textOfOne{{"0", "with grants"}, {"1", "open"}},
			query: `max(last_over_time(berth_shared_volumes_open[5m]))`},
	}},
}

// board returns the dashboard in the format of the console.
func board() map[string]any {
	id := 0
	var shown []any
	for _, r := range rows {
		var panels []any
		for _, p := range r.panels {
			id++
			panels = append(panels, p.json(id))
		}
		shown = append(shown, map[string]any{"title": r.title, "showTitle": true, "collapse": false, "panels": panels})
	}
	return map[string]any{"title": "CSI drivers", "tags": []any{"storage"}, "schemaVersion": 14, "templating": map[string]any{"list": []any{}}, "rows": shown}
}

func (p panel) json(id int) map[string]any {
	target := map[string]any{"expr": p.query, "refId": "A"}
	shown := map[string]any{"id": id, "title": p.title, "type": p.kind, "span": p.width, "targets": []any{target}}
	switch p.kind {
	case graph:
		target["legendFormat"] = p.legend
		shown["legend"] = map[string]any{"show": true}
		shown["yaxes"] = []any{map[string]any{"format": p.unit}}
	case table:
		target["format"] = "table"
		shown["transform"] = "table"
		shown["styles"] = styles(p.column)
	case number:
		shown["format"] = "none"
		shown["valueMaps"] = valueMaps(p.texts)
	}
	return shown
}

func styles(columns []column) []any {
	var shown []any
	for _, c := range columns {
		shown = append(shown, map[string]any{"alias": c.title, "pattern": c.label, "type": "string"})
	}
	return shown
}

func valueMaps(texts []textOfOne) []any {
	shown := []any{}
	for _, t := range texts {
		shown = append(shown, map[string]any{"op": "=", "value": t.value, "text": t.text})
	}
	return shown
}
