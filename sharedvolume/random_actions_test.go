package sharedvolume_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// randomActions are the actions, with a weight each. An action returns false if it does not apply.
var randomActions = []struct {
	weight int
	name   string
	do     func(*sequence, string) bool
}{
	{10, "create", (*sequence).createVolume},
	{3, "edit", (*sequence).edit},
	{4, "delete", (*sequence).deleteVolume},
	{4, "delete the claim of", (*sequence).deleteClaimOf},
	{4, "delete the volume of", (*sequence).deleteVolumeOf},
	{2, "remove the labels from the claim of", (*sequence).unlabelClaimOf},
	{2, "remove the labels from the volume of", (*sequence).unlabelVolumeOf},
	{2, "remove the finalizer from", (*sequence).unfinalize},
	{1, "forge the status of", (*sequence).forgeStatus},
	{2, "create a foreign claim for", (*sequence).foreignClaim},
	{2, "remove the foreign claim for", (*sequence).removeForeignClaim},
	{2, "start a pod with", (*sequence).startPod},
	{2, "stop the pods of all, not only", (*sequence).stopPods},
	{1, "delete the namespace of", (*sequence).deleteNamespace},
	{2, "stop the controller of", (*sequence).stopController},
	{3, "start a controller for", (*sequence).startController},
	{1, "wait for", (*sequence).waitFor},
}

// perform performs a random action on a random SharedVolume.
func (s *sequence) perform() {
	sum := 0
	for _, action := range randomActions {
		sum += action.weight
	}
	for done := false; !done; {
		roll, name := s.dice.IntN(sum), string(rune('a'+s.dice.IntN(4)))
		for _, action := range randomActions {
			if roll -= action.weight; roll < 0 {
				if done = action.do(s, name); done {
					s.t.Log(action.name, name)
				}
				break
			}
		}
	}
}

func (s *sequence) createVolume(name string) bool {
	if s.model.volumes[name] != nil {
		return false
	}
	sv := volumeOf(s.namespace, name, usualSpec.FileSystemID, fmt.Sprintf("fsap-%02d", s.dice.IntN(100)))
	s.createInPlace(sv)
	s.model.volumes[name] = sv
	return true
}

func (s *sequence) edit(name string) bool {
	sv := s.model.volumes[name]
	if sv == nil {
		return false
	}
	err := s.client.Patch(s.t.Context(), sv.DeepCopy(), patch(`{"spec":{"accessPointID":"fsap-0123"}}`))
	s.refused("edit", err, "spec is immutable")
	s.do("edit", s.client.Patch(s.t.Context(), sv.DeepCopy(), patch(`{"metadata":{"labels":{"edited":"yes"}}}`)))
	return true
}

func (s *sequence) deleteVolume(name string) bool {
	sv := s.model.volumes[name]
	if sv == nil {
		return false
	}
	s.do("delete", s.client.Delete(s.t.Context(), sv))
	delete(s.model.volumes, name)
	return true
}

func (s *sequence) deleteClaimOf(name string) bool {
	if s.model.volumes[name] == nil || s.model.foreign[name] != nil {
		return false
	}
	return s.existed(s.client.Delete(s.t.Context(), s.claimOf(name)))
}

func (s *sequence) deleteVolumeOf(name string) bool {
	return s.model.volumes[name] != nil && s.existed(s.client.Delete(s.t.Context(), s.volumeOf(name)))
}

func (s *sequence) unlabelClaimOf(name string) bool {
	return s.existed(s.client.Patch(s.t.Context(), s.claimOf(name), patch(`{"metadata":{"labels":null}}`)))
}

func (s *sequence) unlabelVolumeOf(name string) bool {
	if s.model.volumes[name] == nil {
		return false
	}
	volume := s.volumeOf(name)
	s.unlabelled[volume.Name] = true
	return s.existed(s.client.Patch(s.t.Context(), volume, patch(`{"metadata":{"labels":null}}`)))
}

// existed reports whether a request found its object.
func (s *sequence) existed(err error) bool {
	s.t.Helper()
	s.do("do", client.IgnoreNotFound(err))
	return err == nil
}

func (s *sequence) claimOf(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: sharedvolume.ClaimName(name)}}
}

func (s *sequence) volumeOf(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "sharedvolume-" + string(s.model.volumes[name].UID)}}
}

func (s *sequence) unfinalize(name string) bool {
	sv := s.model.volumes[name]
	if sv == nil {
		return false
	}
	s.unfinalized[s.volumeOf(name).Name] = true
	s.removeFinalizers(sv)
	return true
}

func (s *sequence) forgeStatus(name string) bool {
	sv := s.model.volumes[name]
	if sv == nil {
		return false
	}
	s.do("forge", s.client.Status().Patch(s.t.Context(), sv.DeepCopy(), patch(`{"status":{"phase":"Failed","message":"x","claimRef":null,"conditions":[]}}`)))
	return true
}

func (s *sequence) foreignClaim(name string) bool {
	if s.model.volumes[name] != nil || s.model.foreign[name] != nil {
		return false
	}
	claim := foreignClaim(s.namespace, sharedvolume.ClaimName(name))
	s.createInPlace(claim)
	s.model.foreign[name] = claim
	return true
}

func (s *sequence) removeForeignClaim(name string) bool {
	claim := s.model.foreign[name]
	if claim == nil {
		return false
	}
	s.do("delete", s.client.Delete(s.t.Context(), claim))
	delete(s.model.foreign, name)
	return true
}

func (s *sequence) startPod(name string) bool {
	s.pod(s.namespace, fmt.Sprint("pod-", s.dice.Uint64()), sharedvolume.ClaimName(name))
	return true
}

func (s *sequence) stopPods(string) bool {
	s.do("stop the pods", s.client.DeleteAllOf(s.t.Context(), &corev1.Pod{}, client.InNamespace(s.namespace), client.GracePeriodSeconds(0)))
	return true
}

func (s *sequence) deleteNamespace(name string) bool {
	s.startController(name)
	s.stopPods(name)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.do("delete", s.client.Delete(s.t.Context(), namespace.DeepCopy()))
	s.model = newModel()
	s.createInPlace(namespace)
	// The grant was for the deleted namespace.
	grant := &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.do("update the grant", s.client.Patch(s.t.Context(), grant, patch(fmt.Sprintf(`{"spec":{"namespaceUID":"%s"}}`, namespace.UID))))
	return true
}

func (s *sequence) waitFor(name string) bool {
	s.startController(name)
	s.stopPods(name)
	s.awaitModel()
	return true
}

func (s *sequence) startController(string) bool {
	if s.stop != nil {
		return false
	}
	s.injector = fault.Record(noPoints)
	s.stop = s.runInjected(s.injector, s.namespace)
	return true
}

func (s *sequence) stopController(string) bool {
	if s.stop == nil {
		return false
	}
	s.stop()
	s.stop = nil
	return true
}

// createInPlace creates an object, after the deletion of an earlier one of the same name.
func (s *sequence) createInPlace(object client.Object) {
	s.t.Helper()
	err := s.client.Create(s.t.Context(), object)
	if err == nil {
		return
	}
	s.startController("")
	s.stopPods("")
	cluster.Eventually(s.t, 2*waitLimit, object.GetName()+" to be gone", func(ctx context.Context) error { return s.client.Create(ctx, object) })
}
