package subscription

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// podFields are the fields of a pod's specification that may affect mounts, besides its containers' environment.
var podFields = []string{"dnsPolicy", "dnsConfig", "hostNetwork", "hostAliases", "nodeSelector", "tolerations"}

// dnsPolicyOf returns the dnsPolicy that a Subscription asks the operator to give the driver's pods, "" for none.
func dnsPolicyOf(s *v1alpha1.Subscription) string {
	if s == nil || s.Spec == nil || s.Spec.Config == nil {
		return ""
	}
	policy := ""
	for _, env := range s.Spec.Config.Env {
		if env.Name == drivers.DNSPolicyEnv {
			policy = env.Value // of several, a container gets the last
		}
	}
	if !drivers.IsDNSPolicy(policy) {
		return ""
	}
	return policy
}

// changesOfPods returns an adoption's changes to the pods of a driver's DaemonSet that may affect mounts. dnsPolicy is
// the Subscription's, or "".
func changesOfPods(live *unstructured.Unstructured, wanted []drivers.Manifest, dnsPolicy string) (changes []string) {
	if live.GetKind() != "DaemonSet" {
		return nil
	}
	for _, m := range drivers.OfKind(wanted, "DaemonSet") {
		if m.Object.GetName() != live.GetName() {
			continue
		}
		is, _, _ := unstructured.NestedMap(live.Object, "spec", "template", "spec")
		will, _, _ := unstructured.NestedMap(m.Object.Object, "spec", "template", "spec")
		if dnsPolicy != "" && will != nil {
			will["dnsPolicy"] = dnsPolicy // NestedMap has made a copy
		}
		for _, field := range podFields {
			if !equality.Semantic.DeepEqual(is[field], will[field]) {
				changes = append(changes, fmt.Sprintf("%s is %s, and will be %s", field, shown(is[field]), shown(will[field])))
			}
		}
		if lost := slices.DeleteFunc(variables(is), func(name string) bool { return slices.Contains(variables(will), name) }); len(lost) > 0 {
			changes = append(changes, "environment variables go: "+escape.Short(strings.Join(lost, ", "), 200))
		}
	}
	return changes
}

// shown returns a field as a message shows it.
func shown(value any) string {
	switch value := value.(type) {
	case nil:
		return "not set"
	case string:
		return escape.Short(value, 200)
	}
	text, err := json.Marshal(value)
	if err != nil {
		text = fmt.Append(nil, value)
	}
	return escape.Short(string(text), 200)
}

// variables returns the names of the environment variables of a pod's containers.
func variables(pod map[string]any) (names []string) {
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	for _, c := range containers {
		of, _ := c.(map[string]any)
		env, _, _ := unstructured.NestedSlice(of, "env")
		for _, e := range env {
			if variable, is := e.(map[string]any); is {
				names = append(names, fmt.Sprint(variable["name"]))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
