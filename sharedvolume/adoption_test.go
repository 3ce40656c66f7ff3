package sharedvolume_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/page"
)

// legacy is a SharedVolume with the objects that the community operator created for it.
type legacy struct {
	sv *v1alpha1.SharedVolume
	pair
}

// TestAdoption upgrades a cluster from the community operator's CRD and objects to ours.
func TestAdoption(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, cluster.Start(t, cluster.Options{}))
	env.define("testdata/community-crd.yaml")
	namespace := env.Namespace(t)
	current := env.legacy(namespace, "current", "fs-01::fsap-02")
	oldest := env.legacy(namespace, "oldest", "fs-01", "accesspoint=fsap-02")
	// Some never had a spec, some have IDs of any length: all are valid, all stay.
	specless, endless := newVolume(namespace, "specless"), newVolume(namespace, "endless")
	specless.Spec, endless.Spec.FileSystemID = v1alpha1.SharedVolumeSpec{}, "fs-"+strings.Repeat("0", 1000)
	for _, sv := range []*v1alpha1.SharedVolume{specless, endless} {
		sv.Finalizers = []string{sharedvolume.Finalizer}
		env.do("create", env.client.Create(t.Context(), sv))
	}
	// One is being deleted, and its finalizer waits for an operator.
	leaving := env.legacy(env.Namespace(t), "leaving", "fs-01::fsap-02")
	env.do("delete", env.client.Delete(t.Context(), leaving.sv))

	// Two SharedVolumes: the community operator gave one of them the other's volume, because of its name.
	victim := env.legacy(namespace, "b-c", "fs-01::fsap-02")
	neighbour := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-b"}}
	env.do("create", env.client.Create(t.Context(), neighbour))
	taker := newVolume(neighbour.Name, "c")
	taker.Spec.AccessPointID = "fsap-03"
	env.do("create", env.client.Create(t.Context(), taker))
	wrong := legacyClaim(neighbour.Name, "c")
	env.do("create", env.client.Create(t.Context(), wrong))

	env.community()
	env.defineAll()
	cfg := env.controllerConfig()
	for range 2 {
		decided, err := sharedvolume.Prepare(t.Context(), cfg)
		env.do("prepare", err)
		assert.Empty(t, decided, "Prepare leaves a policy to be created, want it created")
	}
	policy := &v1alpha1.SharedVolumePolicy{}
	env.get(policy, "", v1alpha1.PolicyName)
	assert.Equal(t, v1alpha1.AccessOpen, policy.Spec.Access, "a cluster that comes from the community operator begins with")
	stop := env.run(cfg)
	began := time.Now()
	for _, l := range []legacy{current, oldest, victim} {
		env.until(l.sv, "Bound")
		assert.Emptyf(t, l.sv.Status.Message, "message of %s", l.sv.Name)
		volume, claim := &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}
		env.get(volume, "", l.volume.Name)
		env.get(claim, namespace, l.claim.Name)
		assert.Emptyf(t, cmp.Diff(l.volume, volume), "volume %s changed", volume.Name)
		assert.Emptyf(t, cmp.Diff(l.claim, claim), "claim %s changed", claim.Name)
	}
	for _, object := range []client.Object{leaving.sv, leaving.claim, leaving.volume} {
		env.gone(object)
	}
	for _, sv := range []*v1alpha1.SharedVolume{specless, endless} {
		env.until(sv, "InvalidSpec")
	}
	for _, write := range env.writes(controllerUser, began, namespace, current.volume.Name, oldest.volume.Name) {
		if write != "patch sharedvolumes/status 200" && write != "create events 201" {
			t.Errorf("taking over needs no %s", write)
		}
	}

	// A restart, once all is settled, writes nothing.
	stop()
	began = time.Now()
	stop = env.run(cfg)
	for _, l := range []legacy{current, oldest} {
		env.do("touch", env.client.Patch(t.Context(), l.sv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touch":""}}}`))))
	}
	env.ready(env.create(env.Namespace(t), "marker"))
	assert.Empty(t, env.writes(controllerUser, began, namespace, current.volume.Name, oldest.volume.Name), "writes after a restart")

	t.Run("a claim that is deleted gets its volume back", func(t *testing.T) {
		env := env.in(t)
		for _, l := range []legacy{current, oldest} {
			env.do("delete", env.client.Delete(t.Context(), l.claim))
			env.gone(l.claim)
			p := env.bound(l.sv)
			assert.Equalf(t, l.volume.UID, p.volume.UID, "UID of the volume of %s", l.sv.Name)
			l.volume.Spec.ClaimRef, p.volume.Spec.ClaimRef = nil, nil
			assert.Emptyf(t, cmp.Diff(l.volume.Spec, p.volume.Spec), "volume %s changed", p.volume.Name)
		}
	})
	t.Run("a volume that two share stays with whom it was made for", func(t *testing.T) {
		env := env.in(t)
		env.until(taker, "Conflict")
		want := fmt.Sprintf("PersistentVolume pv-%s-b-c was not created for this SharedVolume: it is reserved for PersistentVolumeClaim %s/pvc-b-c; "+
			"delete PersistentVolumeClaim pvc-c, which names it; it is then recreated with another volume", namespace, namespace)
		assert.Equal(t, want, taker.Status.Message)
		env.do("delete", env.client.Delete(t.Context(), wrong))
		assert.Equal(t, "fs-0123456789abcdef0::fsap-03", env.bound(taker).volume.Spec.CSI.VolumeHandle, "the volume of the taker")
		env.do("delete", env.client.Delete(t.Context(), taker))
		env.gone(taker)
		if p := env.bound(victim.sv); p.volume.UID != victim.volume.UID || p.claim.UID != victim.claim.UID {
			t.Error("the other SharedVolume has lost its volume")
		}
	})
	t.Run("a volume that is deleted is recreated", func(t *testing.T) {
		env := env.in(t)
		env.do("delete", env.client.Delete(t.Context(), oldest.volume))
		env.gone(oldest.volume)
		assert.Equal(t, "fs-01::fsap-02", env.bound(oldest.sv).volume.Spec.CSI.VolumeHandle, "the handle of the new volume")
	})
	t.Run("deletion takes it all away", func(t *testing.T) {
		env := env.in(t)
		p := env.bound(current.sv)
		for _, sv := range []*v1alpha1.SharedVolume{current.sv, specless, endless} {
			env.do("delete", env.client.Delete(t.Context(), sv))
			env.gone(sv)
		}
		env.gone(p.claim)
		env.gone(p.volume)
	})
	t.Run("the door can be closed, as the page shows", func(t *testing.T) {
		env := env.in(t)
		other := env.Namespace(t)
		for _, sv := range []*v1alpha1.SharedVolume{volumeOf(other, "first", "fs-01", "fsap-01"), volumeOf(other, "second", "fs-01", "fsap-02"), volumeOf(other, "third", "fs-02", "fsap-01")} {
			env.do("create", env.client.Create(t.Context(), sv))
			env.ready(sv)
		}
		for _, block := range page.Blocks(t, "../docs/reference/security.md", "## Close a cluster that began open", strings.NewReplacer()) {
			env.shell(block.Text)
		}
		grant := &v1alpha1.SharedVolumeGrant{}
		env.get(grant, "", other)
		assert.Empty(t, cmp.Diff([]v1alpha1.FileSystemGrant{
			{FileSystemID: "fs-01", AccessPointIDs: []string{"fsap-01", "fsap-02"}}, {FileSystemID: "fs-02", AccessPointIDs: []string{"fsap-01"}},
		}, grant.Spec.FileSystems), "the page's command grants what is not used, or not all of it (-want +got)")
		env.until(env.created(volumeOf(other, "more", "fs-02", "fsap-02")), "NotGranted")
		env.ready(env.created(volumeOf(other, "again", "fs-02", "fsap-01")))
		for _, sv := range []*v1alpha1.SharedVolume{oldest.sv, victim.sv} {
			env.bound(sv)
		}
	})
	t.Run("so does deletion of the definition, and all can begin again", func(t *testing.T) {
		env := env.in(t)
		p := env.bound(oldest.sv)
		definition := env.definition()
		// It waits for the finalizers of its objects, and these for a controller.
		stop()
		env.do("delete", env.client.Delete(t.Context(), definition))
		env.unchanged(p)
		env.run(cfg)
		env.gone(definition)
		env.gone(p.claim)
		env.gone(p.volume)
		env.define(definitionFile)
		env.setAccess(v1alpha1.AccessOpen)
		env.ready(env.create(namespace, "again"))
	})
}

// created creates a SharedVolume.
func (env testEnv) created(sv *v1alpha1.SharedVolume) *v1alpha1.SharedVolume {
	env.t.Helper()
	env.do("create", env.client.Create(env.t.Context(), sv))
	return sv
}

// community creates the cluster-scoped objects that the community operator leaves: its SecurityContextConstraints and its driver. Only the
// former begin an open cluster. Whoever administers storage may write a CSIDriver, so that proves nothing.
func (env testEnv) community() (constraints, driver *unstructured.Unstructured) {
	env.t.Helper()
	objects, err := community.Driver("openshift-operators", env.definition())
	require.NoError(env.t, err)
	for _, object := range objects {
		switch object.GetKind() {
		case "SecurityContextConstraints":
			constraints = object
		case "CSIDriver":
			driver = object
		default:
			continue
		}
		env.do("create", env.client.Create(env.t.Context(), object))
	}
	return constraints, driver
}

// bound waits until a SharedVolume is Ready with a claim that is not being deleted.
func (env testEnv) bound(sv *v1alpha1.SharedVolume) pair {
	env.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: sv.Namespace, Name: sharedvolume.ClaimName(sv.Name)}}
	env.eventually("the claim to be bound", claim, func() error {
		if claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil {
			return fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return nil
	})
	return env.ready(sv)
}

// legacy creates the objects that the community operator creates for a SharedVolume, and binds them: the volume with storage
// class efs-sc and no reservation, and the claim that names the volume.
func (env testEnv) legacy(namespace, name, handle string, options ...string) legacy {
	env.t.Helper()
	volume := env.volume("pv-"+namespace+"-"+name, legacyLabels(namespace, name), handle, options...)
	volume.Spec.StorageClassName = "efs-sc"
	env.do("create", env.client.Create(env.t.Context(), volume))
	claim := legacyClaim(namespace, name)
	env.do("create", env.client.Create(env.t.Context(), claim))
	env.eventually("the claim to be bound", claim, func() error {
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return nil
	})
	env.get(volume, "", volume.Name)

	sv := newVolume(namespace, name)
	sv.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: "fs-01", AccessPointID: "fsap-02"}
	sv.Finalizers = []string{sharedvolume.Finalizer}
	env.do("create", env.client.Create(env.t.Context(), sv))
	status := fmt.Sprintf(`{"status":{"phase":"Ready","message":"an old failure","claimRef":{"apiGroup":"","kind":"PersistentVolumeClaim","name":"%s"}}}`, claim.Name)
	env.do("write the status", env.client.Status().Patch(env.t.Context(), sv, patch(status)))
	return legacy{sv, pair{claim, volume}}
}

func legacyLabels(namespace, name string) map[string]string {
	return map[string]string{
		"openshift.io/aws-efs-operator-owned":                         "true",
		"openshift.io/aws-efs-operator-shared-volume-owner-namespace": namespace,
		"openshift.io/aws-efs-operator-shared-volume-owner-name":      name,
	}
}

func legacyClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pvc-" + name, Labels: legacyLabels(namespace, name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("efs-sc"),
			VolumeName:       "pv-" + namespace + "-" + name,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}
