// Package statediff compares the states of a cluster after two runs of the same test. A state has objects, without
// the fields that differ between any two runs.
package statediff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Of returns an object as part of a state. names replaces names that are different in each run by common ones.
func Of(object *unstructured.Unstructured, names *strings.Replacer) (map[string]any, error) {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	var like map[string]any
	if err := json.Unmarshal([]byte(names.Replace(string(text))), &like); err != nil {
		return nil, err
	}
	mask(object.GetKind(), like)
	return like, nil
}

// masked are the fields that differ between two equal runs, by kind; "" is for all kinds.
var masked = map[string][][]string{
	"": {
		{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"},
	},
	"ClusterCSIDriver": {{"status", "generations"}, {"status", "observedGeneration"}, {"metadata", "annotations", "berth.dev/driver-namespace-uid"}},
	// Written by the object's controller, or derived from the content of credentials.
	"Deployment": {{"status"}, {"metadata", "annotations", "deployment.kubernetes.io/revision"}, {"metadata", "annotations", "operator.openshift.io/spec-hash"},
		{"spec", "template", "metadata", "annotations"}},
	"DaemonSet": {{"status"}, {"metadata", "annotations", "deprecated.daemonset.template.generation"}, {"metadata", "annotations", "operator.openshift.io/spec-hash"},
		{"metadata", "annotations", "storage.openshift.io/stable-generation"}, {"spec", "template", "metadata", "annotations"}},
	"PodDisruptionBudget": {{"status"}},
	"Service":             {{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
	"Secret":              {{"data"}},
	"PersistentVolume":    {{"status", "lastPhaseTransitionTime"}, {"spec", "claimRef", "uid"}, {"spec", "claimRef", "resourceVersion"}},
	"CredentialsRequest":  {{"status", "lastSyncTimestamp"}, {"status", "lastSyncGeneration"}},
}

func mask(kind string, object map[string]any) {
	for _, fields := range [][][]string{masked[""], masked[kind]} {
		for _, path := range fields {
			unstructured.RemoveNestedField(object, path...)
		}
	}
	if annotations, found, _ := unstructured.NestedMap(object, "metadata", "annotations"); found && len(annotations) == 0 {
		unstructured.RemoveNestedField(object, "metadata", "annotations")
	}
	for _, part := range []string{"spec", "status"} { // an OperatorCondition has conditions in both
		conditions, found, _ := unstructured.NestedSlice(object, part, "conditions")
		if found {
			object[part].(map[string]any)["conditions"] = byType(conditions)
		}
	}
}

// byType returns conditions by type, without times. Their order varies: controllers add them in any order.
func byType(conditions []any) map[string]any {
	sorted := map[string]any{}
	for _, condition := range conditions {
		condition := condition.(map[string]any)
		for _, field := range []string{"lastTransitionTime", "lastProbeTime", "observedGeneration"} {
			delete(condition, field)
		}
		if isHealthy(condition) {
			delete(condition, "message")
		}
		sorted[fmt.Sprint(condition["type"])] = condition
	}
	return sorted
}

// healthy are the summary conditions of a healthy operator.
var healthy = map[string]operatorv1.ConditionStatus{
	operatorv1.OperatorStatusTypeAvailable:   operatorv1.ConditionTrue,
	operatorv1.OperatorStatusTypeProgressing: operatorv1.ConditionFalse,
	operatorv1.OperatorStatusTypeDegraded:    operatorv1.ConditionFalse,
}

// isHealthy reports whether a condition is such a summary. Its message then comes from the condition that changed last.
func isHealthy(condition map[string]any) bool {
	status, summary := healthy[fmt.Sprint(condition["type"])]
	return summary && condition["status"] == string(status)
}

// Difference returns the differences between two states by object; "" if they are equal.
func Difference(want, got map[string]any) string {
	keys := map[string]any{}
	maps.Copy(keys, want)
	maps.Copy(keys, got)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case want[key] == nil:
			fmt.Fprintf(&text, "+ %s\n", key)
		case got[key] == nil:
			fmt.Fprintf(&text, "- %s\n", key)
		case !reflect.DeepEqual(want[key], got[key]):
			fmt.Fprintf(&text, "  %s:\n%s", key, cmp.Diff(want[key], got[key]))
		}
	}
	return text.String()
}
