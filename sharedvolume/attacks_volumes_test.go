package sharedvolume_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Attacks on claims and volumes.

func parkClaim(a arena) {
	quota := a.noClaims(a.victim.namespace)
	fresh := volumeOf(a.victim.namespace, "fresh", "fs-01", "fsap-02")
	a.do("create", a.victim.api.Create(a.t.Context(), fresh))
	a.until(fresh, "QuotaExceeded")
	// Only the victim can read the UID in the volume's name; assume that the attacker has guessed it.
	parked := a.claim("parked", "sharedvolume-"+string(fresh.UID))
	a.created(parked)
	volumes := a.watchVolumes()
	a.do("delete", a.client.Delete(a.t.Context(), quota))
	for i := range 10 {
		a.do("nudge", a.attacker.api.Patch(a.t.Context(), parked, patch(fmt.Sprintf(`{"metadata":{"annotations":{"nudge":"%d"}}}`, i))))
	}
	// The attacker may be slow: the volume must never be open, not even for a moment.
	for event := range volumes {
		volume := event.Object.(*corev1.PersistentVolume)
		if volume.Name != parked.Spec.VolumeName {
			continue
		}
		if ref := volume.Spec.ClaimRef; ref == nil || ref.Namespace != fresh.Namespace || ref.UID == "" {
			a.t.Errorf("the volume is created reserved for %v", ref)
		}
		break
	}
	a.ready(fresh)
	a.get(parked, parked.Namespace, parked.Name)
	assert.Equal(a.t, corev1.ClaimPending, parked.Status.Phase, "the attacker's claim")
}

// watchVolumes returns the events of volumes from now on.
func (a arena) watchVolumes() <-chan watch.Event {
	a.t.Helper()
	api, err := client.NewWithWatch(a.Config(), client.Options{Scheme: a.client.Scheme(), Mapper: a.client.RESTMapper()})
	a.do("connect", err)
	var before corev1.PersistentVolumeList
	a.do("list", api.List(a.t.Context(), &before))
	watching, err := api.Watch(a.t.Context(), &before, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: before.ResourceVersion}})
	a.do("watch", err)
	a.t.Cleanup(watching.Stop)
	return watching.ResultChan()
}

// The community operator gave both SharedVolumes, x/b-c and x-b/c, the volume pv-x-b-c.
func clashingNames(a arena) {
	old := a.legacy(a.victim.namespace, "old", "fs-01::fsap-02")
	sv := a.own("b-old")
	forged := a.claim("pvc-b-old", old.volume.Name)
	forged.Spec.StorageClassName = new("efs-sc")
	forged.Labels = legacyLabels(a.attacker.namespace, "b-old")
	a.created(forged)
	a.created(sv)
	a.until(sv, "Conflict")
	a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
	a.gone(sv)

	sv = a.own("b-old")
	a.do("delete", client.IgnoreNotFound(a.attacker.api.Delete(a.t.Context(), forged)))
	a.gone(forged)
	a.created(sv)
	assert.Equal(a.t, "fs-0a::fsap-01", a.bound(sv).volume.Spec.CSI.VolumeHandle, "what the attacker's SharedVolume mounts")
	a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
	a.gone(sv)
	a.unchanged(old.pair)
}

func thereFirst(a arena) {
	sv := a.own("first")
	claim := a.claim("pvc-first", "")
	claim.Spec.StorageClassName = new("none-of-that-name")
	claim.Labels = map[string]string{sharedvolume.OwnedLabel: "true", sharedvolume.OwnerNamespaceLabel: sv.Namespace, sharedvolume.OwnerNameLabel: sv.Name}
	a.created(claim)
	a.created(sv)
	a.until(sv, "Conflict")
	a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
	a.gone(sv)
	before := claim.UID
	a.get(claim, claim.Namespace, claim.Name)
	if claim.UID != before || claim.DeletionTimestamp != nil {
		a.t.Error("the claim that was there first is deleted")
	}
}

func otherVolume(a arena) {
	spare := a.volume("spare-"+a.attacker.namespace, nil, "fs-0c::fsap-01")
	a.do("create", a.client.Create(a.t.Context(), spare))
	a.t.Cleanup(func() { a.do("delete", a.client.Delete(context.Background(), spare)) })
	sv := a.own("logs")
	a.created(sv)
	p := a.ready(sv)
	a.do("delete", a.attacker.api.Delete(a.t.Context(), p.claim))
	// Whether the attacker's claim or the operator's new one comes first: the operator never uses foreign objects.
	rival := a.claim("pvc-logs", spare.Name)
	rival.Spec.Selector = p.claim.Spec.Selector
	cluster.Eventually(a.t, waitLimit, "a claim", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(a.attacker.api.Create(ctx, rival.DeepCopy()))
	})
	a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
	a.gone(sv)
	a.get(spare, "", spare.Name)
	assert.Nil(a.t, spare.DeletionTimestamp, "the other volume is deleted with the SharedVolume")
}

func smuggledPath(a arena) {
	for _, spec := range []v1alpha1.SharedVolumeSpec{
		{FileSystemID: "fs-0a:/../..", AccessPointID: "fsap-01"},
		{FileSystemID: "fs-0a", AccessPointID: "fsap-01:/etc"},
		{FileSystemID: "fs-0a::fsap-09", AccessPointID: "fsap-01"},
		{FileSystemID: "fs-0a", AccessPointID: "fsap-01\n"},
		{FileSystemID: "fs-0A", AccessPointID: "fsap-01"},
		{FileSystemID: "fs-0a", AccessPointID: "fsap-" + strings.Repeat("0", 200)},
		{FileSystemID: "fs-0a", AccessPointID: "*"},
	} {
		sv := a.own("smuggled")
		sv.Spec = spec
		a.refused(fmt.Sprint(spec), a.attacker.api.Create(a.t.Context(), sv), "Invalid value")
	}
}

func changedSpec(a arena) {
	sv := a.own("logs")
	a.created(sv)
	p := a.ready(sv)
	for _, change := range []string{`{"spec":{"fileSystemID":"fs-01"}}`, `{"spec":{"accessPointID":"fsap-02"}}`, `{"spec":null}`} {
		a.refused(change, a.attacker.api.Patch(a.t.Context(), sv.DeepCopy(), patch(change)), "spec is immutable")
	}
	a.refused("another volume", a.attacker.api.Patch(a.t.Context(), p.claim.DeepCopy(), patch(`{"spec":{"volumeName":"`+a.held.volume.Name+`"}}`)), "spec is immutable")
	a.refused("another handle", a.attacker.api.Patch(a.t.Context(), p.volume.DeepCopy(), patch(`{"spec":{"csi":{"volumeHandle":"fs-01::fsap-02"}}}`)), "forbidden")
	a.ready(sv)
}

func otherIDs(a arena) {
	sv := a.own("logs")
	a.created(sv)
	before := a.ready(sv)
	a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
	a.gone(sv)
	sv = volumeOf(a.attacker.namespace, "logs", "fs-0a", "fsap-02")
	a.created(sv)
	if after := a.bound(sv); after.volume.Spec.CSI.VolumeHandle != "fs-0a::fsap-02" || after.volume.UID == before.volume.UID {
		a.t.Errorf("the new SharedVolume has volume %s for %s", after.volume.Name, after.volume.Spec.CSI.VolumeHandle)
	}
	a.gone(before.volume)
}

func longNames(a arena) {
	for _, name := range []string{strings.Repeat("n", 64), strings.Repeat("n", 253)} {
		sv := a.own(name)
		a.created(sv)
		p := a.ready(sv)
		a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
		a.gone(sv)
		a.gone(p.volume)
	}
}

func smuggledOptions(a arena) {
	sv := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"fileSystemID": "fs-0a", "accessPointID": "fsap-01",
		"mountOptions": []any{"accesspoint=fsap-02"}, "volumeHandle": "fs-01::fsap-02", "volumeAttributes": map[string]any{"mounttargetip": "10.0.0.1"},
	}}}
	sv.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SharedVolume"))
	sv.SetNamespace(a.attacker.namespace)
	sv.SetName("logs")
	sv.SetAnnotations(map[string]string{"volume.beta.kubernetes.io/mount-options": "accesspoint=fsap-02"})
	a.created(sv)
	p := a.ready(a.own("logs"))
	want := corev1.CSIPersistentVolumeSource{Driver: sharedvolume.DriverName, VolumeHandle: "fs-0a::fsap-01"}
	if diff := cmp.Diff(want, *p.volume.Spec.CSI); diff != "" || p.volume.Spec.MountOptions != nil || p.volume.Annotations["volume.beta.kubernetes.io/mount-options"] != "" {
		a.t.Errorf("the volume is %s%v %v", diff, p.volume.Spec.MountOptions, p.volume.Annotations)
	}
}

// Kubelets identify a volume by its handle. A pod that mounts both may not start, but no other pod is affected.
func usedTwice(a arena) {
	first, second := a.own("first"), a.own("second")
	a.created(first)
	a.created(second)
	kept, other := a.ready(first), a.ready(second)
	assert.NotEqual(a.t, kept.volume.Name, other.volume.Name, "the volumes of both")
	a.do("delete", a.attacker.api.Delete(a.t.Context(), second))
	a.gone(second)
	a.gone(other.volume)
	a.unchanged(kept)
}

func reclaimDelete(a arena) {
	trap := a.volume("pv-"+a.attacker.namespace+"-trap", nil, "fs-0a::fsap-01")
	trap.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	trap.Spec.StorageClassName = trap.Name // or else a claim of another test takes it
	a.do("create", a.client.Create(a.t.Context(), trap))
	a.t.Cleanup(func() { a.do("delete", client.IgnoreNotFound(a.client.Delete(context.Background(), trap))) })
	sv := a.own("trap")
	a.created(sv)
	p := a.ready(sv)
	if p.volume.Name == trap.Name || p.volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		a.t.Errorf("volume %s is to be %s", p.volume.Name, p.volume.Spec.PersistentVolumeReclaimPolicy)
	}
}

func finalizerLeak(a arena) {
	for i := range 3 {
		sv := a.own("logs")
		a.created(sv)
		p := a.bound(sv)
		a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
		// It may be deleted already, which is fine.
		a.do("take off", client.IgnoreNotFound(a.attacker.api.Patch(a.t.Context(), sv.DeepCopy(), patch(`{"metadata":{"finalizers":null}}`))))
		a.gone(sv)
		a.awaitGarbageCollection(p.claim)
		a.gone(p.volume)
		a.t.Logf("volume %d is gone", i)
	}
}

func hiddenClaim(a arena) {
	sv := a.own("logs")
	a.created(sv)
	p := a.ready(sv)
	a.do("hide", a.attacker.api.Patch(a.t.Context(), p.claim.DeepCopy(), patch(`{"metadata":{"labels":null,"annotations":null}}`)))
	a.do("delete", a.attacker.api.Delete(a.t.Context(), sv))
	a.gone(sv)
	a.gone(p.claim)
	a.gone(p.volume)
}

func takenVolume(a arena) {
	claim := a.claim("thief", a.held.volume.Name)
	claim.Spec.Selector = a.held.claim.Spec.Selector
	a.created(claim)
	// The binder has processed the claim once it has sent an event about it, or has bound a later one.
	a.created(a.own("marker"))
	a.ready(a.own("marker"))
	a.get(claim, claim.Namespace, claim.Name)
	assert.Equal(a.t, corev1.ClaimPending, claim.Status.Phase, "the attacker's claim")
}
