// Package statediff compares what two runs of the same thing have made of a cluster: a state holds objects,
// each without what differs between any two runs.
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

// Of returns an object as it stands in a state. The replacer gives the names that are another in each run
// those that they have in all.
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

// masked are the fields that differ between two runs that do the same, by kind; "" stands for all kinds.
var masked = map[string][][]string{
	"": {
		{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"},
	},
	"ClusterCSIDriver": {{"status", "generations"}, {"status", "observedGeneration"}, {"metadata", "annotations", "berth.dev/driver-namespace-uid"}},
	// What its controller made of it, in how many steps, and the content of the credentials.
	"Deployment": {{"status"}, {"metadata", "annotations", "deployment.kubernetes.io/revision"}, {"metadata", "annotations", "operator.openshift.io/spec-hash"},
		{"spec", "template", "metadata", "annotations"}},
	"DaemonSet": {{"status"}, {"metadata", "annotations", "deprecated.daemonset.template.generation"}, {"metadata", "annotations", "operator.openshift.io/spec-hash"},
		{"metadata", "annotations", "storage.openshift.io/stable-generation"}, {"spec", "template", "metadata", "annotations"}},
	"PodDisruptionBudget": {{"status"}},
	"Service":             {{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
	"Secret":              {{"data"}},
	"PersistentVolume":    {{"status"}, {"spec", "claimRef", "uid"}, {"spec", "claimRef", "resourceVersion"}},
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
	for _, part := range []string{"spec", "status"} { // OLM's OperatorCondition has them in both
		conditions, found, _ := unstructured.NestedSlice(object, part, "conditions")
		if found {
			object[part].(map[string]any)["conditions"] = byType(conditions)
		}
	}
}

// byType returns conditions without their times, and without their order, which is that in which they came.
func byType(conditions []any) map[string]any {
	sorted := map[string]any{}
	for _, condition := range conditions {
		condition := condition.(map[string]any)
		for _, field := range []string{"lastTransitionTime", "lastProbeTime", "observedGeneration"} {
			delete(condition, field)
		}
		if isWell(condition) {
			delete(condition, "message")
		}
		sorted[fmt.Sprint(condition["type"])] = condition
	}
	return sorted
}

// well are the summaries of an operator's conditions that has nothing to complain of.
var well = map[string]operatorv1.ConditionStatus{
	operatorv1.OperatorStatusTypeAvailable:   operatorv1.ConditionTrue,
	operatorv1.OperatorStatusTypeProgressing: operatorv1.ConditionFalse,
	operatorv1.OperatorStatusTypeDegraded:    operatorv1.ConditionFalse,
}

// isWell tells whether a condition is such a summary: then its message is that of whichever condition has
// changed last.
func isWell(condition map[string]any) bool {
	status, summary := well[fmt.Sprint(condition["type"])]
	return summary && condition["status"] == string(status)
}

// Difference tells how two states differ, object by object; "" if they do not.
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
