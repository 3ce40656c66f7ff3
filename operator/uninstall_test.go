package operator

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

func TestNextStep(t *testing.T) {
	all := []string{"Deployment", "DaemonSet", "ServiceAccount", "CSIDriver", "StorageClass", "CredentialsRequest"}
	for _, tc := range []struct {
		name    string
		remains remains
		reason  string
		message string   // a part of it
		delete  []string // kinds
		done    bool
	}{
		{
			name:    "volumes are in use",
			remains: remains{objects: objects(all...), users: []string{"shop/web-0", "shop/web-1"}},
			reason:  "VolumesInUse", message: "in use by 2 pods: shop/web-0, shop/web-1",
		},
		{
			name:    "in use by more pods than one can read",
			remains: remains{objects: objects(all...), users: strings.Split(strings.Repeat("shop/web,", 12)+"shop/last", ",")},
			reason:  "VolumesInUse", message: "and 3 more",
		},
		{
			name:    "in use, but an administrator insists",
			remains: remains{objects: objects(all...), users: []string{"shop/web-0"}, forced: true},
			reason:  "Removing", delete: []string{"Deployment"},
		},
		{name: "the controller goes first", remains: remains{objects: objects(all...)}, reason: "Removing", delete: []string{"Deployment"}},
		{
			name:    "its pods are waited for",
			remains: remains{objects: objects(all[1:]...), pods: map[int]int{0: 2}},
			reason:  "Removing", message: "waiting for the driver's controller to end: 2 pods",
		},
		{
			name:    "a pod comes in between: the nodes still serve it",
			remains: remains{objects: objects(all[1:]...), users: []string{"shop/late"}},
			reason:  "VolumesInUse",
		},
		{name: "then the nodes", remains: remains{objects: objects(all[1:]...)}, reason: "Removing", delete: []string{"DaemonSet"}},
		{
			name:    "node pods are waited for, and nobody can be helped by stopping now",
			remains: remains{objects: objects(all[2:]...), pods: map[int]int{1: 1}, users: []string{"shop/late"}},
			reason:  "Removing", message: "waiting for the driver's node to end: 1 pod",
		},
		{
			name:    "then all the rest but the credentials",
			remains: remains{objects: objects(all[2:]...)},
			reason:  "Removing", delete: []string{"ServiceAccount", "CSIDriver", "StorageClass"},
		},
		{name: "credentials last", remains: remains{objects: objects(all[5:]...)}, reason: "Removing", delete: []string{"CredentialsRequest"}},
		{name: "done", remains: remains{}, reason: "Removed", done: true},
		{
			name: "what belongs to others is reported", remains: remains{foreign: []string{"StorageClass efs-sc"}},
			reason: "Removed", message: "StorageClass efs-sc", done: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := nextStep(tc.remains)
			if got.reason != tc.reason || got.done != tc.done || !strings.Contains(got.message, tc.message) {
				t.Errorf("step = %s (done %v): %s\nwant %s (done %v): …%s…", got.reason, got.done, got.message, tc.reason, tc.done, tc.message)
			}
			var kinds []string
			for _, m := range got.delete {
				kinds = append(kinds, m.Object.GetKind())
			}
			if strings.Join(kinds, ",") != strings.Join(tc.delete, ",") {
				t.Errorf("deletes %v, want %v", kinds, tc.delete)
			}
		})
	}
}

func objects(kinds ...string) []drivers.Manifest {
	var manifests []drivers.Manifest
	for _, kind := range kinds {
		object := &unstructured.Unstructured{}
		object.SetKind(kind)
		manifests = append(manifests, drivers.Manifest{Object: object})
	}
	return manifests
}
