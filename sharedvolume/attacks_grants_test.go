package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	person "github.com/berth-csi/berth/test/tenant"
)

// Attacks on grants, by somebody who requests projects.

// The attacker forges the finalizer, a claim with the selector by which the controller recognises its own, and a status that
// says Ready.
func forgedGrant(a arena) {
	tn := person.New(a.t, a.Cluster)
	project := tn.Project(a.t, "")
	sv := volumeOf(project, "stolen", "fs-01", "fsap-02")
	sv.Finalizers = []string{sharedvolume.Finalizer}
	sv.Labels = map[string]string{sharedvolume.OwnedLabel: "true"}
	a.do("create", tn.Client.Create(a.t.Context(), sv))
	forged := a.claim("pvc-stolen", "sharedvolume-"+string(sv.UID))
	forged.Namespace = project
	forged.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{sharedvolume.OwnerUIDLabel: string(sv.UID)}}
	forged.Labels = map[string]string{sharedvolume.OwnedLabel: "true", sharedvolume.OwnerNamespaceLabel: project,
		sharedvolume.OwnerNameLabel: "stolen", sharedvolume.OwnerUIDLabel: string(sv.UID)}
	a.do("forge a claim", tn.Client.Create(a.t.Context(), forged))
	a.refused("forge a status", tn.Client.Status().Patch(a.t.Context(), sv.DeepCopy(), patch(`{"status":{"phase":"Ready"}}`)), "forbidden")
	// The attacker's namespace contains an object with the namespace's name.
	named := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: project, Labels: forged.Labels}}
	a.do("forge a ConfigMap", tn.Client.Create(a.t.Context(), named))
	a.marked()
	a.ungranted(sv, "there is no SharedVolumeGrant "+project)
	a.noVolumes(project)
	a.do("delete", tn.Client.Delete(a.t.Context(), sv))
	a.gone(sv)
}

// marked waits until the controller has reconciled a SharedVolume that was created after everything else.
func (a arena) marked() {
	a.t.Helper()
	marker := volumeOf(a.victim.namespace, fmt.Sprint("marker-", time.Now().UnixNano()), "fs-01", "fsap-02")
	a.do("create", a.victim.api.Create(a.t.Context(), marker))
	a.ready(marker)
}

// The owner of the grant deletes the project, and somebody else requests one of the same name.
func inheritedGrant(a arena) {
	name := a.attacker.namespace + "-shop"
	team := person.New(a.t, a.Cluster)
	team.Project(a.t, name)
	a.grant(name, "fs-01", "fsap-02")
	a.t.Cleanup(func() { a.do("delete", a.client.Delete(context.Background(), newGrant(name, "fs-01"))) })
	a.granted(name)
	a.endProject(name)

	team.Project(a.t, name)
	sv := volumeOf(name, "stolen", "fs-01", "fsap-02")
	a.do("create", team.Client.Create(a.t.Context(), sv))
	a.ungranted(sv, "lists it, but not for this namespace. Namespace "+name+" has the UID ")
	a.noVolumes(name)
	a.settle(name, "NamespaceReplaced", sv)
}

// endProject deletes a namespace and waits until it is gone.
func (a arena) endProject(name string) {
	a.t.Helper()
	namespace := &corev1.Namespace{}
	a.get(namespace, "", name)
	a.do("delete", a.client.Delete(a.t.Context(), namespace))
	a.gone(namespace)
}

// settle waits until a grant says why it is not effective, and runs the command in its message.
func (a arena) settle(name, reason string, sv *v1alpha1.SharedVolume) {
	a.t.Helper()
	grant, namespace := &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: name}}, &corev1.Namespace{}
	a.get(namespace, "", name)
	body := fmt.Sprintf(`{"spec":{"namespaceUID":"%s"}}`, namespace.UID)
	want := fmt.Sprintf("To grant this namespace access, whoever owns it: oc patch sharedvolumegrant %s --type=merge -p '%s'", name, body)
	a.eventually("the grant to say "+reason, grant, func() error {
		condition := meta.FindStatusCondition(grant.Status.Conditions, v1alpha1.ConditionEffective)
		if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != reason || !strings.HasSuffix(condition.Message, want) {
			return fmt.Errorf("its conditions are %v, want one that ends with %s", grant.Status.Conditions, want)
		}
		return nil
	})
	a.do("settle", a.client.Patch(a.t.Context(), grant, patch(body)))
	a.ready(sv)
	a.granted(name)
	a.do("delete", a.client.Delete(a.t.Context(), sv))
	a.gone(sv)
}

// The administrator writes the grant before the team has its namespace.
func awaitedNamespace(a arena) {
	name := a.attacker.namespace + "-new"
	grant := a.grant(name, "fs-01", "fsap-02")
	a.t.Cleanup(func() { a.do("delete", a.client.Delete(context.Background(), grant)) })
	a.eventually("the grant to lack its namespace", grant, func() error {
		if condition := meta.FindStatusCondition(grant.Status.Conditions, v1alpha1.ConditionEffective); condition == nil || condition.Reason != "NamespaceMissing" {
			return fmt.Errorf("its conditions are %v", grant.Status.Conditions)
		}
		return nil
	})
	// Creation times are in whole seconds: within one second, the order of two creations is unknown.
	cluster.Eventually(a.t, waitLimit, "a second to pass", func(context.Context) error {
		if time.Since(grant.CreationTimestamp.Time) < 2*time.Second {
			return errors.New("it has not")
		}
		return nil
	})
	tn := person.New(a.t, a.Cluster)
	tn.Project(a.t, name)
	sv := volumeOf(name, "stolen", "fs-01", "fsap-02")
	a.do("create", tn.Client.Create(a.t.Context(), sv))
	a.ungranted(sv, "lists it, but not for this namespace. Namespace "+name+" was created after the grant")
	a.noVolumes(name)
	a.settle(name, "NamespaceNewer", sv)
}

// The community operator named volumes by namespace and name alone. One of a deleted namespace remains: retained, and reserved
// for a claim that no longer exists.
func inheritedVolume(a arena) {
	name := a.attacker.namespace + "-old"
	left := a.volume("pv-"+name+"-web", legacyLabels(name, "web"), "fs-01::fsap-02")
	left.Spec.StorageClassName = "efs-sc"
	left.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: name, Name: "pvc-web", UID: "11111111-2222-3333-4444-555555555555"}
	a.do("leave", a.client.Create(a.t.Context(), left))
	a.t.Cleanup(func() { a.do("delete", client.IgnoreNotFound(a.client.Delete(context.Background(), left))) })
	a.eventually("the volume to be released", left, func() error {
		if left.Status.Phase != corev1.VolumeReleased || time.Since(left.CreationTimestamp.Time) < 2*time.Second {
			return fmt.Errorf("it is %s", left.Status.Phase)
		}
		return nil
	})
	tn := person.New(a.t, a.Cluster)
	tn.Project(a.t, name)
	sv := volumeOf(name, "web", "fs-01", "fsap-02")
	sv.Finalizers = []string{sharedvolume.Finalizer}
	a.do("create", tn.Client.Create(a.t.Context(), sv))
	claim := legacyClaim(name, "web")
	a.do("forge a claim", tn.Client.Create(a.t.Context(), claim))
	a.marked()
	a.ungranted(sv, "there is no SharedVolumeGrant "+name)
	// Nor if the claim is like one that the controller creates.
	a.do("delete", tn.Client.Delete(a.t.Context(), claim))
	a.gone(claim)
	again := a.claim("pvc-web", "")
	again.Namespace, again.Spec.Selector = name, &metav1.LabelSelector{MatchLabels: map[string]string{sharedvolume.OwnerUIDLabel: string(sv.UID)}}
	a.do("forge another", tn.Client.Create(a.t.Context(), again))
	a.marked()
	a.ungranted(sv, "there is no SharedVolumeGrant "+name)
	a.get(left, "", left.Name)
	if left.Status.Phase != corev1.VolumeReleased || left.Spec.ClaimRef.UID != "11111111-2222-3333-4444-555555555555" {
		a.t.Errorf("the volume is %s, for %v", left.Status.Phase, left.Spec.ClaimRef)
	}
}

// The attacker creates so many SharedVolumes without a grant that others would wait for long if each kept a slot until the
// timeout: in the attacker's own namespace, and in another one.
func manyUngranted(a arena) {
	began := time.Now()
	for i := range 100 {
		a.created(volumeOf(a.attacker.namespace, fmt.Sprint("stolen-", i), "fs-01", "fsap-02"))
	}
	fresh := volumeOf(a.victim.namespace, "fresh", "fs-01", "fsap-02")
	a.do("create", a.victim.api.Create(a.t.Context(), fresh))
	a.ready(fresh)
	a.created(a.own("granted"))
	a.ready(a.own("granted"))
	a.t.Logf("ready after %v", time.Since(began))
	for i := range 100 {
		a.ungranted(volumeOf(a.attacker.namespace, fmt.Sprint("stolen-", i), "", ""), "does not list it")
	}
	for _, event := range a.AuditOf(a.t, cluster.Requests{User: controllerUser}) {
		if event.Namespace == a.attacker.namespace && event.Verb == "create" &&
			event.Resource == "persistentvolumeclaims" && event.Name != "pvc-granted" {
			a.t.Errorf("the controller has made claim %s", event.Name)
		}
	}
}

// A tenant can create the objects that the community operator leaves in a namespace. Only cluster-scoped objects show
// that it has managed a cluster.
func forgedOrigin(a arena) {
	tn := person.New(a.t, a.Cluster)
	project := tn.Project(a.t, "")
	owned := map[string]string{sharedvolume.OwnedLabel: "true"}
	owner := []metav1.OwnerReference{{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition",
		Name: "sharedvolumes.aws-efs.managed.openshift.io", UID: a.definition().UID}}
	pods := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "efs-csi-node"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "efs-plugin", Image: "registry.example/efs-plugin"}}}}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-sa"}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-node"},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: pods.Labels}, Template: pods}},
	} {
		object.SetNamespace(project)
		object.SetLabels(owned)
		object.SetOwnerReferences(owner)
		a.do("forge", tn.Client.Create(a.t.Context(), object))
	}
	meta := metav1.ObjectMeta{Labels: owned, OwnerReferences: owner}
	driver, class := &storagev1.CSIDriver{ObjectMeta: meta}, &storagev1.StorageClass{ObjectMeta: meta, Provisioner: sharedvolume.DriverName}
	driver.Name, class.Name = sharedvolume.DriverName, "efs-sc"
	for _, object := range []client.Object{driver, class} {
		a.refused("forge", tn.Client.Create(a.t.Context(), object), "forbidden")
	}

	before := &v1alpha1.SharedVolumePolicy{}
	a.get(before, "", v1alpha1.PolicyName)
	a.do("delete", a.client.Delete(a.t.Context(), before.DeepCopy()))
	policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}
	a.eventually("the policy to be recreated", policy, func() error {
		if policy.UID == before.UID {
			return errors.New("it is the same")
		}
		return nil
	})
	assert.Equal(a.t, v1alpha1.AccessGranted, policy.Spec.Access, "the new policy")
	sv := volumeOf(project, "stolen", "fs-01", "fsap-02")
	a.do("create", tn.Client.Create(a.t.Context(), sv))
	a.ungranted(sv, "there is no SharedVolumeGrant")
}
