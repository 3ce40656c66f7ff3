package sharedvolume_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Attacks on permissions, limits and the operator itself.

func anyAccessPoint(a arena) {
	stolen := volumeOf(a.attacker.namespace, "stolen", "fs-01", "fsap-02")
	applied := &unstructured.Unstructured{}
	applied.Object = map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "SharedVolume",
		"metadata": map[string]any{"namespace": stolen.Namespace, "name": "applied"},
		"spec":     map[string]any{"fileSystemID": "fs-01", "accessPointID": "fsap-02"}}
	a.do("apply", a.attacker.api.Apply(a.t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("attacker")))
	generated := stolen.DeepCopy()
	generated.Name, generated.GenerateName = "", "stolen-"
	// A SharedVolume that has no IDs at first.
	late := volumeOf(a.attacker.namespace, "late", "", "")
	late.Spec = v1alpha1.SharedVolumeSpec{}
	for _, sv := range []*v1alpha1.SharedVolume{stolen, generated, late} {
		a.created(sv)
	}
	a.until(late, "InvalidSpec")
	a.do("fill in", a.attacker.api.Patch(a.t.Context(), late, patch(`{"spec":{"fileSystemID":"fs-01","accessPointID":"fsap-02"}}`)))
	for _, name := range []string{stolen.Name, generated.Name, late.Name, "applied"} {
		a.ungranted(volumeOf(a.attacker.namespace, name, "", ""), "SharedVolumeGrant "+a.attacker.namespace+" does not list it")
	}
}

func heldNamespace(a arena) {
	sv := a.own("logs")
	sv.Finalizers = []string{"example.com/hold"}
	a.created(sv)
	p := a.ready(sv)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.attacker.namespace}}
	a.do("delete", a.client.Delete(a.t.Context(), namespace.DeepCopy()))
	a.gone(p.volume)
	a.eventually("the operator's finalizer to go", sv, func() error {
		if len(sv.Finalizers) != 1 {
			return fmt.Errorf("the finalizers are %v", sv.Finalizers)
		}
		return nil
	})
	// The finalizer that remains blocks only the attacker's namespace, and an administrator can remove it.
	a.removeFinalizers(sv)
	a.gone(sv)
	a.noVolumes(namespace.Name)
}

func endingNamespace(a arena) {
	sv := a.own("logs")
	a.created(sv)
	a.ready(sv)
	hold := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.attacker.namespace, Name: "hold", Finalizers: []string{"example.com/hold"}}}
	a.created(hold)
	a.do("delete", a.client.Delete(a.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.attacker.namespace}}))
	a.gone(sv)
	// The tenant's permissions were deleted with the namespace's other objects; nobody else can create anything.
	a.refused("create", a.client.Create(a.t.Context(), a.own("late")), "because it is being terminated")
	a.noVolumes(a.attacker.namespace)
	a.removeFinalizers(hold)
}

func quotaLeak(a arena) {
	a.noClaims(a.attacker.namespace)
	sv := a.own("logs")
	a.created(sv)
	a.until(sv, "QuotaExceeded")
	a.noVolumes(a.attacker.namespace)
}

func forgedLabels(a arena) {
	forged := a.claim(a.held.claim.Name, "")
	forged.Labels, forged.Annotations = a.held.claim.Labels, a.held.claim.Annotations
	a.created(forged)
	began := time.Now()
	for i := range 20 {
		a.do("nudge", a.attacker.api.Patch(a.t.Context(), forged, patch(fmt.Sprintf(`{"metadata":{"annotations":{"nudge":"%d"}}}`, i))))
	}
	a.created(a.own("marker"))
	a.ready(a.own("marker"))
	for _, request := range a.AuditOf(a.t, cluster.Requests{User: controllerUser}) {
		if request.Namespace == a.victim.namespace && request.Received.After(began) {
			a.t.Errorf("the controller asks about the victim's objects: %s %s", request.Verb, request.URI)
		}
	}
}

func largeObjects(a arena) {
	sv := a.own("logs")
	sv.Annotations = map[string]string{"example.com/large": strings.Repeat("x", 200_000)}
	a.created(sv)
	p := a.ready(sv)
	assert.LessOrEqual(a.t, len(fmt.Sprint(p.volume)), 10_000, "characters of the volume")
	var finalizers []string
	for i := range 100 {
		finalizers = append(finalizers, fmt.Sprintf(`"example.com/%s%d"`, strings.Repeat("x", 50), i))
	}
	a.do("hold", a.attacker.api.Patch(a.t.Context(), p.claim.DeepCopy(), patch(`{"metadata":{"finalizers":[`+strings.Join(finalizers, ",")+`]}}`)))
	a.do("delete", a.attacker.api.Delete(a.t.Context(), p.claim))
	a.until(sv, "ClaimTerminating")
	assert.LessOrEqual(a.t, len([]rune(sv.Status.Message)), 512, "characters of the message")
	a.removeFinalizers(p.claim)
	a.bound(sv)
}

// An administrator limits the number of SharedVolumes. A benchmark measures how little many of them affect others.
func veryMany(a arena) {
	const counted = "count/sharedvolumes.aws-efs.managed.openshift.io"
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.attacker.namespace, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("0")}},
	}
	a.do("create", a.client.Create(a.t.Context(), quota))
	// Kubernetes discovers every 30 seconds which resources a quota can count, and updates quotas when that changes.
	cluster.Eventually(a.t, 2*time.Minute, "the quota to be in force", func(ctx context.Context) error {
		change := fmt.Sprintf(`{"spec":{"hard":{"count/secrets":"%d"}}}`, 1000+time.Now().Second())
		if err := a.client.Patch(ctx, quota, patch(change)); err != nil {
			return err
		}
		return a.overQuota(ctx, quota, a.own("logs-0"))
	})
	a.do("raise the quota", a.client.Patch(a.t.Context(), quota, patch(`{"spec":{"hard":{"`+counted+`":"3"}}}`)))
	cluster.Eventually(a.t, time.Minute, "the quota to be raised", func(ctx context.Context) error {
		return a.attacker.api.Create(ctx, a.own("logs-0"), client.DryRunAll)
	})
	for i := range 3 {
		a.created(a.own(fmt.Sprint("logs-", i)))
	}
	a.refused("create", a.attacker.api.Create(a.t.Context(), a.own("logs-3")), "exceeded quota: few")
}

func forgedStatus(a arena) {
	forged := v1alpha1.SharedVolumeStatus{Phase: v1alpha1.Ready, ClaimRef: corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}}
	sv := a.own("logs")
	sv.Status = forged
	a.created(sv)
	if sv.Status.Phase != v1alpha1.Pending || sv.Status.ClaimRef.Name != "" {
		a.t.Errorf("a new SharedVolume has the status %v", sv.Status)
	}
	a.ready(sv)
	a.refused("status", a.attacker.api.Status().Patch(a.t.Context(), sv.DeepCopy(), patch(`{"status":{"phase":"Failed"}}`)), "forbidden")
	a.do("update", a.attacker.api.Patch(a.t.Context(), sv, patch(`{"status":{"phase":"Failed","message":"look here"}}`)))
	if sv.Status.Phase != v1alpha1.Ready || sv.Status.Message != "" {
		a.t.Errorf("the status has become %v", sv.Status)
	}
}

// The API server accepts a pod with an inline volume; the kubelet rejects it because of the CSIDriver's volumeLifecycleModes.
func inlineVolume(a arena) {
	raw, err := os.ReadFile("../drivers/efs/assets/csidriver.yaml")
	a.do("read", err)
	driver := &storagev1.CSIDriver{}
	a.do("decode", yaml.UnmarshalStrict(raw, driver))
	want := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	if diff := cmp.Diff(want, driver.Spec.VolumeLifecycleModes); diff != "" || driver.Name != sharedvolume.DriverName {
		a.t.Errorf("CSIDriver %s: %s", driver.Name, diff)
	}
}

func ownVolume(a arena) {
	sv := a.own("logs")
	a.created(sv)
	p := a.ready(sv)
	for what, err := range map[string]error{
		"create": a.attacker.api.Create(a.t.Context(), a.volume("own", nil, "fs-01::fsap-02")),
		"patch":  a.attacker.api.Patch(a.t.Context(), p.volume.DeepCopy(), patch(`{"spec":{"claimRef":null}}`)),
		"delete": a.attacker.api.Delete(a.t.Context(), p.volume),
		"free":   a.attacker.api.Patch(a.t.Context(), a.held.volume.DeepCopy(), patch(`{"spec":{"claimRef":null}}`)),
	} {
		a.refused(what, err, "forbidden")
	}
}

func selfGrant(a arena) {
	grant := newGrant(a.attacker.namespace, "fs-01", "*")
	// Some tenants have all permissions in their namespace.
	almighty := a.tenantCalled("almighty", a.attacker.namespace, "cluster-admin")
	fresh := a.tenant(a.Namespace(a.t), "cluster-admin")
	all := `{"spec":{"fileSystems":[{"fileSystemID":"fs-01","accessPointIDs":["*"]}]}}`
	for what, err := range map[string]error{
		"create":                   a.attacker.api.Create(a.t.Context(), grant.DeepCopy()),
		"patch":                    a.attacker.api.Patch(a.t.Context(), grant.DeepCopy(), patch(all)),
		"patch the status":         a.attacker.api.Status().Patch(a.t.Context(), grant.DeepCopy(), patch(`{"status":{"namespaceUID":"x"}}`)),
		"delete":                   a.attacker.api.Delete(a.t.Context(), grant.DeepCopy()),
		"patch with all rights":    almighty.api.Patch(a.t.Context(), grant.DeepCopy(), patch(all)),
		"create with all rights":   fresh.api.Create(a.t.Context(), newGrant(fresh.namespace, "fs-01", "*")),
		"the namespace's own word": a.attacker.api.Patch(a.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.attacker.namespace}}, patch(`{"metadata":{"labels":{"x":"y"}}}`)),
	} {
		a.refused(what, err, "forbidden")
	}
}

func selfRights(a arena) {
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"sharedvolumegrants"}, Verbs: []string{"create"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"sharedvolumes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"create"}},
	} {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: a.attacker.namespace, Name: "more"}, Rules: []rbacv1.PolicyRule{rule}}
		a.refused(rule.Resources[0], a.attacker.api.Create(a.t.Context(), role), "attempting to grant RBAC permissions not currently held")
	}
}

func openDoor(a arena) {
	for _, object := range []struct{ version, kind, name string }{
		{v1alpha1.GroupVersion.String(), "SharedVolumePolicy", "cluster"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "sharedvolumepolicies.aws-efs.managed.openshift.io"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "sharedvolumegrants.aws-efs.managed.openshift.io"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "sharedvolumes.aws-efs.managed.openshift.io"},
	} {
		target := &unstructured.Unstructured{Object: map[string]any{"apiVersion": object.version, "kind": object.kind, "metadata": map[string]any{"name": object.name}}}
		a.refused("create "+object.name, a.attacker.api.Create(a.t.Context(), target.DeepCopy()), "cannot create resource")
		a.refused("delete "+object.name, a.attacker.api.Delete(a.t.Context(), target), "cannot delete resource")
		a.refused("patch "+object.name, a.attacker.api.Patch(a.t.Context(), target, patch(`{"spec":{"access":"Open"}}`)), "cannot patch resource")
	}
}

func reachAcross(a arena) {
	into := volumeOf(a.victim.namespace, "intruder", "fs-01", "fsap-02")
	for what, err := range map[string]error{
		"read the IDs":     a.attacker.api.Get(a.t.Context(), client.ObjectKeyFromObject(a.stake), &v1alpha1.SharedVolume{}),
		"create":           a.attacker.api.Create(a.t.Context(), into),
		"delete":           a.attacker.api.Delete(a.t.Context(), a.stake.DeepCopy()),
		"take off":         a.attacker.api.Patch(a.t.Context(), a.stake.DeepCopy(), patch(`{"metadata":{"finalizers":null}}`)),
		"delete the claim": a.attacker.api.Delete(a.t.Context(), a.held.claim.DeepCopy()),
	} {
		a.refused(what, err, "forbidden")
	}
}
