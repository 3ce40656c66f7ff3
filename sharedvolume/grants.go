package sharedvolume

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	watched "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Reasons of the condition Effective of a grant. They are part of the API.
const (
	reasonNamespaceFound    = "NamespaceFound"
	reasonNamespaceMissing  = "NamespaceMissing"
	reasonNamespaceNewer    = "NamespaceNewer"
	reasonNamespaceReplaced = "NamespaceReplaced"
)

// lists reports whether a grant, which may be nil, lists the access point in spec.
func lists(grant *v1alpha1.SharedVolumeGrant, spec v1alpha1.SharedVolumeSpec) bool {
	return grant != nil && slices.ContainsFunc(grant.Spec.FileSystems, func(granted v1alpha1.FileSystemGrant) bool {
		return granted.FileSystemID == spec.FileSystemID &&
			(slices.Contains(granted.AccessPointIDs, spec.AccessPointID) || slices.Contains(granted.AccessPointIDs, v1alpha1.AllAccessPoints))
	})
}

// maxUID is the maximum number of characters that a message quotes from a value that should be a UID. A UID has 36.
const maxUID = 64

// maxEffect is the maximum number of characters of a grant's message. The command in the message must not be cut off.
const maxEffect = 2048

// effect says whether a grant is effective for a namespace, and why.
type effect struct {
	effective       bool
	reason, message string
}

// effectOf decides whether a grant is effective for the namespace with its name; namespace is nil if it does not exist.
//
// Anybody may create a namespace with a free name, so the name alone proves nothing. A grant is for the namespace with the UID in its
// spec. If its spec has no UID, it is for the one with the UID that the operator has recorded in its status. If there is no UID in
// either, it is for a namespace that is not newer than the grant, because the author of the grant could see that namespace.
func effectOf(grant *v1alpha1.SharedVolumeGrant, namespace *corev1.Namespace) effect {
	wanted, from := grant.Spec.NamespaceUID, "spec.namespaceUID"
	if wanted == "" {
		wanted, from = grant.Status.NamespaceUID, "status.namespaceUID"
	}
	if namespace == nil {
		return effect{reason: reasonNamespaceMissing, message: fmt.Sprintf(
			"Namespace %s does not exist. The grant has no effect for a namespace that is created later, unless its spec.namespaceUID names that one's UID", grant.Name)}
	}
	settle := "To grant this namespace access, whoever owns it: " + escape.Command("oc patch sharedvolumegrant %s --type=merge -p %s",
		grant.Name, fmt.Sprintf(`{"spec":{"namespaceUID":%q}}`, namespace.UID))
	switch {
	case wanted != "" && wanted != string(namespace.UID):
		return effect{reason: reasonNamespaceReplaced, message: fmt.Sprintf(
			"Namespace %s has the UID %s, but the %[4]s of the grant is %[3]s. %[5]s", grant.Name, namespace.UID, shortened(wanted, maxUID), from, settle)}
	case wanted == "" && namespace.CreationTimestamp.After(grant.CreationTimestamp.Time):
		return effect{reason: reasonNamespaceNewer, message: fmt.Sprintf(
			"Namespace %s was created after the grant, so the grant may have been meant for an earlier one. %s", grant.Name, settle)}
	}
	return effect{effective: true, reason: reasonNamespaceFound, message: fmt.Sprintf("The grant is for namespace %s with the UID %s", grant.Name, namespace.UID)}
}

// grantStatus returns the status of a grant.
func grantStatus(grant *v1alpha1.SharedVolumeGrant, namespace *corev1.Namespace) v1alpha1.SharedVolumeGrantStatus {
	status, effect := *grant.Status.DeepCopy(), effectOf(grant, namespace)
	effect.message = shortened(escape.Line(effect.message), maxEffect)
	condition := metav1.Condition{
		Type: v1alpha1.ConditionEffective, Status: metav1.ConditionFalse, ObservedGeneration: grant.Generation,
		Reason: effect.reason, Message: effect.message,
	}
	if effect.effective {
		condition.Status = metav1.ConditionTrue
		status.NamespaceUID = string(namespace.UID)
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	return status
}

// isIneffective reports whether a grant's status says that it is not effective.
func isIneffective(grant *v1alpha1.SharedVolumeGrant) bool {
	return meta.IsStatusConditionFalse(grant.Status.Conditions, v1alpha1.ConditionEffective)
}

// isEffective reports whether a grant's status says that it is effective.
func isEffective(grant *v1alpha1.SharedVolumeGrant) bool {
	return meta.IsStatusConditionTrue(grant.Status.Conditions, v1alpha1.ConditionEffective)
}

// grants writes the status of each grant: whether it is effective, and for which namespace.
type grants struct {
	cached client.Reader
	live   client.Reader
	client client.Client
	events events.EventRecorder
	// outdated holds, by the name of a grant, the resource version for which the last status was written. A cache that still shows that
	// version does not show the status yet. The controller has one worker, so outdated needs no lock.
	outdated map[string]string
}

// addGrants adds the controller of grants to mgr. Namespaces are not watched: if a grant's namespace has changed, the SharedVolumes'
// controller sends the grant to stale.
func addGrants(mgr manager.Manager, stale <-chan event.GenericEvent) error {
	return builder.ControllerManagedBy(mgr).
		Named("sharedvolume-grants").
		For(&v1alpha1.SharedVolumeGrant{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(watched.Channel(stale, &handler.EnqueueRequestForObject{})).
		Complete(&grants{cached: mgr.GetCache(), live: mgr.GetAPIReader(), client: mgr.GetClient(), events: mgr.GetEventRecorder(controllerName),
			outdated: map[string]string{}})
}

func (r *grants) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	grant, err := get[v1alpha1.SharedVolumeGrant](ctx, r.cached, request.NamespacedName)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case grant == nil:
		delete(r.outdated, request.Name)
		return reconcile.Result{}, nil
	case grant.ResourceVersion == r.outdated[grant.Name]:
		// SharedVolumes may report the grant as stale until the cache shows the status. Each write would be a conflict.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	namespace, err := get[corev1.Namespace](ctx, r.live, types.NamespacedName{Name: grant.Name})
	if err != nil {
		return reconcile.Result{}, err
	}
	status := grantStatus(grant, namespace)
	if equality.Semantic.DeepEqual(status, grant.Status) {
		return reconcile.Result{}, nil
	}
	wasIneffective, now := isIneffective(grant), *meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEffective)
	patched := grant.DeepCopy()
	// This must fail if somebody has changed the grant, because the recorded UID depends on its spec.
	body := mergePatch{locked: true, body: map[string]any{"status": status}}
	if err := r.client.Status().Patch(ctx, patched, body, client.FieldOwner(controllerName)); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of SharedVolumeGrant %s: %w", grant.Name, err)
	}
	r.outdated[grant.Name] = grant.ResourceVersion
	klog.FromContext(ctx).V(2).Info("Changed the status", "namespaceUID", status.NamespaceUID, "reason", now.Reason, "message", now.Message)
	if now.Status == metav1.ConditionFalse && !wasIneffective {
		r.events.Eventf(grant, nil, corev1.EventTypeWarning, now.Reason, "Reconcile", "%s", now.Message)
	}
	return reconcile.Result{}, nil
}
