package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/journey"
)

// communityCRD is the definition that the community's operator brings.
const communityCRD = "../../sharedvolume/testdata/community-crd.yaml"

// TestTeamsKeepTheirSharedVolumes installs the operator where SharedVolumes of the community's operator
// are stored, of every kind that its definition allows: OLM refuses a definition that makes a stored
// object invalid. Then somebody with no more than a role of Kubernetes in a namespace works there.
func TestTeamsKeepTheirSharedVolumes(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	w.kubectl("apply", "--filename="+communityCRD)
	team := w.Namespace(t)
	ordinary, endless, specless := stored(team, "ordinary"), stored(team, "endless"), stored(team, "specless")
	endless.Spec.FileSystemID = "fs-" + strings.Repeat("0", 1000)
	specless.Spec = sharedvolume.SharedVolumeSpec{}
	for _, volume := range []*sharedvolume.SharedVolume{ordinary, endless, specless} {
		cluster.Eventually(t, limit, "the definition to be served", func(ctx context.Context) error { return w.Client().Create(ctx, volume) })
	}
	w.serveCatalog()
	csv := w.subscribe(nil)
	// Only the definition is left of that operator, and nobody has a volume: new ones need a grant.
	w.awaitReason(ordinary, "NotGranted")
	w.grant(team)
	w.awaitReason(ordinary, "Bound")
	w.awaitReason(endless, "InvalidSpec")
	w.awaitReason(specless, "InvalidSpec")

	roles := w.teamRoles()
	editor, viewer := w.member(team, "edit"), w.member(team, "view")
	own := sharedVolume("own")
	own.Namespace = team
	err := viewer.Create(t.Context(), own.DeepCopy())
	assert.Truef(t, apierrors.IsForbidden(err), "a viewer creates a SharedVolume: %v", err)
	assert.NoError(t, editor.Create(t.Context(), own.DeepCopy()), "an editor creates a SharedVolume")
	w.share(own)

	// The team's rights outlive the operator, as its objects do.
	w.step(func(ctx context.Context, c client.Client) error { return w.removeOperator(ctx, c, csv) })
	assert.Equal(t, fmt.Sprint(roles), fmt.Sprint(w.teamRoles()), "the cluster roles for teams")
	assert.NoError(t, editor.Delete(t.Context(), own), "an editor deletes a SharedVolume")
	w.subscribe(nil)
	w.step(func(ctx context.Context, c client.Client) error { return journey.Gone(ctx, c, own) })
}

// stored returns a SharedVolume as the community's operator leaves it.
func stored(namespace, name string) *sharedvolume.SharedVolume {
	volume := sharedVolume(name)
	volume.Namespace, volume.Finalizers = namespace, []string{"finalizer.awsefs.managed.openshift.io"}
	return volume
}

// teamRoles returns the names and verbs of the cluster roles that give rights to SharedVolumes to everyone with a role
// of Kubernetes: the bundle's, and OLM's.
func (w *environment) teamRoles() map[string][]string {
	w.t.Helper()
	const api = "sharedvolumes.aws-efs.managed.openshift.io"
	want := []string{api + "-view", api + "-edit", api + "-admin", api + "-v1alpha1-view", api + "-v1alpha1-edit", api + "-v1alpha1-admin"}
	found := map[string][]string{}
	cluster.Eventually(w.t, limit, "the cluster roles for teams", func(ctx context.Context) error {
		for _, name := range want {
			role := &rbacv1.ClusterRole{}
			if err := w.Client().Get(ctx, client.ObjectKey{Name: name}, role); err != nil {
				return err
			}
			found[name] = role.Rules[0].Verbs
		}
		return nil
	})
	return found
}

// member returns a client of somebody who has a role of Kubernetes in a namespace, once that works.
func (w *environment) member(of, role string) client.Client {
	w.t.Helper()
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: of, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: of, Name: role}},
	})
	api, err := client.New(w.ServiceAccountConfig(w.t, of, role), client.Options{Scheme: w.Client().Scheme()})
	require.NoError(w.t, err)
	cluster.Eventually(w.t, limit, "the rights of "+role, func(ctx context.Context) error {
		return api.List(ctx, &sharedvolume.SharedVolumeList{}, client.InNamespace(of))
	})
	return api
}

// kubectl runs kubectl, which must succeed, and returns its output.
func (w *environment) kubectl(args ...string) string {
	w.t.Helper()
	out, err := w.Kubectl(w.t.Context(), args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
	return string(out)
}
