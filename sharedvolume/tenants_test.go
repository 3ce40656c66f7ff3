package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
)

const (
	// teamRoles are the roles that the bundle ships.
	teamRoles = "../bundle/aws-efs-operator/1.0.0/manifests/*.clusterrole.yaml"
	// policyFolder is what an administrator applies to opt in to grants.
	policyFolder = "policy"
)

// TestTenants runs in a cluster in which namespaces need grants, and teams have the bundle's roles.
func TestTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Start(t, cluster.Options{}))
	w.define(definitionFile)
	w.run(w.controllerConfig())
	w.applyRoles()
	specless := w.applyPolicy()
	t.Run("roles", func(t *testing.T) { testTeamRoles(t, w.in(t)) })
	t.Run("grants", func(t *testing.T) { testGrants(t, w.in(t), specless) })
	t.Run("attacks", func(t *testing.T) { testAttacks(t, w.in(t)) })
	t.Run("policies", func(t *testing.T) { testPolicies(t, w.in(t)) })
	t.Run("documentation", func(t *testing.T) { testDocumentation(t, w.in(t)) })
}

// applyRoles applies the roles for teams that come with the bundle.
func (w world) applyRoles() {
	w.t.Helper()
	files, err := filepath.Glob(teamRoles)
	if err != nil || len(files) != 3 {
		w.t.Fatalf("%s are %v: %v", teamRoles, files, err)
	}
	for _, file := range files {
		w.kubectl("apply", "--filename="+file)
	}
}

// applyPolicy switches the policy on, and waits until the API server has taken in all of it. It returns
// a SharedVolume without spec that was there before.
func (w world) applyPolicy() *v1alpha1.SharedVolume {
	w.t.Helper()
	specless := newVolume(w.Namespace(w.t), "specless")
	specless.Spec = v1alpha1.SharedVolumeSpec{}
	w.do("create", w.client.Create(w.t.Context(), specless))
	w.kubectl("apply", "--filename="+policyFolder+"/aws-efs.managed.openshift.io_sharedvolumegrants.yaml")
	for _, kind := range []string{"sharedvolumes", "sharedvolumegrants"} { // Kubernetes checks the policies' types once, when they come.
		cluster.Eventually(w.t, patience, "the definition of "+kind+" to be published", func(ctx context.Context) error {
			return w.Kubectl(ctx, "explain", kind).Run()
		})
	}
	w.kubectl("apply", "--filename="+policyFolder)
	almighty := w.tenant(w.Namespace(w.t), "cluster-admin")
	cluster.Eventually(w.t, patience, "the policies to be in force", func(ctx context.Context) error {
		for policy, err := range map[string]error{
			"sharedvolume-needs-grant":              almighty.api.Create(ctx, newVolume(almighty.namespace, "logs"), client.DryRunAll),
			"sharedvolumegrant-needs-administrator": almighty.api.Create(ctx, newGrant(almighty.namespace, "default", "fs-01", "*"), client.DryRunAll),
			"sharedvolume-keeps-spec":               w.client.Patch(ctx, specless.DeepCopy(), patch(`{"spec":{"fileSystemID":"fs-01","accessPointID":"fsap-01"}}`), client.DryRunAll),
		} {
			if err == nil || !strings.Contains(err.Error(), policy) {
				return fmt.Errorf("%s: %v", policy, err)
			}
		}
		return nil
	})
	return specless
}

// testPolicies asks Kubernetes whether the policies' expressions go with the types they are about.
func testPolicies(t *testing.T, w world) {
	t.Parallel()
	for _, name := range []string{"sharedvolume-needs-grant", "sharedvolume-keeps-spec", "sharedvolumegrant-needs-administrator"} {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.eventually("the types to be checked", policy, func() error {
			if policy.Status.ObservedGeneration != policy.Generation {
				return errors.New("they are not")
			}
			return nil
		})
		if checked := policy.Status.TypeChecking; checked == nil || len(checked.ExpressionWarnings) > 0 {
			t.Errorf("%s: %+v", name, checked)
		}
	}
}

// testDocumentation does what the pages show, one after the other.
func testDocumentation(t *testing.T, w world) {
	t.Parallel()
	w.do("create", w.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	for _, page := range []string{"security.md", "sharedvolume.md"} {
		for i, example := range examplesOf(t, page) {
			file := filepath.Join(t.TempDir(), fmt.Sprint(i, ".yaml"))
			w.do("write", os.WriteFile(file, []byte(example), 0o600))
			// The API server takes in a grant with a small delay.
			cluster.Eventually(t, patience, "the example of "+page, func(ctx context.Context) error {
				out, err := w.Kubectl(ctx, "apply", "--filename="+file).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			})
		}
	}
	website := newVolume("shop", "website")
	p := w.ready(website)
	deployment := &appsv1.Deployment{}
	w.get(deployment, "shop", "website")
	if got := deployment.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; got != p.claim.Name {
		t.Errorf("the Deployment mounts the claim %s, the SharedVolume has %s", got, p.claim.Name)
	}
}

// examplesOf returns the YAML that a page of the documentation shows.
func examplesOf(t *testing.T, page string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var examples []string
	for _, block := range strings.Split(string(raw), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		examples = append(examples, example)
	}
	if len(examples) == 0 {
		t.Fatalf("%s shows no YAML", page)
	}
	return examples
}

// tenant is somebody who has one of Kubernetes' own roles in one namespace, and nothing else.
type tenant struct {
	api       client.Client
	config    *rest.Config
	namespace string
}

// tenant makes a service account that has a role in a namespace, and waits until it can use it.
func (w world) tenant(namespace, role string) tenant {
	w.t.Helper()
	return w.tenantCalled("tenant", namespace, role)
}

func (w world) tenantCalled(name, namespace, role string) tenant {
	w.t.Helper()
	config := w.ServiceAccountConfig(w.t, namespace, name)
	api, err := client.New(config, client.Options{Scheme: w.client.Scheme(), Mapper: w.client.RESTMapper()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.do("bind", w.client.Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}))
	// The API server takes in bindings, and what is aggregated to a role, with a small delay.
	cluster.Eventually(w.t, patience, "the tenant's rights", func(ctx context.Context) error {
		return api.List(ctx, &v1alpha1.SharedVolumeList{}, client.InNamespace(namespace))
	})
	return tenant{api, config, namespace}
}

// grant grants a namespace access points of one file system.
func (w world) grant(namespace, fileSystem string, accessPoints ...string) *unstructured.Unstructured {
	w.t.Helper()
	grant := newGrant(namespace, "default", fileSystem, accessPoints...)
	w.do("grant", w.client.Create(w.t.Context(), grant))
	return grant
}

func newGrant(namespace, name, fileSystem string, accessPoints ...string) *unstructured.Unstructured {
	grant := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{apiVersion: aws-efs.managed.openshift.io/v1alpha1, kind: SharedVolumeGrant,
		metadata: {namespace: %s, name: %s},
		spec: {fileSystems: [{fileSystemID: %s, accessPointIDs: ["%s"]}]}}`,
		namespace, name, fileSystem, strings.Join(accessPoints, `", "`))
	if err := yaml.Unmarshal([]byte(text), grant); err != nil {
		panic(err)
	}
	return grant
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

// refused checks that the API server refused something with the words wanted.
func (w world) refused(what string, err error, want string) {
	w.t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		w.t.Errorf("%s: the answer is %v, want %q", what, err, want)
	}
}

// testTeamRoles tries what Kubernetes' own roles include of SharedVolumes.
func testTeamRoles(t *testing.T, w world) {
	t.Parallel()
	for role, may := range map[string]struct{ read, write, empty bool }{
		"view":  {read: true},
		"edit":  {read: true, write: true},
		"admin": {read: true, write: true, empty: true},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			namespace := w.Namespace(t)
			w.grant(namespace, "fs-01", "fsap-01")
			who := w.tenant(namespace, role)
			sv := volumeOf(namespace, "logs", "fs-01", "fsap-01")
			if !may.write {
				w.refused("create", who.api.Create(t.Context(), sv.DeepCopy()), "forbidden")
				w.do("create", w.client.Create(t.Context(), sv))
				w.refused("delete", who.api.Delete(t.Context(), sv), "forbidden")
			} else {
				// The API server takes in a grant with a small delay, too.
				cluster.Eventually(t, patience, "creation", func(ctx context.Context) error { return who.api.Create(ctx, sv) })
			}
			w.ready(sv)
			w.do("get", who.api.Get(t.Context(), client.ObjectKeyFromObject(sv), sv))
			grants := &unstructured.UnstructuredList{}
			grants.SetGroupVersionKind(newGrant(namespace, "default", "fs-01", "*").GroupVersionKind())
			w.do("read the grant", who.api.List(t.Context(), grants, client.InNamespace(namespace)))
			w.refused("status", who.api.Status().Patch(t.Context(), sv.DeepCopy(), patch(`{"status":{"phase":"Ready"}}`)), "forbidden")
			w.refused("elsewhere", who.api.List(t.Context(), &v1alpha1.SharedVolumeList{}, client.InNamespace("default")), "forbidden")
			err := who.api.DeleteAllOf(t.Context(), &v1alpha1.SharedVolume{}, client.InNamespace(namespace))
			if may.empty != (err == nil) {
				t.Errorf("deletion of all SharedVolumes at once: %v", err)
			}
			if may.write {
				w.do("delete", client.IgnoreNotFound(who.api.Delete(t.Context(), sv)))
				w.gone(sv)
			}
		})
	}
}

// testGrants has two tenants, each with a grant of their own.
func testGrants(t *testing.T, w world, specless *v1alpha1.SharedVolume) {
	t.Parallel()
	first, second := w.tenant(w.Namespace(t), "edit"), w.tenant(w.Namespace(t), "edit")
	refusal := "SharedVolumeGrant default of the namespace does not list it"

	w.refused("without a grant", first.api.Create(t.Context(), volumeOf(first.namespace, "logs", "fs-01", "fsap-01")),
		"binding 'sharedvolumegrant-default-of-the-namespace' denied request")
	grant := w.grant(first.namespace, "fs-01", "fsap-01", "fsap-02")
	w.grant(second.namespace, "fs-02", "*")
	own := volumeOf(first.namespace, "logs", "fs-01", "fsap-01")
	w.eventuallyCreated(first, own)
	p := w.ready(own)
	w.eventuallyCreated(second, volumeOf(second.namespace, "logs", "fs-02", "fsap-01"))
	for _, bad := range []struct {
		who tenant
		sv  *v1alpha1.SharedVolume
	}{
		{first, volumeOf(first.namespace, "other-point", "fs-01", "fsap-03")},
		{first, volumeOf(first.namespace, "other-system", "fs-02", "fsap-01")},
		{second, volumeOf(second.namespace, "other-system", "fs-01", "fsap-01")},
	} {
		w.refused(bad.sv.Name, bad.who.api.Create(t.Context(), bad.sv), refusal)
	}

	t.Run("taken back", func(t *testing.T) {
		w := w.in(t)
		w.do("take back", w.client.Delete(t.Context(), grant))
		cluster.Eventually(t, patience, "creation to be refused", func(ctx context.Context) error {
			if err := first.api.Create(ctx, volumeOf(first.namespace, "more", "fs-01", "fsap-02"), client.DryRunAll); err == nil {
				return errors.New("it is not")
			}
			return nil
		})
		// What was granted goes on, is repaired and can be deleted.
		w.do("delete the claim", first.api.Delete(t.Context(), p.claim))
		w.gone(p.claim)
		w.bound(own)
		w.do("delete", first.api.Delete(t.Context(), own))
		w.gone(own)
		w.gone(p.volume)
	})
	t.Run("not inherited", func(t *testing.T) {
		w := w.in(t)
		w.do("delete the namespace", w.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: second.namespace}}))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: second.namespace}}
		cluster.Eventually(t, patience, "the namespace anew", func(ctx context.Context) error { return w.client.Create(ctx, namespace.DeepCopy()) })
		w.refused("in a namespace of the same name", w.client.Create(t.Context(), volumeOf(second.namespace, "logs", "fs-02", "fsap-01")), "denied request")
	})
	t.Run("filled in later", func(t *testing.T) {
		w := w.in(t)
		who := w.tenant(specless.Namespace, "edit")
		err := who.api.Patch(t.Context(), specless.DeepCopy(), patch(`{"spec":{"fileSystemID":"fs-01","accessPointID":"fsap-01"}}`))
		w.refused("late spec", err, "the spec of a SharedVolume cannot be added or changed later")
		w.do("delete", who.api.Delete(t.Context(), specless))
		w.gone(specless)
	})
	t.Run("of another name", func(t *testing.T) {
		w := w.in(t)
		w.refused("a second grant", w.client.Create(t.Context(), newGrant(first.namespace, "second", "fs-03", "*")), "the grant of a namespace is called default")
	})
}

// eventuallyCreated creates a SharedVolume once the API server has taken in a new grant.
func (w world) eventuallyCreated(who tenant, sv *v1alpha1.SharedVolume) {
	w.t.Helper()
	cluster.Eventually(w.t, patience, "the grant to be in force", func(ctx context.Context) error { return who.api.Create(ctx, sv) })
}

// TestWithoutPolicy: whoever may create SharedVolumes may name any access point.
func TestWithoutPolicy(t *testing.T) {
	w := served(t)
	sv := volumeOf(w.Namespace(t), "logs", "fs-0a", "fsap-0a")
	w.do("create", w.client.Create(t.Context(), sv))
	w.ready(sv)
}
