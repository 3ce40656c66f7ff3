package sharedvolume_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestForeignClaim(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	foreign := foreignClaim(namespace, "pvc-logs")
	foreign.Labels = map[string]string{sharedvolume.OwnedLabel: "true", sharedvolume.OwnerNamespaceLabel: namespace, sharedvolume.OwnerNameLabel: "logs"}
	env.do("create", env.client.Create(t.Context(), foreign))
	version := foreign.ResourceVersion

	sv := env.create(namespace, "logs")
	env.until(sv, "Conflict")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "PersistentVolumeClaim pvc-logs exists and was not created for this SharedVolume") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	env.get(foreign, namespace, "pvc-logs")
	assert.Equalf(t, version, foreign.ResourceVersion, "the foreign claim was changed: %v", foreign.ManagedFields)

	t.Run("deleting lets it be", func(t *testing.T) {
		env := env.in(t)
		env.do("delete", env.client.Delete(t.Context(), sv))
		env.gone(sv)
		env.get(foreign, namespace, "pvc-logs")
		if foreign.ResourceVersion != version || foreign.DeletionTimestamp != nil {
			t.Errorf("the foreign claim was changed: %v", foreign.ManagedFields)
		}
	})
	t.Run("its removal clears the way", func(t *testing.T) {
		env := env.in(t)
		sv := env.create(namespace, "logs")
		env.until(sv, "Conflict")
		env.do("delete", env.client.Delete(t.Context(), foreign))
		env.ready(sv)
		assert.Empty(t, sv.Status.Message, "the message stays")
		env.events(sv, "Warning Conflict 1", "Normal Recovered 1")
	})
}

func TestForeignVolume(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	quota := env.noClaims(namespace)
	sv := env.create(namespace, "logs")
	env.until(sv, "QuotaExceeded")

	// Only an administrator can make volumes, and only now is the name known.
	name := "sharedvolume-" + string(sv.UID)
	foreign := env.volume(name, nil, "fs-9::fsap-9")
	foreign.Spec.CSI.Driver = "ebs.csi.aws.com"
	env.do("create", env.client.Create(t.Context(), foreign))
	t.Cleanup(func() { env.do("delete", client.IgnoreNotFound(env.client.Delete(context.Background(), foreign))) })
	env.do("delete", env.client.Delete(t.Context(), quota))

	env.until(sv, "Conflict")
	assert.Contains(t, sv.Status.Message, name, "the message does not name the volume")
	assert.Empty(t, env.writes(controllerUser, time.Time{}, "none", name), "writes to the foreign volume")
	env.do("delete", env.client.Delete(t.Context(), foreign))
	env.ready(sv)
}

// TestCommunityNameCollision: the community operator named a volume pv-<namespace>-<name>, so that SharedVolumes of different
// namespaces could share a name.
func TestCommunityNameCollision(t *testing.T) {
	env := served(t)
	a := env.Namespace(t)
	ab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a + "-b"}}
	env.do("create", env.client.Create(t.Context(), ab))
	t.Cleanup(func() { env.do("delete", env.client.Delete(context.Background(), ab)) })
	// And an administrator has one of that name.
	taken := env.volume("pv-"+a+"-b-c", nil, "fs-0123456789abcdef0::fsap-0123456789abcdef0")
	taken.Spec.StorageClassName = taken.Name // or else a claim of another test takes it
	env.do("create", env.client.Create(t.Context(), taken))
	t.Cleanup(func() { env.do("delete", env.client.Delete(context.Background(), taken)) })

	first, second := newVolume(a, "b-c"), newVolume(ab.Name, "c")
	first.Spec.AccessPointID, second.Spec.AccessPointID = "fsap-01", "fsap-02"
	for _, sv := range []*v1alpha1.SharedVolume{first, second} {
		env.do("create", env.client.Create(t.Context(), sv))
	}
	for _, sv := range []*v1alpha1.SharedVolume{first, second} {
		want := sv.Spec.FileSystemID + "::" + sv.Spec.AccessPointID
		assert.Equalf(t, want, env.ready(sv).volume.Spec.CSI.VolumeHandle, "handle of %s/%s", sv.Namespace, sv.Name)
	}
	env.get(taken, "", taken.Name)
	assert.Nil(t, taken.Spec.ClaimRef, "the administrator's volume was taken")
	env.do("delete", env.client.Delete(t.Context(), first))
	env.gone(first)
	env.ready(second)
}

func TestLongNames(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	for _, name := range []string{strings.Repeat("n", 64), strings.Repeat("n", 253), strings.Repeat("n", 252) + "m"} {
		sv := env.create(namespace, name)
		p := env.ready(sv)
		assert.Equal(t, p.claim.Name, sv.Status.ClaimRef.Name, "the claim that status names")
		env.do("delete", env.client.Delete(t.Context(), sv))
		env.gone(sv)
		env.gone(p.volume)
	}
}

func TestQuota(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	quota := env.noClaims(namespace)
	sv := env.create(namespace, "logs")
	env.until(sv, "QuotaExceeded")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "exceeded quota: none") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	env.noVolumes(namespace)
	env.do("delete", env.client.Delete(t.Context(), quota))
	env.ready(sv)
}

func TestImmutable(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	sv := env.create(namespace, "logs")
	for _, patch := range []string{
		`{"spec":{"fileSystemID":"fs-02"}}`,
		`{"spec":{"accessPointID":"fsap-02"}}`,
		`{"spec":null}`,
	} {
		err := env.client.Patch(t.Context(), sv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		assert.ErrorContains(t, err, "spec is immutable: to use another access point, create another SharedVolume", patch)
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
		assert.Errorf(t, env.client.Create(t.Context(), bad), "%+v is accepted", spec)
	}
}

func TestWithoutSpec(t *testing.T) {
	env := served(t)
	sv := newVolume(env.Namespace(t), "logs")
	spec := sv.Spec
	sv.Spec = v1alpha1.SharedVolumeSpec{}
	env.do("create", env.client.Create(t.Context(), sv))
	env.until(sv, "InvalidSpec")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "spec.fileSystemID") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	assert.Empty(t, cmp.Diff([]string{"patch sharedvolumes/status 200"}, env.writesBut(sv.Namespace, "events")))
	sv.Spec = spec
	env.do("update", env.client.Update(t.Context(), sv))
	env.ready(sv)
}

// foreignClaim returns a claim that somebody else creates and that is never bound.
func foreignClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("none-of-that-name"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// noClaims creates a quota of no claims for a namespace.
func (env testEnv) noClaims(namespace string) *corev1.ResourceQuota {
	env.t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")}},
	}
	env.do("create", env.client.Create(env.t.Context(), quota))
	cluster.Eventually(env.t, waitLimit, "the quota to be in force", func(ctx context.Context) error {
		return env.overQuota(ctx, quota, foreignClaim(namespace, "none"))
	})
	return quota
}

// overQuota returns an error unless the API server refuses to create an object because of a quota. The status of the
// quota does not show that: the API server follows quotas with a cache of its own.
func (env testEnv) overQuota(ctx context.Context, quota *corev1.ResourceQuota, object client.Object) error {
	err := env.client.Create(ctx, object, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: "+quota.Name) {
		return fmt.Errorf("creating %s ends with: %v", object.GetName(), err)
	}
	return nil
}

// volume returns a volume as somebody else may create it.
func (env testEnv) volume(name string, labels map[string]string, handle string, options ...string) *corev1.PersistentVolume {
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
