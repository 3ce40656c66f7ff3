package sharedvolume_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestForeignClaim(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	foreign := foreignClaim(namespace, "pvc-logs")
	foreign.Labels = map[string]string{sharedvolume.OwnedLabel: "true", sharedvolume.OwnerNamespaceLabel: namespace, sharedvolume.OwnerNameLabel: "logs"}
	w.do("create", w.client.Create(t.Context(), foreign))
	version := foreign.ResourceVersion

	sv := w.create(namespace, "logs")
	w.until(sv, "Conflict")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "PersistentVolumeClaim pvc-logs exists and was not made for this SharedVolume") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	w.get(foreign, namespace, "pvc-logs")
	if foreign.ResourceVersion != version {
		t.Errorf("the foreign claim was changed: %v", foreign.ManagedFields)
	}

	t.Run("deleting lets it be", func(t *testing.T) {
		w := w.in(t)
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.gone(sv)
		w.get(foreign, namespace, "pvc-logs")
		if foreign.ResourceVersion != version || foreign.DeletionTimestamp != nil {
			t.Errorf("the foreign claim was changed: %v", foreign.ManagedFields)
		}
	})
	t.Run("its removal clears the way", func(t *testing.T) {
		w := w.in(t)
		sv := w.create(namespace, "logs")
		w.until(sv, "Conflict")
		w.do("delete", w.client.Delete(t.Context(), foreign))
		w.ready(sv)
		if sv.Status.Message != "" {
			t.Errorf("the message stays: %s", sv.Status.Message)
		}
		w.events(sv, "Warning Conflict 1", "Normal Recovered 1")
	})
}

func TestForeignVolume(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	quota := w.noClaims(namespace)
	sv := w.create(namespace, "logs")
	w.until(sv, "QuotaExceeded")

	// Only an administrator can make volumes, and only now is the name known.
	name := "sharedvolume-" + string(sv.UID)
	foreign := w.volume(name, nil, "fs-9::fsap-9")
	foreign.Spec.CSI.Driver = "ebs.csi.aws.com"
	w.do("create", w.client.Create(t.Context(), foreign))
	t.Cleanup(func() { w.do("delete", client.IgnoreNotFound(w.client.Delete(context.Background(), foreign))) })
	w.do("delete", w.client.Delete(t.Context(), quota))

	w.until(sv, "Conflict")
	if !strings.Contains(sv.Status.Message, name) {
		t.Errorf("the message does not name the volume: %s", sv.Status.Message)
	}
	if got := w.writes(controllerUser, time.Time{}, "none", name); got != nil {
		t.Errorf("writes to the foreign volume: %q", got)
	}
	w.do("delete", w.client.Delete(t.Context(), foreign))
	w.ready(sv)
}

// The community operator named a volume pv-<namespace>-<name>, so that two SharedVolumes of different
// namespaces could get the same one.
func TestNamesThatClash(t *testing.T) {
	w := served(t)
	a := w.Namespace(t)
	ab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a + "-b"}}
	w.do("create", w.client.Create(t.Context(), ab))
	t.Cleanup(func() { w.do("delete", w.client.Delete(context.Background(), ab)) })
	// And an administrator has one of that name.
	taken := w.volume("pv-"+a+"-b-c", nil, "fs-0123456789abcdef0::fsap-0123456789abcdef0")
	taken.Spec.StorageClassName = "none-of-that-name"
	w.do("create", w.client.Create(t.Context(), taken))
	t.Cleanup(func() { w.do("delete", w.client.Delete(context.Background(), taken)) })

	first, second := newVolume(a, "b-c"), newVolume(ab.Name, "c")
	first.Spec.AccessPointID, second.Spec.AccessPointID = "fsap-01", "fsap-02"
	for _, sv := range []*v1alpha1.SharedVolume{first, second} {
		w.do("create", w.client.Create(t.Context(), sv))
	}
	for _, sv := range []*v1alpha1.SharedVolume{first, second} {
		if got, want := w.ready(sv).volume.Spec.CSI.VolumeHandle, sv.Spec.FileSystemID+"::"+sv.Spec.AccessPointID; got != want {
			t.Errorf("%s/%s has %s, want %s", sv.Namespace, sv.Name, got, want)
		}
	}
	w.get(taken, "", taken.Name)
	if taken.Spec.ClaimRef != nil {
		t.Errorf("the administrator's volume was taken: %v", taken.Spec.ClaimRef)
	}
	w.do("delete", w.client.Delete(t.Context(), first))
	w.gone(first)
	w.ready(second)
}

func TestLongNames(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	for _, name := range []string{strings.Repeat("n", 64), strings.Repeat("n", 253), strings.Repeat("n", 252) + "m"} {
		sv := w.create(namespace, name)
		p := w.ready(sv)
		if p.claim.Name != sv.Status.ClaimRef.Name {
			t.Errorf("status names the claim %s, it is %s", sv.Status.ClaimRef.Name, p.claim.Name)
		}
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.gone(sv)
		w.gone(p.volume)
	}
}

func TestQuota(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	quota := w.noClaims(namespace)
	sv := w.create(namespace, "logs")
	w.until(sv, "QuotaExceeded")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "exceeded quota: none") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	w.noVolumes(namespace)
	w.do("delete", w.client.Delete(t.Context(), quota))
	w.ready(sv)
}

func TestImmutable(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	sv := w.create(namespace, "logs")
	for _, patch := range []string{
		`{"spec":{"fileSystemID":"fs-02"}}`,
		`{"spec":{"accessPointID":"fsap-02"}}`,
		`{"spec":null}`,
	} {
		err := w.client.Patch(t.Context(), sv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		if err == nil || !strings.Contains(err.Error(), "spec is immutable: to use another access point, create another SharedVolume") {
			t.Errorf("%s: the answer is %v", patch, err)
		}
	}
	for _, spec := range []v1alpha1.SharedVolumeSpec{
		{FileSystemID: "fs-0", AccessPointID: "fsap-g"},
		{FileSystemID: "fs-0:/../x", AccessPointID: "fsap-0"},
		{FileSystemID: "fs-0\n", AccessPointID: "fsap-0"},
		{FileSystemID: "fs-" + strings.Repeat("0", 126), AccessPointID: "fsap-0"},
		{FileSystemID: "fs-0"},
	} {
		bad := newVolume(namespace, "bad")
		bad.Spec = spec
		if err := w.client.Create(t.Context(), bad); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
}

func TestWithoutSpec(t *testing.T) {
	w := served(t)
	sv := newVolume(w.Namespace(t), "logs")
	spec := sv.Spec
	sv.Spec = v1alpha1.SharedVolumeSpec{}
	w.do("create", w.client.Create(t.Context(), sv))
	w.until(sv, "InvalidSpec")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "spec.fileSystemID") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	if diff := cmp.Diff([]string{"patch sharedvolumes/status 200"}, w.writesBut(sv.Namespace, "events")); diff != "" {
		t.Error(diff)
	}
	sv.Spec = spec
	w.do("update", w.client.Update(t.Context(), sv))
	w.ready(sv)
}

// foreignClaim returns a claim that somebody else makes and nobody binds.
func foreignClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("none-of-that-name"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// noClaims allows a namespace no claims.
func (w world) noClaims(namespace string) *corev1.ResourceQuota {
	w.t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")}},
	}
	w.do("create", w.client.Create(w.t.Context(), quota))
	w.eventually("the quota to be in force", quota, func() error {
		if len(quota.Status.Hard) == 0 {
			return fmt.Errorf("its status is empty")
		}
		return nil
	})
	return quota
}

// volume returns a volume as somebody else may make it.
func (w world) volume(name string, labels map[string]string, handle string, options ...string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			MountOptions:                  options,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: sharedvolume.DriverName, VolumeHandle: handle}},
		},
	}
}
