package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
)

const port = "openshift-boat" // the driver's namespace

func live(kind schema.GroupVersionKind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range fields {
		object.Object[key] = value
	}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetUID(types.UID(kind.Kind + "-" + name))
	return object
}

// remaining returns the objects that a boat's former operator left, none of them in use.
func remaining() *remains {
	rbac := rbacv1.SchemeGroupVersion
	of := boat.OldCustomResources()[0]
	of.Finalizer = "example.com/boat"
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: port, Name: "old-boat"}
	today := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: port, Name: "boat"}
	request := map[string]any{"spec": map[string]any{"secretRef": map[string]any{"namespace": port, "name": "old-key"}}}
	custom1 := live(of.Kind, "", of.Name, nil)
	custom1.SetFinalizers([]string{of.Finalizer})
	with := func(kind schema.GroupVersionKind, namespace, name string, fields map[string]any, credentials *drivers.OldCredentials) leftover {
		return leftover{drivers.Leftover{Kind: kind, Namespace: namespace, Name: name, Credentials: credentials}, live(kind, namespace, name, fields)}
	}
	in := healthy()
	in.proven, in.subscriptions, in.versions, in.installPlans = nil, nil, nil, nil
	in.custom = &operatorv1.ClusterCSIDriver{}
	return &remains{
		input: in,
		leftovers: []leftover{
			with(drivers.CredentialsRequestKind, drivers.CredentialsRequestNamespace, "old-boat", request, &drivers.OldCredentials{Secret: "old-key", Copy: "boat-key", Keys: []string{"user"}}),
			with(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), port, "old-boat", nil, nil),
			with(corev1.SchemeGroupVersion.WithKind("ConfigMap"), port, "old-ca", nil, nil),
			with(drivers.SecurityContextConstraintsKind, "", "old-boat", map[string]any{"users": []any{"system:serviceaccount:" + port + ":old-boat"}}, nil),
			with(rbac.WithKind("ClusterRole"), "", "old-boat", nil, nil),
			with(drivers.ClusterRoleBindingKind, "", "old-boat", nil, nil),
			with(drivers.ClusterRoleBindingKind, "", "old-privileges", nil, nil),
		},
		customs:     []custom{{of, custom1}},
		definitions: []definition{{of, live(definitionKind, "", of.Definition, nil), nil}},
		namespaces:  []operatorNamespace{{name: "openshift-old-boat", object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-old-boat", UID: "n-3"}}}},
		bindings: []binding{
			{"ClusterRoleBinding", "", "old-boat", []rbacv1.Subject{account}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "old-boat"}},
			{"ClusterRoleBinding", "", "old-privileges", []rbacv1.Subject{today}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "privileges"}},
		},
		pods: []podUser{{"pod " + port + "/boat-1", corev1.PodSpec{ServiceAccountName: "boat"}, "restricted-v2"}},
		secrets: map[string]*corev1.Secret{
			"boat-key": {Data: map[string][]byte{"cloud": nil}}, "old-key": {},
		},
		accounts:  []string{"boat"},
		permitted: map[rbacv1.RoleRef][]string{{Kind: "ClusterRole", Name: "privileges"}: {"privileged"}},
	}
}

// TestCleanupOrder: permissions go first, then their subjects, and the operator's configuration before its API.
func TestCleanupOrder(t *testing.T) {
	c := remaining().cleanup()
	require.Truef(t, c.Safe, "the cleanup is not safe:\n%s", c.Text(findings.Plain))
	var got []string
	for _, r := range c.Remains {
		got = append(got, r.String())
	}
	want := []string{
		"ClusterRoleBinding old-boat", "ClusterRoleBinding old-privileges", "ClusterRole old-boat", "SecurityContextConstraints old-boat", "ServiceAccount openshift-boat/old-boat",
		"ConfigMap openshift-boat/old-ca", "CredentialsRequest openshift-cloud-credential-operator/old-boat", "Boat cluster", "CustomResourceDefinition boats.example.com", "Namespace openshift-old-boat",
	}
	assert.Empty(t, cmp.Diff(want, got), "objects (-want +got)")
}

// TestCleanupUses: an object in use refuses the cleanup, and an object that somebody else shares stays.
func TestCleanupUses(t *testing.T) {
	pod := func(m *remains, change func(*podUser)) {
		p := podUser{name: "pod " + port + "/late"}
		change(&p)
		m.pods = append(m.pods, p)
	}
	volume := func(source corev1.VolumeSource) func(*podUser) {
		return func(p *podUser) { p.spec.Volumes = []corev1.Volume{{VolumeSource: source}} }
	}
	of := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	const refuse, stay = findings.Refused, findings.Warning
	for _, tc := range []struct {
		name    string
		change  func(*remains)
		verdict findings.Verdict
		what    string
	}{
		{"a pod with the account", func(m *remains) { pod(m, func(p *podUser) { p.spec.ServiceAccountName = "old-boat" }) }, refuse, "ServiceAccount openshift-boat/old-boat is in use: pod openshift-boat/late"},
		{"the same, for the binding", func(m *remains) { pod(m, func(p *podUser) { p.spec.ServiceAccountName = "old-boat" }) }, refuse, "ClusterRoleBinding old-boat is in use"},
		{"the same, for the role", func(m *remains) { pod(m, func(p *podUser) { p.spec.ServiceAccountName = "old-boat" }) }, refuse, "ClusterRole old-boat is in use"},
		{"the same, for the constraints", func(m *remains) { pod(m, func(p *podUser) { p.spec.ServiceAccountName = "old-boat" }) }, refuse, "SecurityContextConstraints old-boat is in use"},
		{"the account's token", func(m *remains) {
			m.secrets["token"] = &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.ServiceAccountNameKey: "old-boat"}}}
			pod(m, volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}))
		}, refuse, "uses its token"},
		{"a privileged pod of today", func(m *remains) { m.pods[0].constraints = "privileged" }, refuse, "ClusterRoleBinding old-privileges is in use"},
		{"constraints that admitted a pod", func(m *remains) { m.pods[0].constraints = "old-boat" }, refuse, "was admitted by it"},
		{"a mounted Secret", func(m *remains) {
			pod(m, volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "old-key"}}))
		}, refuse, "CredentialsRequest openshift-cloud-credential-operator/old-boat is in use"},
		{"a projected Secret", func(m *remains) {
			pod(m, volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: *of("old-key")}}}}}))
		}, refuse, "uses Secret old-key"},
		{"a variable of a Secret", func(m *remains) {
			pod(m, func(p *podUser) {
				p.spec.InitContainers = []corev1.Container{{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *of("old-key")}}}}}}
			})
		}, refuse, "uses Secret old-key"},
		{"all variables of a Secret", func(m *remains) {
			pod(m, func(p *podUser) {
				p.spec.Containers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *of("old-key")}}}}}
			})
		}, refuse, "uses Secret old-key"},
		{"a volume that refers to the Secret", func(m *remains) {
			m.referBy("PersistentVolume v", map[string]string{"volume.kubernetes.io/provisioner-deletion-secret-name": "old-key", "volume.kubernetes.io/provisioner-deletion-secret-namespace": port})
		}, refuse, "PersistentVolume v uses Secret old-key"},
		{"copied keys", func(m *remains) { m.secrets["boat-key"].Data["user"] = nil }, refuse, "Secret boat-key, which volumes refer to, has a copy of its credentials in the keys user"},
		{"a mounted ConfigMap", func(m *remains) {
			pod(m, volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *of("old-ca")}}))
		}, refuse, "ConfigMap openshift-boat/old-ca is in use"},
		{"a finalizer of somebody", func(m *remains) { m.customs[0].object.SetFinalizers([]string{"example.com/other"}) }, refuse, "it has finalizer example.com/other"},
		{"an owner of the API", func(m *remains) {
			v := v1alpha1.ClusterServiceVersion{}
			v.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "boats.example.com"}}
			m.installed = append(m.installed, v)
		}, refuse, "owns it"},

		{"another object of the API", func(m *remains) { m.definitions[0].others = []string{"raft"} }, stay, "CustomResourceDefinition boats.example.com stays: there are other objects of it: raft"},
		{"a user in the binding", func(m *remains) {
			m.bindings[0].subjects = append(m.bindings[0].subjects, rbacv1.Subject{Kind: "User", Name: "ann"})
		}, stay, "ClusterRoleBinding old-boat stays: it also names User ann"},
		{"a stranger's account in the binding", func(m *remains) { m.bindings[0].subjects[0].Namespace = "harbour" }, stay, "it also names service account harbour/old-boat"},
		{"another binding to the role", func(m *remains) {
			m.bindings = append(m.bindings, binding{"RoleBinding", "harbour", "b", nil, rbacv1.RoleRef{Kind: "ClusterRole", Name: "old-boat"}})
		}, stay, "ClusterRole old-boat stays: RoleBinding harbour/b refers to it"},
		{"a group in the constraints", func(m *remains) { m.leftovers[3].object.Object["groups"] = []any{"staff"} }, stay, "SecurityContextConstraints old-boat stays"},
		{"a user in the constraints", func(m *remains) { m.leftovers[3].object.Object["users"] = []any{"ann"} }, stay, "SecurityContextConstraints old-boat stays"},
		{"another Secret requested", func(m *remains) {
			_ = unstructured.SetNestedField(m.leftovers[0].object.Object, "other", "spec", "secretRef", "name")
		}, stay, "it requests Secret openshift-boat/other"},
		{"something else in the namespace", func(m *remains) { m.namespaces[0].content = []string{"ConfigMap note"} }, stay, "Namespace openshift-old-boat stays: there is something else in it: ConfigMap note"},
		{"the driver in the namespace", func(m *remains) { m.namespaces[0].name = port }, stay, "stays: the driver is in it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := remaining()
			tc.change(m)
			c := m.cleanup()
			i := slices.IndexFunc(c.Checks, func(check findings.Check) bool { return strings.Contains(check.What, tc.what) })
			if i < 0 || c.Checks[i].Verdict != tc.verdict || c.Checks[i].Do == "" {
				t.Errorf("the cleanup is\n%s\nwant %q, %s, with what to do", c.Text(findings.Plain), tc.what, tc.verdict)
			}
			switch n := len(c.Remains); {
			case tc.verdict == refuse && (c.Safe || n > 0):
				t.Errorf("safe is %t, with %d objects; want nothing to be deleted", c.Safe, n)
			case tc.verdict == stay && (!c.Safe || n == 0 || n >= len(remaining().cleanup().Remains)):
				t.Errorf("safe is %t, with %d objects; want all but what stays to be deleted", c.Safe, n)
			}
		})
	}
}

// TestCleanupRefused: nothing is deleted before the hand-over is complete, or while a former operator is there or may come.
func TestCleanupRefused(t *testing.T) {
	plan := v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "install-2"}}
	for _, tc := range []struct {
		name   string
		change func(*remains)
		what   string
	}{
		{"not complete", func(m *remains) { m.unfinished = "the tide" }, "the hand-over is not complete: it waits for the tide"},
		{"in progress", func(m *remains) { m.journal = &migrate.Journal{Phase: migrate.Applying, Plan: &Plan{}} }, "the hand-over is in progress"},
		{"an operator with permissions", func(m *remains) {
			m.proven = []predecessor.Operator{{Namespace: "harbour", Kind: predecessor.Version, Name: "boat-operator.v1.4.0", Binding: "b-1"}}
		}, "that OLM gives permissions"},
		{"permissions from somebody", func(m *remains) {
			m.bindings = append(m.bindings, binding{"ClusterRoleBinding", "", "mine", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "harbour", Name: "old-boat-operator"}}, rbacv1.RoleRef{}})
		}, "ClusterRoleBinding mine gives permissions to service account harbour/old-boat-operator"},
		{"a ClusterExtension", func(m *remains) { m.extensions = []extension{boatExtension()} }, "ClusterExtension boat"},
		{"a pod", func(m *remains) { m.left = "pod harbour/p" }, "pod harbour/p of a former operator is left"},
		{"a version", func(m *remains) { m.installed = []v1alpha1.ClusterServiceVersion{{}} }, "has an operator of the driver"},
		{"an InstallPlan", func(m *remains) { m.installing = []v1alpha1.InstallPlan{plan} }, "by InstallPlan harbour/install-2"},
		{"a Subscription", func(m *remains) { m.subscriptions = healthy().subscriptions }, "there are other Subscriptions"},
		{"an unmanaged driver", func(m *remains) { m.custom.Spec.ManagementState = operatorv1.Unmanaged }, "Unmanaged"},
		{"an unknown place", func(m *remains) { m.placed = placement.Decision{Refusal: &placement.Refusal{Message: "it is in two"}} }, "it is in two"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := remaining()
			tc.change(m)
			if c := m.cleanup(); c.Safe || len(c.Remains) > 0 || !strings.Contains(c.Text(findings.Plain), tc.what) {
				t.Errorf("the cleanup is\n%s\nwant %q, and nothing to be deleted", c.Text(findings.Plain), tc.what)
			}
		})
	}
	done := remaining()
	plan.Status.Phase = v1alpha1.InstallPlanPhaseComplete
	done.installing = []v1alpha1.InstallPlan{plan}
	// The cluster storage operator's own operator may have the name of a former one.
	done.bindings = append(done.bindings, binding{"ClusterRoleBinding", "", "own", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: drivers.ClusterStorageNamespace, Name: boat.Operator.Name}}, rbacv1.RoleRef{}})
	if c := done.cleanup(); !c.Safe {
		t.Errorf("an InstallPlan that was carried out, and the new operator: the cleanup is\n%s", c.Text(findings.Plain))
	}
}

// TestCleanupNext: only listed objects are deleted, and only as long as no check refuses.
func TestCleanupNext(t *testing.T) {
	listed := remaining().cleanup()
	if next, err := listed.next(remaining().cleanup()); err != nil || next == nil || next.String() != "ClusterRoleBinding old-boat" {
		t.Errorf("next is %v, %v; want the first one", next, err)
	}
	recreated := remaining()
	recreated.leftovers[5].object.SetUID("another")
	_, err := listed.next(recreated.cleanup())
	assert.ErrorContains(t, err, "was not on the list", "an object that was created again")
	used := remaining()
	used.unfinished = "the tide"
	_, err = listed.next(used.cleanup())
	assert.ErrorContains(t, err, "the tide", "a driver that is not well")
	if next, err := listed.next(&Cleanup{}); next != nil || err != nil {
		t.Errorf("nothing is left: next is %v, %v; want neither", next, err)
	}
}

// TestStrangers: objects of an operator's installation or of each namespace are no strangers, and all others are.
func TestStrangers(t *testing.T) {
	object := func(kind, name string, change func(*metav1.PartialObjectMetadata)) metav1.PartialObjectMetadata {
		o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(kind + name)}}
		if change != nil {
			change(&o)
		}
		return o
	}
	ownedBy := func(uid types.UID) func(*metav1.PartialObjectMetadata) {
		return func(o *metav1.PartialObjectMetadata) { o.OwnerReferences = []metav1.OwnerReference{{UID: uid}} }
	}
	of := func(account string) func(*metav1.PartialObjectMetadata) {
		return func(o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{corev1.ServiceAccountNameKey: account}
		}
	}
	objects := []metav1.PartialObjectMetadata{
		object("EndpointSlice", "c-1", ownedBy("Servicec")), object("Service", "c", ownedBy("CatalogSourcec")), object("CatalogSource", "c", nil), object("OperatorGroup", "g", nil),
		object("ClusterServiceVersion", "copied", func(o *metav1.PartialObjectMetadata) {
			o.Labels = map[string]string{v1alpha1.CopiedLabelKey: "elsewhere"}
		}),
		object("ConfigMap", "kube-root-ca.crt", nil), object("ConfigMap", "old-boat-operator-lock", nil), object("ServiceAccount", "default", nil),
		object("Secret", "default-token", of("default")), object("RoleBinding", "system:deployers", nil),
	}
	assert.Empty(t, foreignObjects(boat, objects), "strangers")
	objects = append(objects,
		object("ClusterServiceVersion", "own", nil), object("ConfigMap", "note", nil), object("ConfigMap", "raft-lock", nil), object("Secret", "key", of("ann")),
		object("Pod", "p", ownedBy("ReplicaSetr")), object("Subscription", "s", nil))
	want := []string{"ClusterServiceVersion own", "ConfigMap note", "ConfigMap raft-lock", "Pod p", "Secret key", "Subscription s"}
	assert.Empty(t, cmp.Diff(want, foreignObjects(boat, objects)), "strangers (-want +got)")
}

// TestBindingsOfStrangers: anybody may bind accounts in a namespace, thousands in a megabyte. Of such bindings, only the role is kept, and few
// are read at a time.
func TestBindingsOfStrangers(t *testing.T) {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: port, Name: "old-boat"}}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	var most int64
	c := fake.NewClientBuilder().WithObjects(
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: port, Name: "own"}, Subjects: subjects, RoleRef: role},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "theirs"}, Subjects: subjects, RoleRef: role},
	).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, of := list.(*rbacv1.RoleBindingList); of {
			most = new(client.ListOptions).ApplyOptions(options).Limit
		}
		return c.List(ctx, list, options...)
	}}).Build()
	m := &remains{input: &input{placed: placement.Decision{Namespace: port}}}
	require.NoError(t, m.readBindings(t.Context(), c))
	assert.ElementsMatch(t, []binding{{"RoleBinding", port, "own", subjects, role}, {"RoleBinding", "harbour", "theirs", nil, role}}, m.bindings)
	assert.Equal(t, int64(50), most, "the number of bindings in a page")
}

// TestClassesOfStorageAdministrators: whoever administers storage alone may write classes of any size, so few are read at a time.
func TestClassesOfStorageAdministrators(t *testing.T) {
	pages := map[string]int64{}
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1.")
		if dynamic, is := list.(*unstructured.UnstructuredList); is {
			kind = dynamic.GetKind()
		}
		pages[kind] = new(client.ListOptions).ApplyOptions(options).Limit
		return nil
	}}).Build()
	require.NoError(t, (&remains{input: &input{}}).readReferences(t.Context(), c))
	assert.Equal(t, map[string]int64{"PersistentVolumeList": 500, "StorageClassList": 50, "VolumeSnapshotClassList": 50, "VolumeSnapshotContentList": 50}, pages)
}
