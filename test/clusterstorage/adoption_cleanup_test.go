package clusterstorage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/test/openshift45"
)

// keptKinds are the kinds of OpenShift 4.5's objects that are never deleted.
var keptKinds = []string{"Namespace", "Secret", "StorageClass"}

// TestLeftovers: every object that OpenShift 4.5's operators created is in today's definition, or is one of its
// leftovers, or is never deleted. And they created every leftover.
func TestLeftovers(t *testing.T) {
	for _, d := range succeedable() {
		t.Run(d.Name, func(t *testing.T) {
			name := func(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }
			manifests, err := d.Operand(drivers.Values{Namespace: d.Namespace, Image: func(env string) string { return env }})
			require.NoError(t, err)
			ours := map[string]bool{}
			for _, m := range manifests {
				ours[name(m.Object.GetKind(), m.Object.GetNamespace(), m.Object.GetName())] = true
			}
			var want, got []string
			for _, object := range openshift45.Operand(t, d) {
				of := name(object.GetKind(), object.GetNamespace(), object.GetName())
				if !ours[of] && !slices.Contains(keptKinds, object.GetKind()) {
					want = append(want, of)
				}
			}
			leftovers, err := d.Leftovers(d.Namespace)
			require.NoError(t, err)
			for _, l := range leftovers {
				got = append(got, name(l.Kind.Kind, l.Namespace, l.Name))
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
				t.Errorf("leftovers (-what the operator made +definition):\n%s", diff)
			}
		})
	}
}

// cleaning is "berth adopt cleanup --confirm".
func (f *former) cleaning(ctx context.Context, config *restclient.Config) error {
	c, err := client.New(config, client.Options{Scheme: f.Client().Scheme()}) // finds out for itself which APIs are left
	if err != nil {
		return err
	}
	r, to := adoption.Request{Driver: f.driver}, migrate.Cluster{Config: config, Client: c}
	listed, err := r.Cleanup(ctx, to)
	if err != nil {
		return err
	}
	f.t.Logf("the cleanup:\n%s", listed.Text(findings.Plain))
	if !listed.Safe {
		return errors.New(listed.Text(findings.Plain))
	}
	return r.CleanUp(ctx, to, listed, migrate.Options{Report: func(e migrate.Event) { f.t.Logf("%s: %s %s", e.Step, e.Does, e.Waits) }})
}

// mustRefuseCleanup fails the test unless a cleanup is refused with this text, and nothing is written.
func (f *former) mustRefuseCleanup(name, want string) {
	f.t.Helper()
	recorder := fault.Record()
	err := recorder.Run(f.t.Context(), f.Config(), f.cleaning)
	assert.ErrorContainsf(f.t, err, want, "cleanup, %s: error", name)
	if writes := recorder.Writes(); len(writes) > 0 {
		f.t.Errorf("cleanup, %s: it wrote %+v", name, writes)
	}
}

// testCleanup cleans up after an operator whose driver has been handed over. The cleanup deletes exactly the operator's
// objects; everything that volumes need stays as it is.
func (f *former) testCleanup(injector *fault.Injector) {
	t := f.t
	t.Helper()
	if !f.own {
		remove := f.with(f.user())
		f.mustRefuseCleanup("a pod still uses what is left", "pod "+f.driver.Namespace+"/late")
		remove()
		undo := f.foreignFinalizer()
		f.mustRefuseCleanup("a finalizer of somebody else", "is not the operator's")
		undo()
		f.mustRefusePending()
		f.mustKeepShared()
	}
	want := f.remains()
	kept := f.keep()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.NoError(t, injector.Run(ctx, f.Config(), f.cleaning))
	kept()
	assert.Empty(t, cmp.Diff(want, deletedBy(injector)), "objects deleted (-want +got)")
	again := fault.Record()
	if err := again.Run(ctx, f.Config(), f.cleaning); err != nil || len(again.Writes()) > 0 {
		t.Errorf("a second cleanup: %v, it wrote %+v; want nothing", err, again.Writes())
	}
	f.awaitSettled(version)
	f.adopt(again)
	assert.Empty(t, again.Writes(), "after the cleanup, a hand-over wrote")
}

// user is a pod that uses something that the former operator left: a service account, or credentials.
func (f *former) user() *corev1.Pod {
	f.t.Helper()
	leftovers, err := f.driver.Leftovers(f.driver.Namespace)
	require.NoError(f.t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.driver.Namespace, Name: "late"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "late", Image: "registry.example.com/late:1"}}}}
	for _, l := range leftovers {
		switch {
		case l.Kind.Kind == "ServiceAccount":
			pod.Spec.ServiceAccountName = l.Name
		case l.Credentials != nil && l.Credentials.Copy == "":
			pod.Spec.Volumes = []corev1.Volume{{Name: "late", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: l.Credentials.Secret}}}}
		}
	}
	return pod
}

// foreignFinalizer adds a finalizer to the operator's custom resource, and returns a function that removes it.
func (f *former) foreignFinalizer() func() {
	f.t.Helper()
	before := f.old()
	f.get(before)
	after := before.DeepCopy()
	after.SetFinalizers(append(after.GetFinalizers(), "example.com/keep"))
	require.NoError(f.t, f.Client().Update(f.t.Context(), after))
	return func() {
		after.SetFinalizers(before.GetFinalizers())
		require.NoError(f.t, f.Client().Update(f.t.Context(), after))
	}
}

// remains returns the numbers of the objects that a cleanup must delete, by resource.
func (f *former) remains() map[string]int {
	f.t.Helper()
	counts := map[string]int{}
	if !f.own {
		for _, object := range openshift45.Operand(f.t, f.driver) {
			leftovers, err := f.driver.Leftovers(f.driver.Namespace)
			require.NoError(f.t, err)
			if slices.ContainsFunc(leftovers, func(l drivers.Leftover) bool {
				return l.Kind.Kind == object.GetKind() && l.Name == object.GetName() && l.Namespace == object.GetNamespace()
			}) {
				resource, err := drivers.ResourceOf(object.GroupVersionKind().GroupKind())
				require.NoError(f.t, err)
				counts[resource]++
			}
		}
		definition := f.driver.OldCustomResources()[0].Definition
		counts[strings.SplitN(definition, ".", 2)[0]]++
		counts["customresourcedefinitions"]++
	}
	if f.namespace != drivers.ClusterStorageNamespace {
		counts["namespaces"]++
	}
	return counts
}

// deletedBy returns the numbers of objects that a run has deleted, by resource.
func deletedBy(i *fault.Injector) map[string]int {
	counts := map[string]int{}
	for _, w := range i.Writes() {
		if w.Deleted() {
			counts[w.Point.Resource]++
		}
	}
	return counts
}

// keep records objects that a cleanup must not touch. It returns a function that fails the test if one of them was replaced or
// deleted, or if a Secret has changed.
func (f *former) keep() func() {
	f.t.Helper()
	ofDriver := client.InNamespace(f.driver.Namespace)
	lists := map[string]client.ObjectList{
		"PersistentVolume": &corev1.PersistentVolumeList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
		"VolumeAttachment": &storagev1.VolumeAttachmentList{}, "StatefulSet": &appsv1.StatefulSetList{}, "StorageClass": &storagev1.StorageClassList{},
		"CSIDriver": &storagev1.CSIDriverList{},
	}
	inDriver := map[string]client.ObjectList{
		"DaemonSet": &appsv1.DaemonSetList{}, "Deployment": &appsv1.DeploymentList{}, "Secret": &corev1.SecretList{}, "Pod": &corev1.PodList{},
	}
	ends := map[string]func() []watch.Event{}
	uids := map[string]string{}
	secrets := map[string]map[string][]byte{}
	for kind, list := range lists {
		ends[kind] = f.Record(f.t, list)
	}
	for kind, list := range inDriver {
		ends[kind] = f.Record(f.t, list, ofDriver)
		lists[kind] = list
	}
	for kind, list := range lists {
		require.NoError(f.t, meta.EachListItem(list, func(object runtime.Object) error {
			accessor, err := meta.Accessor(object)
			if err == nil {
				uids[kind+" "+accessor.GetNamespace()+"/"+accessor.GetName()] = string(accessor.GetUID())
			}
			if secret, is := object.(*corev1.Secret); is {
				secrets[secret.Name] = maps.Clone(secret.Data)
			}
			return err
		}))
	}
	released := f.released()
	return func() {
		f.t.Helper()
		for kind, end := range ends {
			for _, event := range end() {
				object, err := meta.Accessor(event.Object)
				require.NoError(f.t, err)
				name := kind + " " + object.GetNamespace() + "/" + object.GetName()
				if uid, known := uids[name]; known && !slices.Contains(released, name) && (event.Type == watch.Deleted || object.GetDeletionTimestamp() != nil || string(object.GetUID()) != uid) {
					f.t.Errorf("cleanup: %s was %s, with UID %s, deletion at %v; want it with UID %s throughout", name, event.Type, object.GetUID(), object.GetDeletionTimestamp(), uid)
				}
				if secret, is := event.Object.(*corev1.Secret); is && event.Type != watch.Deleted && !cmp.Equal(secret.Data, secrets[secret.Name]) {
					f.t.Errorf("cleanup: Secret %s has changed", secret.Name)
				}
			}
		}
		if len(uids) < 5 || len(secrets) == 0 {
			f.t.Errorf("only %d objects and %d Secrets were recorded", len(uids), len(secrets))
		}
	}
}

// released returns the Secrets that the cloud credential operator deletes with the CredentialsRequests that asked for them.
func (f *former) released() (names []string) {
	leftovers, err := f.driver.Leftovers(f.driver.Namespace)
	require.NoError(f.t, err)
	for _, l := range leftovers {
		if l.Credentials != nil {
			names = append(names, fmt.Sprintf("Secret %s/%s", f.driver.Namespace, l.Credentials.Secret))
		}
	}
	return names
}

// mustKeepShared fails the test unless shared objects stay, and all others go.
func (f *former) mustKeepShared() {
	f.t.Helper()
	leftovers, err := f.driver.Leftovers(f.driver.Namespace)
	require.NoError(f.t, err)
	i := slices.IndexFunc(leftovers, func(l drivers.Leftover) bool { return l.Kind == drivers.ClusterRoleBindingKind })
	shared := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: leftovers[i].Name}}
	f.get(shared)
	subjects := shared.Subjects
	shared.Subjects = append(slices.Clone(subjects), rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "somebody"})
	require.NoError(f.t, f.Client().Update(f.t.Context(), shared))
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "note"}}
	remove := f.with(note)
	listed, err := adoption.Request{Driver: f.driver}.Cleanup(f.t.Context(), migrate.Cluster{Config: f.Config(), Client: f.Client()})
	require.NoError(f.t, err)
	text := listed.Text(findings.Plain)
	for _, want := range []string{"ClusterRoleBinding " + shared.Name + " stays: it also names User somebody", "Namespace " + f.namespace + " stays: there is something else in it: ConfigMap note"} {
		if !strings.Contains(text, want) {
			f.t.Errorf("the cleanup is\n%s\nwant %q in it", text, want)
		}
	}
	for _, r := range listed.Remains {
		if r.Name == shared.Name && r.Kind == "ClusterRoleBinding" || r.Kind == "Namespace" {
			f.t.Errorf("%s is to be deleted", r)
		}
	}
	remove()
	shared.Subjects = subjects
	require.NoError(f.t, f.Client().Update(f.t.Context(), shared))
}

// mustRefusePending fails the test unless an InstallPlan keeps everything from being deleted.
func (f *former) mustRefusePending() {
	f.t.Helper()
	remove := f.with(&v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pending"},
		Spec: v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{f.version}}})
	f.mustRefuseCleanup("an InstallPlan is pending", "InstallPlan "+f.namespace+"/pending")
	remove()
}
