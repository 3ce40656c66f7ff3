package sharedvolume_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/fault"
)

// all returns the SharedVolumes and claims of a namespace, and their volumes.
func (env testEnv) all(namespace string) []unstructured.Unstructured {
	env.t.Helper()
	var found []unstructured.Unstructured
	for kind, where := range map[schema.GroupVersionKind]client.ListOption{
		v1alpha1.GroupVersion.WithKind("SharedVolumeList"):              client.InNamespace(namespace),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"): client.InNamespace(namespace),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeList"):      client.MatchingLabels{sharedvolume.OwnerNamespaceLabel: namespace},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		env.do("list", env.client.List(env.t.Context(), list, where))
		found = append(found, list.Items...)
	}
	return found
}

// touch changes all objects of a namespace in an irrelevant way.
func (env testEnv) touch(namespace string) {
	env.t.Helper()
	for _, object := range env.all(namespace) {
		env.do("touch", env.client.Patch(env.t.Context(), &object, patch(fmt.Sprintf(`{"metadata":{"annotations":{"touch":"%s"}}}`, object.GetResourceVersion()))))
	}
}

// comparableState returns all objects of a namespace, by kind and name, without the fields that depend on their history.
func (env testEnv) comparableState(namespace string) map[string]any {
	env.t.Helper()
	state := map[string]any{}
	for _, object := range env.all(namespace) {
		content := object.Object
		metadata := content["metadata"].(map[string]any)
		content["metadata"] = map[string]any{"labels": metadata["labels"], "finalizers": metadata["finalizers"], "deleted": object.GetDeletionTimestamp() != nil}
		strip(content)
		state[object.GetKind()+" "+object.GetName()] = content
	}
	return state
}

var historyFields = []string{"uid", "resourceVersion", "lastTransitionTime", "lastPhaseTransitionTime"}

func strip(content any) {
	switch content := content.(type) {
	case map[string]any:
		for key, value := range content {
			if slices.Contains(historyFields, key) {
				delete(content, key)
			} else {
				strip(value)
			}
		}
	case []any:
		for _, value := range content {
			strip(value)
		}
	}
}

// alias maps the names of one run to names that are common to all runs.
type alias map[string]string

func (a alias) replace(text string, back bool) string {
	for own, common := range a {
		if back {
			own, common = common, own
		}
		text = strings.ReplaceAll(text, own, common)
	}
	return text
}

// common returns objects with common names.
func (a alias) common(state map[string]any) map[string]any {
	raw, err := json.Marshal(state)
	if err != nil {
		panic(err)
	}
	var common map[string]any
	if err := json.Unmarshal([]byte(a.replace(string(raw), false)), &common); err != nil {
		panic(err)
	}
	return common
}

// own returns a point with this run's names.
func (a alias) own(p fault.Point) fault.Point { return a.rename(p, true) }

func (a alias) rename(p fault.Point, back bool) fault.Point {
	p.Namespace, p.Name = a.replace(p.Namespace, back), a.replace(p.Name, back)
	return p
}

func (a alias) points(points []fault.Point) []fault.Point {
	var common []fault.Point
	for _, p := range points {
		common = append(common, a.rename(p, false))
	}
	return common
}

func (a alias) counts(counts map[fault.Point]fault.Count) map[fault.Point]fault.Count {
	common := map[fault.Point]fault.Count{}
	for p, count := range counts {
		common[a.rename(p, false)] = count
	}
	return common
}
