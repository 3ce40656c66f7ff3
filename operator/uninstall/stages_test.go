package uninstall

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

func TestNextAction(t *testing.T) {
	all := []string{"Deployment", "DaemonSet", "ServiceAccount", "CSIDriver", "StorageClass", "CredentialsRequest"}
	tasks := []task{{kind: "VolumeAttachment", verb: "detach", objects: 1, first: []string{"a (node n)"}}}
	for _, tc := range []struct {
		name     string
		observed observedState
		reason   string
		message  string   // a part of it
		delete   []string // kinds
		done     bool
	}{
		{
			name:     "volumes are in use",
			observed: observedState{objects: manifests(all...), users: []string{"shop/web-0", "shop/web-1"}},
			reason:   "VolumesInUse", message: "in use by 2 pods: shop/web-0, shop/web-1",
		},
		{
			name:     "on nodes",
			observed: observedState{objects: manifests(all...), users: []string{"shop/web-0 on node a", "shop/web-1 on node b" + notReadyNote}},
			reason:   "VolumesInUse",
			message:  "shop/web-0 on node a, shop/web-1 on node b, which is NotReady. A pod on a node that is NotReady does not count once it is deleted. The driver",
		},
		{
			name:     "lost pods are named, and not waited for",
			observed: observedState{objects: manifests(all...), left: []string{"shop/web-1 on node b" + notReadyNote}},
			reason:   "Removing", message: "; not waiting for 1 deleted pod: shop/web-1 on node b, which is NotReady", delete: []string{"Deployment"},
		},
		{
			name:     "in use by more pods than one can read",
			observed: observedState{objects: manifests(all...), users: strings.Split(strings.Repeat("shop/web,", 12)+"shop/last", ",")},
			reason:   "VolumesInUse", message: "and 3 more",
		},
		{
			name:     "in use, but removal is forced",
			observed: observedState{objects: manifests(all...), users: []string{"shop/web-0"}, forced: true},
			reason:   "Removing", delete: []string{"Deployment"},
		},
		{
			name:     "the controller still has to do something",
			observed: observedState{objects: manifests(all...), tasks: tasks},
			reason:   "ControllerNeeded", message: "still has to detach 1 VolumeAttachment: a (node n). ",
		},
		{
			name:     "the controller still has to do something, but removal is forced",
			observed: observedState{objects: manifests(all...), tasks: tasks, forced: true},
			reason:   "Removing", delete: []string{"Deployment"},
		},
		{name: "the controller is first", observed: observedState{objects: manifests(all...)}, reason: "Removing", delete: []string{"Deployment"}},
		{
			name:     "wait for its pods",
			observed: observedState{objects: manifests(all[1:]...), pods: map[int][]string{0: {"berth/a on node m", "berth/b on node n"}}},
			reason:   "Removing", message: "waiting for the driver's controller to end: 2 pods: berth/a on node m, berth/b on node n;",
		},
		{
			name:     "a new pod blocks while the nodes still serve it",
			observed: observedState{objects: manifests(all[1:]...), users: []string{"shop/late"}},
			reason:   "VolumesInUse",
		},
		{name: "then the nodes", observed: observedState{objects: manifests(all[1:]...)}, reason: "Removing", delete: []string{"DaemonSet"}},
		{
			name:     "wait for node pods, whoever uses volumes now",
			observed: observedState{objects: manifests(all[2:]...), pods: map[int][]string{1: {"berth/c on node n"}}, users: []string{"shop/late"}},
			reason:   "Removing", message: "waiting for the driver's node to end: 1 pod",
		},
		{
			name:     "then everything but the credentials",
			observed: observedState{objects: manifests(all[2:]...)},
			reason:   "Removing", delete: []string{"ServiceAccount", "CSIDriver", "StorageClass"},
		},
		{name: "credentials last", observed: observedState{objects: manifests(all[5:]...)}, reason: "Removing", delete: []string{"CredentialsRequest"}},
		{
			name:     "one that is refused does not hold those beside it",
			observed: observedState{objects: manifests(all[2:]...), refused: refusal("CSIDriver")},
			reason:   "Removing", message: "2 objects", delete: []string{"ServiceAccount", "CSIDriver", "StorageClass"},
		},
		{
			name:     "nor those after it",
			observed: observedState{objects: manifests("CSIDriver", "CredentialsRequest"), refused: refusal("CSIDriver")},
			reason:   "Removing", message: "1 object", delete: []string{"CredentialsRequest", "CSIDriver"},
		},
		{
			name:     "but the end",
			observed: observedState{objects: manifests("CSIDriver"), refused: refusal("CSIDriver")},
			reason:   "DeletionRefused", message: "1 more object can be deleted, which the API server refuses: CSIDriver is frozen", delete: []string{"CSIDriver"},
		},
		{
			name:     "pods need everything after them",
			observed: observedState{objects: manifests(all...), refused: refusal("Deployment")},
			reason:   "DeletionRefused", message: "Deployment is frozen", delete: []string{"Deployment"},
		},
		{name: "done", observed: observedState{}, reason: "Removed", done: true},
		{
			name: "lost pods are named in the end", observed: observedState{left: []string{"berth/c on node n" + notReadyNote, "berth/d on node o"}},
			reason: "Removed", message: "not waiting for 2 deleted pods: berth/c on node n, which is NotReady, berth/d on node o", done: true,
		},
		{
			name: "foreign objects are reported", observed: observedState{foreign: []string{"StorageClass efs-sc"}},
			reason: "Removed", message: "StorageClass efs-sc", done: true,
		},
		{
			name: "objects of another version are reported", observed: observedState{unknown: []string{"ConfigMap/new"}},
			reason: "Removed", message: "another version of the operator created them: ConfigMap/new", done: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := nextAction(tc.observed)
			if got.reason != tc.reason || got.done != tc.done || !strings.Contains(got.message, tc.message) {
				t.Errorf("action = %s (done %v): %s\nwant %s (done %v): …%s…", got.reason, got.done, got.message, tc.reason, tc.done, tc.message)
			}
			var kinds []string
			for _, m := range got.delete {
				kinds = append(kinds, m.Object.GetKind())
			}
			assert.Equal(t, tc.delete, kinds, "deletes")
		})
	}
}

// refusal is the refusal of the manifest of a kind.
func refusal(kind string) map[string]error {
	return map[string]error{nameOf(manifests(kind)[0]): errors.New(kind + " is frozen")}
}

func manifests(kinds ...string) []drivers.Manifest {
	var manifests []drivers.Manifest
	for _, kind := range kinds {
		object := &unstructured.Unstructured{}
		object.SetKind(kind)
		manifests = append(manifests, drivers.Manifest{Object: object})
	}
	return manifests
}
