package sharedvolume_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/statediff"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
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

// state returns all objects of a namespace, by kind and name, under common names and without differences between
// equivalent runs.
func (env testEnv) state(namespace string, names commonNames) map[string]any {
	env.t.Helper()
	state := map[string]any{}
	for _, object := range env.all(namespace) {
		common, err := statediff.Of(&object, names.toCommon)
		env.do("rename", err)
		state[object.GetKind()+" "+names.toCommon.Replace(object.GetName())] = common
	}
	return state
}

// commonNames replace the names of one run by names common to all runs, and back.
type commonNames struct{ toCommon, toOwn *strings.Replacer }

// namesOf returns the names of a run with one SharedVolume. The name of its volume contains its UID.
func namesOf(sv *v1alpha1.SharedVolume) commonNames {
	return commonNames{
		toCommon: strings.NewReplacer(sv.Namespace, "namespace", string(sv.UID), "uid"),
		toOwn:    strings.NewReplacer("namespace", sv.Namespace, "uid", string(sv.UID)),
	}
}

func (n commonNames) points(points []fault.Point) []fault.Point {
	var common []fault.Point
	for _, p := range points {
		common = append(common, p.Rename(n.toCommon))
	}
	return common
}

func (n commonNames) counts(counts map[fault.Point]fault.Count) map[fault.Point]fault.Count {
	common := map[fault.Point]fault.Count{}
	for p, count := range counts {
		common[p.Rename(n.toCommon)] = count
	}
	return common
}
