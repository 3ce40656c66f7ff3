package sharedvolume_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// teamRoles are the roles that the bundle ships.
const teamRoles = "../bundle/aws-efs-operator/1.0.0/manifests/*.clusterrole.yaml"

// TestTenants runs in a cluster where namespaces need grants, as in every new installation, and teams have the bundle's
// roles.
func TestTenants(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, cluster.Start(t, cluster.Options{}))
	env.defineAll()
	env.run(env.controllerConfig())
	env.applyRoles()
	t.Run("roles", func(t *testing.T) { testTeamRoles(t, env.in(t)) })
	t.Run("grants", func(t *testing.T) { testGrants(t, env.in(t)) })
	t.Run("attacks", func(t *testing.T) { testAttacks(t, env.in(t)) })
	t.Run("documentation", func(t *testing.T) { testDocumentation(t, env.in(t)) })
}

// applyRoles applies the roles for teams that come with the bundle.
func (env testEnv) applyRoles() {
	env.t.Helper()
	files, err := filepath.Glob(teamRoles)
	require.NoError(env.t, err)
	require.Lenf(env.t, files, 3, "files of %s", teamRoles)
	for _, file := range files {
		env.kubectl("apply", "--filename="+file)
	}
}

// testDocumentation runs the examples of the pages, one after the other.
func testDocumentation(t *testing.T, env testEnv) {
	t.Parallel()
	env.do("create", env.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	for _, page := range []string{"reference/security.md", "operate/sharedvolume.md"} {
		for i, example := range examplesOf(t, page) {
			file := filepath.Join(t.TempDir(), fmt.Sprint(i, ".yaml"))
			env.do("write", os.WriteFile(file, []byte(example), 0o600))
			env.kubectl("apply", "--filename="+file)
		}
	}
	website := newVolume("shop", "website")
	p := env.ready(website)
	deployment := &appsv1.Deployment{}
	env.get(deployment, "shop", "website")
	assert.Equal(t, p.claim.Name, deployment.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName, "the claim that the Deployment mounts")
}

// examplesOf returns the YAML that a page of the documentation shows.
func examplesOf(t *testing.T, page string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../docs", page))
	require.NoError(t, err)
	var examples []string
	for _, block := range strings.Split(string(raw), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		examples = append(examples, example)
	}
	require.NotEmptyf(t, examples, "YAML of %s", page)
	return examples
}

// tenant is a user with one of Kubernetes' own roles in one namespace, and no other permissions.
type tenant struct {
	api       client.Client
	config    *rest.Config
	namespace string
}

// tenant creates a service account with a role in a namespace, and waits until the role takes effect.
func (env testEnv) tenant(namespace, role string) tenant {
	env.t.Helper()
	return env.tenantCalled("tenant", namespace, role)
}

func (env testEnv) tenantCalled(name, namespace, role string) tenant {
	env.t.Helper()
	config := env.ServiceAccountConfig(env.t, namespace, name)
	api, err := client.New(config, client.Options{Scheme: env.client.Scheme(), Mapper: env.client.RESTMapper()})
	require.NoError(env.t, err)
	env.do("bind", env.client.Create(env.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}))
	// The API server applies bindings and aggregated roles with a small delay.
	cluster.Eventually(env.t, waitLimit, "the tenant's rights", func(ctx context.Context) error {
		return api.List(ctx, &v1alpha1.SharedVolumeList{}, client.InNamespace(namespace))
	})
	return tenant{api, config, namespace}
}

// grant grants a namespace access points of one file system.
func (env testEnv) grant(namespace, fileSystem string, accessPoints ...string) *v1alpha1.SharedVolumeGrant {
	env.t.Helper()
	grant := newGrant(namespace, fileSystem, accessPoints...)
	env.do("grant", env.client.Create(env.t.Context(), grant))
	return grant
}

func newGrant(namespace, fileSystem string, accessPoints ...string) *v1alpha1.SharedVolumeGrant {
	return &v1alpha1.SharedVolumeGrant{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.SharedVolumeGrantSpec{FileSystems: []v1alpha1.FileSystemGrant{
			{FileSystemID: fileSystem, AccessPointIDs: accessPoints}}},
	}
}

func patch(body string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(body))
}

// volumeOf returns a SharedVolume for an access point.
func volumeOf(namespace, name, fileSystem, accessPoint string) *v1alpha1.SharedVolume {
	sv := newVolume(namespace, name)
	sv.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: fileSystem, AccessPointID: accessPoint}
	return sv
}

// refused checks that the API server refused a request with the wanted message.
func (env testEnv) refused(what string, err error, want string) {
	env.t.Helper()
	assert.ErrorContainsf(env.t, err, want, "%s: the answer", what)
}

// testTeamRoles checks the permissions of Kubernetes' own roles on SharedVolumes.
func testTeamRoles(t *testing.T, env testEnv) {
	t.Parallel()
	for role, may := range map[string]struct{ read, write, empty bool }{
		"view":  {read: true},
		"edit":  {read: true, write: true},
		"admin": {read: true, write: true, empty: true},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			env := env.in(t)
			namespace := env.Namespace(t)
			env.grant(namespace, "fs-01", "fsap-01")
			who := env.tenant(namespace, role)
			sv := volumeOf(namespace, "logs", "fs-01", "fsap-01")
			if !may.write {
				env.refused("create", who.api.Create(t.Context(), sv.DeepCopy()), "forbidden")
				env.do("create", env.client.Create(t.Context(), sv))
				env.refused("delete", who.api.Delete(t.Context(), sv), "forbidden")
			} else {
				env.do("create", who.api.Create(t.Context(), sv))
			}
			env.ready(sv)
			env.do("get", who.api.Get(t.Context(), client.ObjectKeyFromObject(sv), sv))
			env.refused("read the grant", who.api.Get(t.Context(), client.ObjectKey{Name: namespace}, &v1alpha1.SharedVolumeGrant{}), "forbidden")
			env.refused("status", who.api.Status().Patch(t.Context(), sv.DeepCopy(), patch(`{"status":{"phase":"Ready"}}`)), "forbidden")
			env.refused("elsewhere", who.api.List(t.Context(), &v1alpha1.SharedVolumeList{}, client.InNamespace("default")), "forbidden")
			err := who.api.DeleteAllOf(t.Context(), &v1alpha1.SharedVolume{}, client.InNamespace(namespace))
			assert.Equalf(t, may.empty, err == nil, "deletion of all SharedVolumes at once: %v", err)
			if may.write {
				env.do("delete", client.IgnoreNotFound(who.api.Delete(t.Context(), sv)))
				env.gone(sv)
			}
		})
	}
}

// testGrants has two tenants, each with its own grant.
func testGrants(t *testing.T, env testEnv) {
	t.Parallel()
	first, second := env.tenant(env.Namespace(t), "edit"), env.tenant(env.Namespace(t), "edit")
	own := volumeOf(first.namespace, "logs", "fs-01", "fsap-01")
	env.do("create", first.api.Create(t.Context(), own))
	env.ungranted(own, "Namespace "+first.namespace+" may not use access point fsap-01 of file system fs-01: there is no SharedVolumeGrant "+
		first.namespace+". A cluster administrator can grant it: berth grant "+first.namespace+" fs-01 fsap-01")
	assert.Empty(t, own.Finalizers, "finalizers, with nothing to wait for")
	env.events(own, "Warning NotGranted 1")

	env.grant(first.namespace, "fs-01", "fsap-01") // as the command does
	p := env.ready(own)
	env.granted(first.namespace)
	env.events(own, "Warning NotGranted 1", "Normal Recovered 1")

	env.grant(second.namespace, "fs-02", "*")
	other := volumeOf(second.namespace, "logs", "fs-02", "fsap-01")
	env.do("create", second.api.Create(t.Context(), other))
	env.ready(other)
	for _, sv := range []*v1alpha1.SharedVolume{
		volumeOf(first.namespace, "other-point", "fs-01", "fsap-03"),
		volumeOf(first.namespace, "other-system", "fs-02", "fsap-01"),
		volumeOf(second.namespace, "other-system", "fs-01", "fsap-01"),
	} {
		env.do("create", env.client.Create(t.Context(), sv))
		env.ungranted(sv, "SharedVolumeGrant "+sv.Namespace+" does not list it. A cluster administrator can grant it: berth grant "+sv.Namespace+" "+sv.Spec.FileSystemID+" ")
	}

	t.Run("added later", func(t *testing.T) {
		env := env.in(t)
		env.do("add", env.client.Patch(t.Context(), &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: first.namespace}}, client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"add","path":"/spec/fileSystems/0/accessPointIDs/-","value":"fsap-03"}]`))))
		env.ready(volumeOf(first.namespace, "other-point", "fs-01", "fsap-03"))
	})
	t.Run("taken back", func(t *testing.T) {
		env := env.in(t)
		env.do("take back", env.client.Delete(t.Context(), &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: first.namespace}}))
		env.ungranted(volumeOf(first.namespace, "other-system", "fs-02", "fsap-01"), "there is no SharedVolumeGrant") // so the controller has seen it
		late := volumeOf(first.namespace, "late", "fs-01", "fsap-01")
		env.do("create", first.api.Create(t.Context(), late))
		env.ungranted(late, "there is no SharedVolumeGrant")
		// Granted SharedVolumes keep working, are repaired and can be deleted.
		env.do("delete the claim", first.api.Delete(t.Context(), p.claim))
		env.gone(p.claim)
		env.bound(own)
		env.do("delete", first.api.Delete(t.Context(), own))
		env.gone(own)
		env.gone(p.volume)
		env.do("delete", first.api.Delete(t.Context(), late))
		env.gone(late)
	})
	t.Run("taken back, and the volume deleted", func(t *testing.T) {
		env := env.in(t)
		third := env.tenant(env.Namespace(t), "edit")
		grant := env.grant(third.namespace, "fs-03", "*")
		sv := volumeOf(third.namespace, "logs", "fs-03", "fsap-01")
		env.do("create", third.api.Create(t.Context(), sv))
		p := env.ready(sv)
		env.do("take back", env.client.Delete(t.Context(), grant))
		env.do("delete the volume", env.client.Delete(t.Context(), p.volume))
		env.gone(p.volume)
		env.ungranted(sv, "there is no SharedVolumeGrant")
		env.do("delete", third.api.Delete(t.Context(), sv))
		env.gone(sv)
		env.gone(p.claim)
	})
	t.Run("of a wrong name", func(t *testing.T) {
		env := env.in(t)
		env.refused("a grant", env.client.Create(t.Context(), newGrant("a.b", "fs-03", "*")), "a grant has the name of the namespace that it is for")
		policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.SharedVolumePolicySpec{Access: v1alpha1.AccessOpen}}
		env.refused("a policy", env.client.Create(t.Context(), policy), "the one SharedVolumePolicy is called cluster")
	})
}

// shell runs an administrator's command line, with kubectl for oc, and returns its output.
func (env testEnv) shell(commands string) string {
	env.t.Helper()
	kubectl, folder := env.Kubectl(env.t.Context()), env.t.TempDir()
	env.do("link", os.Symlink(kubectl.Path, filepath.Join(folder, "oc")))
	shell := exec.CommandContext(env.t.Context(), "bash", "-o", "pipefail", "-ec", commands)
	shell.Dir = folder
	shell.Env = append(kubectl.Environ(), "PATH="+folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	require.NoErrorf(env.t, err, "%s:\n%s", commands, out)
	return string(out)
}

// granted waits until a grant is effective for the namespace of its name.
func (env testEnv) granted(namespace string) {
	env.t.Helper()
	of := &corev1.Namespace{}
	env.get(of, "", namespace)
	grant := &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	env.eventually("the grant to be effective", grant, func() error {
		if grant.Status.NamespaceUID != string(of.UID) || !meta.IsStatusConditionTrue(grant.Status.Conditions, v1alpha1.ConditionEffective) {
			return fmt.Errorf("its status is %+v", grant.Status)
		}
		return nil
	})
}

// ungranted waits until a SharedVolume has reason NotGranted with the wanted message, and checks that nothing was created for
// it.
func (env testEnv) ungranted(sv *v1alpha1.SharedVolume, want string) {
	env.t.Helper()
	env.until(sv, "NotGranted")
	env.eventually(want, sv, func() error { // it may not have been granted before, for another reason
		if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, want) {
			return fmt.Errorf("it is %s, %q", sv.Status.Phase, sv.Status.Message)
		}
		return nil
	})
	volume := &corev1.PersistentVolume{}
	if err := env.client.Get(env.t.Context(), client.ObjectKey{Name: "sharedvolume-" + string(sv.UID)}, volume); !apierrors.IsNotFound(err) {
		env.t.Errorf("without a grant, there is volume %s: %v", volume.Name, err)
	}
}

// TestOpen: where no grant is required, anyone who may create SharedVolumes may use any access point.
func TestOpen(t *testing.T) {
	env := served(t)
	sv := volumeOf(env.Namespace(t), "logs", "fs-0a", "fsap-0a")
	env.do("create", env.client.Create(t.Context(), sv))
	env.ready(sv)
}
