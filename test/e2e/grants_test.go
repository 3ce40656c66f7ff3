package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/tenant"
)

// TestGrantsAreForAdministrators installs the operator as a new cluster does, and lets a tenant try to mount an access point without a
// grant, with all rights that OLM gives to the admin of a namespace.
func TestGrantsAreForAdministrators(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	w.serveCatalog()
	w.subscribe(nil)
	w.awaitAccess(sharedvolume.AccessGranted)
	w.awaitOLMRoles("sharedvolumegrants", "sharedvolumepolicies")
	attacker := tenant.New(t, w.Cluster)
	project := attacker.Project(t, "")

	t.Run("mount on a new installation", func(t *testing.T) {
		stolen := sharedVolume("stolen")
		stolen.Namespace = project
		cluster.Eventually(t, limit, "the tenant's right to SharedVolumes", func(ctx context.Context) error { return attacker.Client.Create(ctx, stolen) })
		w.awaitReason(stolen, "NotGranted")
		if err := w.Client().Get(t.Context(), client.ObjectKey{Namespace: project, Name: "pvc-stolen"}, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}}); !apierrors.IsNotFound(err) {
			t.Errorf("the claim: %v, want none", err)
		}
	})
	t.Run("write a grant or the policy", func(t *testing.T) {
		grant := &sharedvolume.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: sharedvolume.SharedVolumeGrantSpec{
			FileSystems: []sharedvolume.FileSystemGrant{{FileSystemID: sharedVolume("").Spec.FileSystemID, AccessPointIDs: []string{"*"}}}}}
		policy := &sharedvolume.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: sharedvolume.PolicyName},
			Spec: sharedvolume.SharedVolumePolicySpec{Access: sharedvolume.AccessOpen}}
		open := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"access":"Open"}}`))
		for what, err := range map[string]error{
			"create a grant":     attacker.Client.Create(t.Context(), grant.DeepCopy()),
			"see a grant":        attacker.Client.Get(t.Context(), client.ObjectKeyFromObject(grant), grant.DeepCopy()),
			"create the policy":  attacker.Client.Create(t.Context(), policy.DeepCopy()),
			"change the policy":  attacker.Client.Patch(t.Context(), policy.DeepCopy(), open),
			"delete the policy":  attacker.Client.Delete(t.Context(), policy.DeepCopy()),
			"settle the grant":   attacker.Client.Status().Patch(t.Context(), grant.DeepCopy(), open),
			"settle the policy":  attacker.Client.Status().Patch(t.Context(), policy.DeepCopy(), open),
			"bind OLM's role":    attacker.Client.Create(t.Context(), boundEverywhere(attacker.Name, "sharedvolumegrants.aws-efs.managed.openshift.io-v1alpha1-admin")),
			"bind the role edit": attacker.Client.Create(t.Context(), boundEverywhere(attacker.Name, "edit")),
		} {
			assert.Truef(t, apierrors.IsForbidden(err), "%s: the answer is %v, want that it is forbidden", what, err)
		}
	})
}

// boundEverywhere gives somebody a role in all namespaces.
func boundEverywhere(user, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
}

// awaitAccess waits until the policy exists, and has this access and no other.
func (w *environment) awaitAccess(want sharedvolume.Access) {
	w.t.Helper()
	policy := &sharedvolume.SharedVolumePolicy{}
	cluster.Eventually(w.t, limit, "the SharedVolumePolicy to have been looked at", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKey{Name: sharedvolume.PolicyName}, policy); err != nil {
			return err
		}
		if len(policy.Status.Conditions) == 0 {
			return fmt.Errorf("it has no conditions")
		}
		return nil
	})
	if policy.Spec.Access != want || policy.Status.Conditions[0].Reason != string(want) {
		w.t.Errorf("SharedVolumePolicy %s has spec.access %s, conditions %v; want %s", policy.Name, policy.Spec.Access, policy.Status.Conditions, want)
	}
}

// awaitOLMRoles waits for OLM's roles for each API of a bundle, which are aggregated to the teams' roles.
func (w *environment) awaitOLMRoles(resources ...string) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "OLM's roles for the APIs", func(ctx context.Context) error {
		for _, resource := range resources {
			for _, of := range []string{"admin", "edit"} {
				role := &rbacv1.ClusterRole{}
				name := resource + ".aws-efs.managed.openshift.io-v1alpha1-" + of
				if err := w.Client().Get(ctx, client.ObjectKey{Name: name}, role); err != nil {
					return err
				}
				if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+of] != "true" {
					return fmt.Errorf("role %s is part of no other", name)
				}
			}
		}
		return nil
	})
}
