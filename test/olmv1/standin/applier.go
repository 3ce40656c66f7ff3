// Package standin plays OLM v1, whose programs are not in a plain clone. Its applier, which applies by Helm or by Boxcutter, takes over
// existing objects that have the marks that the real one wants, and then owns them. It makes the operator's permissions, and nothing else.
// It serves catalogs as catalogd does.
package standin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/olm/refusal"
)

// Applier plays operator-controller for the ClusterExtension with the name of a bundle's package.
type Applier struct {
	Client client.Client
	Bundle *refusal.Bundle
	// Namespace is the operator's.
	Namespace string
	// Boxcutter says that it applies by Boxcutter, and not by Helm.
	Boxcutter bool
}

// Start runs the applier until the function that it returns is called. report gets errors that do not come from others' writes.
func (a *Applier) Start(report func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := a.reconcile(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				report(fmt.Errorf("the stand-in for OLM v1: %w", err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// cleanup is a finalizer of OLM v1.
const cleanup = "olm.operatorframework.io/cleanup-unpack-cache"

// home is the namespace where OLM v1 records its installations.
const home = "openshift-operator-controller"

func (a *Applier) reconcile(ctx context.Context) error {
	c, name := a.Client, a.Bundle.Package
	set := object("olm.operatorframework.io/v1", "ClusterObjectSet", "", name+"-1")
	if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil && set.GetDeletionTimestamp() != nil && slices.Contains(set.GetFinalizers(), cleanup) {
		return a.patch(ctx, set, func(o *unstructured.Unstructured) { o.SetFinalizers(without(o.GetFinalizers(), cleanup)) })
	}
	e := object("olm.operatorframework.io/v1", "ClusterExtension", "", name)
	switch err := c.Get(ctx, client.ObjectKeyFromObject(e), e); {
	case err != nil:
		return err
	case e.GetDeletionTimestamp() != nil && slices.Contains(e.GetFinalizers(), cleanup):
		return a.patch(ctx, e, func(o *unstructured.Unstructured) { o.SetFinalizers(without(o.GetFinalizers(), cleanup)) })
	case e.GetDeletionTimestamp() != nil:
		return nil
	case !slices.Contains(e.GetFinalizers(), cleanup):
		return a.patch(ctx, e, func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), cleanup)) })
	}
	owner := e
	if a.Boxcutter {
		if set.GetUID() == "" {
			return c.Create(ctx, a.objectSet(e))
		}
		owner = set
	}
	if is, err := a.takeOver(ctx, e, owner); !is || err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "release-" + name, Labels: map[string]string{"owner": "operator-controller", "name": name},
		OwnerReferences: []metav1.OwnerReference{reference(e)}}, Type: "operatorframework.io/index.v1"}
	for _, o := range append(a.permissions(owner), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}, secret) {
		if err := c.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return a.say(ctx, e, "Succeeded", "desired state reached")
}

// takeOver takes over all objects of the bundle, or says in the status which one is not marked.
func (a *Applier) takeOver(ctx context.Context, e, owner *unstructured.Unstructured) (bool, error) {
	for _, wanted := range a.Bundle.Objects(&refusal.Request{Namespace: a.Namespace}) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(wanted.GroupVersionKind)
		if err := a.Client.Get(ctx, client.ObjectKey{Namespace: wanted.Namespace, Name: wanted.Name}, o); err != nil {
			return false, err
		}
		if !a.isMarked(o, owner) {
			return false, a.say(ctx, e, "Retrying", fmt.Sprintf("%s %s exists", o.GetKind(), o.GetName()))
		}
		if err := a.patch(ctx, o, func(o *unstructured.Unstructured) { a.own(o, owner) }); err != nil {
			return false, err
		}
	}
	return true, nil
}

// permissions returns the permissions of the bundle's accounts, under the applier's own names.
func (a *Applier) permissions(owner *unstructured.Unstructured) (all []client.Object) {
	made := func(namespace string, p v1alpha1.StrategyDeploymentPermissions) (metav1.ObjectMeta, []rbacv1.Subject) {
		o := object("", "", namespace, "made-"+p.ServiceAccountName)
		a.own(o, owner)
		return metav1.ObjectMeta{Namespace: namespace, Name: o.GetName(), Labels: o.GetLabels(), OwnerReferences: o.GetOwnerReferences()},
			[]rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: p.ServiceAccountName}}
	}
	strategy := a.Bundle.CSV.Spec.InstallStrategy.StrategySpec
	for _, p := range strategy.ClusterPermissions {
		metadata, subjects := made("", p)
		all = append(all, &rbacv1.ClusterRole{ObjectMeta: metadata, Rules: p.Rules},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metadata, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metadata.Name}})
	}
	for _, p := range strategy.Permissions {
		metadata, subjects := made(a.Namespace, p)
		all = append(all, &rbacv1.Role{ObjectMeta: metadata, Rules: p.Rules},
			&rbacv1.RoleBinding{ObjectMeta: metadata, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: metadata.Name}})
	}
	return all
}

func object(version, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// patch changes an object that nobody else has changed, if that makes a difference.
func (a *Applier) patch(ctx context.Context, o *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	changed := o.DeepCopy()
	change(changed)
	return a.Client.Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
}

func reference(of *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: of.GetAPIVersion(), Kind: of.GetKind(), Name: of.GetName(), UID: of.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
}

func (a *Applier) isMarked(o, owner *unstructured.Unstructured) bool {
	if a.Boxcutter {
		controller := metav1.GetControllerOf(o)
		return controller != nil && controller.UID == owner.GetUID()
	}
	return o.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" && o.GetAnnotations()["meta.helm.sh/release-name"] == a.Bundle.Package &&
		o.GetAnnotations()["meta.helm.sh/release-namespace"] == a.Namespace
}

// own gives an object the labels and the owner of OLM v1's installed objects.
func (a *Applier) own(o, owner *unstructured.Unstructured) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["olm.operatorframework.io/owner-kind"], labels["olm.operatorframework.io/owner-name"] = "ClusterExtension", a.Bundle.Package
	o.SetLabels(labels)
	if metav1.GetControllerOf(o) == nil {
		o.SetOwnerReferences(append(o.GetOwnerReferences(), reference(owner)))
	}
}

// objectSet returns Boxcutter's ClusterObjectSet for the bundle.
func (a *Applier) objectSet(e *unstructured.Unstructured) *unstructured.Unstructured {
	set := object("olm.operatorframework.io/v1", "ClusterObjectSet", "", e.GetName()+"-1")
	a.own(set, e)
	set.SetFinalizers([]string{cleanup})
	set.Object["spec"] = map[string]any{"lifecycleState": "Active", "revision": int64(1), "collisionProtection": "Prevent", "phases": []any{map[string]any{"name": "deploy",
		"objects": []any{map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "chart", "namespace": a.Namespace}}}}}}}
	return set
}

// say writes the status of the ClusterExtension.
func (a *Applier) say(ctx context.Context, e *unstructured.Unstructured, reason, message string) error {
	status := map[string]any{"conditions": []any{condition("Progressing", reason, message)}}
	if reason == "Succeeded" {
		status["conditions"] = append(status["conditions"].([]any), condition("Installed", reason, message))
		status["install"] = map[string]any{"bundle": map[string]any{"name": a.Bundle.Name, "version": a.Bundle.Version}}
	}
	changed := e.DeepCopy()
	changed.Object["status"] = status
	return a.Client.Status().Patch(ctx, changed, client.MergeFrom(e))
}

// condition returns a condition of OLM v1 that is True.
func condition(of, reason, message string) map[string]any {
	return map[string]any{"type": of, "status": "True", "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
}
