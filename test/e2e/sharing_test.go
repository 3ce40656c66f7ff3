package e2e

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/journey"
)

// apiUses use the APIs that come with a driver, by the name of the API's CustomResourceDefinition.
var apiUses = map[string]func(*environment){
	"sharedvolumes.aws-efs.managed.openshift.io":        (*environment).useSharedVolumes,
	"sharedvolumegrants.aws-efs.managed.openshift.io":   (*environment).replaceGrantedNamespace,
	"sharedvolumepolicies.aws-efs.managed.openshift.io": (*environment).openAndClose,
}

// useAPIs uses the APIs that come with the driver like their users.
func (w *environment) useAPIs() {
	w.t.Helper()
	apis, err := w.driver.ServedAPIs()
	require.NoError(w.t, err)
	for _, api := range apis {
		use, known := apiUses[api]
		if !known {
			w.t.Errorf("nobody here knows how the API %s is used: add it to apiUses", api)
			continue
		}
		use(w)
	}
}

// useSharedVolumes creates SharedVolumes, meddles with their objects, uses one in a pod, and deletes all.
func (w *environment) useSharedVolumes() {
	w.t.Helper()
	meddled, contested, ungranted := sharedVolume("meddled"), sharedVolume("contested"), sharedVolume("ungranted")
	w.create(ungranted)
	w.awaitReason(ungranted, "NotGranted")
	w.grant(meddled.Namespace)
	w.awaitReason(ungranted, "Bound")
	w.share(meddled)

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: meddled.Namespace, Name: "pvc-" + meddled.Name}}
	for range 2 { // The second time, the same event is counted again.
		require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(claim), claim))
		uid := claim.UID
		w.step(func(ctx context.Context, c client.Client) error { return c.Delete(ctx, claim) })
		w.Await(w.t, limit, "the claim to be recreated and bound", claim, func() error {
			if claim.UID == uid || claim.Status.Phase != corev1.ClaimBound {
				return fmt.Errorf("claim %s with UID %s, once %s, is %s", claim.Name, claim.UID, uid, claim.Status.Phase)
			}
			return nil
		})
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	owned := claim.Labels
	w.patch(claim, `{"metadata":{"labels":null}}`)
	w.patch(volume, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	cluster.Eventually(w.t, limit, "claim and volume to be repaired", func(ctx context.Context) error {
		for _, object := range []client.Object{claim, volume} {
			if err := w.Client().Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
		}
		if len(claim.Labels) != len(owned) || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			return fmt.Errorf("labels %v, reclaim policy %s", claim.Labels, volume.Spec.PersistentVolumeReclaimPolicy)
		}
		return nil
	})

	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: contested.Namespace, Name: "pvc-" + contested.Name}, Spec: claim.Spec}
	foreign.Spec.VolumeName = ""
	w.create(foreign)
	w.create(contested)
	w.awaitReason(contested, "Conflict")

	user := journey.PodWithClaim(meddled.Namespace, "user", claim.Name)
	w.createScheduled(user)
	w.step(func(ctx context.Context, c client.Client) error { return c.Delete(ctx, meddled) })
	w.awaitReason(meddled, "ClaimInUse")
	w.step(func(ctx context.Context, c client.Client) error {
		for _, object := range []client.Object{user, contested, ungranted, foreign} {
			if err := c.Delete(ctx, object); err != nil {
				return err
			}
		}
		return journey.Gone(ctx, c, meddled, contested, ungranted, claim, volume)
	})
}

// replaceGrantedNamespace makes a grant for another namespace than has its name now.
func (w *environment) replaceGrantedNamespace() {
	w.t.Helper()
	shared := sharedVolume("inherited")
	shared.Namespace = w.Namespace(w.t)
	w.create(&sharedvolume.SharedVolumeGrant{
		ObjectMeta: metav1.ObjectMeta{Name: shared.Namespace},
		Spec: sharedvolume.SharedVolumeGrantSpec{NamespaceUID: "another", FileSystems: []sharedvolume.FileSystemGrant{
			{FileSystemID: shared.Spec.FileSystemID, AccessPointIDs: []string{shared.Spec.AccessPointID}}}},
	})
	w.create(shared)
	w.awaitReason(shared, "NotGranted")
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, shared); err != nil {
			return err
		}
		return journey.Gone(ctx, c, shared)
	})
}

// openAndClose lets SharedVolumes do without grants for a while.
func (w *environment) openAndClose() {
	w.t.Helper()
	policy := &sharedvolume.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: sharedvolume.PolicyName}}
	early, late := sharedVolume("early"), sharedVolume("late")
	early.Namespace = w.Namespace(w.t)
	late.Namespace = early.Namespace
	w.create(early)
	w.awaitReason(early, "NotGranted")
	w.patch(policy, `{"spec":{"access":"Open"}}`)
	w.awaitReason(early, "Bound")
	w.patch(policy, `{"spec":{"access":"Granted"}}`)
	cluster.Eventually(w.t, limit, "the door to be closed", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(policy.Status.Conditions, sharedvolume.ConditionGrantsRequired) {
			return fmt.Errorf("conditions are %v", policy.Status.Conditions)
		}
		return nil
	})
	w.create(late)
	w.awaitReason(late, "NotGranted")
	w.awaitReason(early, "Bound")
	w.step(func(ctx context.Context, c client.Client) error {
		for _, object := range []client.Object{early, late} {
			if err := c.Delete(ctx, object); err != nil {
				return err
			}
		}
		return journey.Gone(ctx, c, early, late)
	})
}

// grant lets a namespace's SharedVolumes mount the tests' access point.
func (w *environment) grant(namespace string) {
	w.t.Helper()
	wanted := sharedVolume("any").Spec
	w.step(func(ctx context.Context, c client.Client) error {
		return journey.Grant(ctx, c, namespace, wanted.FileSystemID, wanted.AccessPointID)
	})
}

// share makes a SharedVolume and waits until it can be used.
func (w *environment) share(volume *sharedvolume.SharedVolume) {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		claim, err := journey.Share(ctx, c, volume)
		if err == nil && claim != "pvc-"+volume.Name {
			w.t.Errorf("SharedVolume %s has the claim %s, want pvc-%s", volume.Name, claim, volume.Name)
		}
		return err
	})
}

// awaitReason waits until a SharedVolume is not Ready for a reason.
func (w *environment) awaitReason(volume *sharedvolume.SharedVolume, reason string) {
	w.t.Helper()
	w.Await(w.t, limit, "SharedVolume "+volume.Name+" to say "+reason, volume, func() error {
		if ready := meta.FindStatusCondition(volume.Status.Conditions, sharedvolume.ConditionReady); ready == nil || ready.Reason != reason {
			return fmt.Errorf("conditions are %v", volume.Status.Conditions)
		}
		return nil
	})
}
