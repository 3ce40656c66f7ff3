package sharedvolume

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	polling "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	watched "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Reasons of the condition GrantsRequired of the policy. They are part of the API.
const (
	reasonGranted       = "Granted"
	reasonOpen          = "Open"
	reasonUnknownAccess = "UnknownAccess"
)

const (
	// prepareTimeout is how long Prepare retries.
	prepareTimeout = time.Minute
	// prepareAttempts is how often Prepare tries to create the policy, before it leaves that to Run: an admission policy or a webhook may
	// refuse it, and the driver must be managed all the same.
	prepareAttempts = 3
)

var policyKey = types.NamespacedName{Name: v1alpha1.PolicyName}

// Prepare creates the SharedVolumePolicy if it is missing. Call it before adopting the community operator's objects, because these show
// whether that operator managed the cluster. If the CustomResourceDefinition of policies is missing, or if the API server refuses the
// policy, Prepare returns the access with which Run must create the policy; otherwise it returns "".
func Prepare(ctx context.Context, cfg *rest.Config) (v1alpha1.Access, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return "", fmt.Errorf("SharedVolume types: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return "", err
	}
	apis, err := newDefinitions(cfg)
	if err != nil {
		return "", err
	}
	var decided v1alpha1.Access
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	var last error
	failures, refusals := 0, 0
	if polling.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if last = ensurePolicy(ctx, c, c, ""); last == nil {
			decided = ""
		} else {
			failures++
			if missing, err := apis.missing(ctx); err == nil && slices.Contains(missing, definitionOf(policiesResource)) {
				decided, last = initialAccess(ctx, c)
			} else if failures >= prepareAttempts {
				klog.FromContext(ctx).Error(last, "The SharedVolumePolicy is created later; until then, SharedVolumes require grants")
				decided, last = initialAccess(ctx, c)
			}
		}
		if last != nil {
			klog.FromContext(ctx).Error(last, "Failed to ensure that there is a SharedVolumePolicy")
			return false, nil
		}
		if err := recordAccess(ctx, c, c, cmp.Or(decided, v1alpha1.AccessGranted)); err != nil {
			refusals++
			klog.FromContext(ctx).Error(err, "Failed to record the access of the next SharedVolumePolicy")
			return refusals >= prepareAttempts, nil
		}
		return true, nil
	}) != nil {
		return "", last
	}
	return decided, nil
}

// ensurePolicy creates the policy unless there is one, with the access that was decided before, if any.
func ensurePolicy(ctx context.Context, live client.Reader, writer client.Writer, decided v1alpha1.Access) error {
	policy, err := get[v1alpha1.SharedVolumePolicy](ctx, live, policyKey)
	if err != nil || policy != nil {
		return err
	}
	access := decided
	if access == "" {
		if access, err = initialAccess(ctx, live); err != nil {
			return err
		}
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"access": string(access)}}}
	wanted.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SharedVolumePolicy"))
	wanted.SetName(v1alpha1.PolicyName)
	// Apply, because permission to patch can be limited to a name, and permission to create cannot.
	err = writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(controllerName))
	if apierrors.IsConflict(err) {
		return nil // Somebody else has created it, with another spec.
	}
	if err != nil {
		return fmt.Errorf("creating SharedVolumePolicy %s: %w", v1alpha1.PolicyName, err)
	}
	klog.FromContext(ctx).Info("Created SharedVolumePolicy", "name", v1alpha1.PolicyName, "access", access)
	return nil
}

// managedByLabel is on each object that this operator has created or adopted.
const managedByLabel = "app.kubernetes.io/managed-by"

// constraintsKind is the kind of the only one of communityObjects that can open a cluster.
var constraintsKind = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}

// communityObjects are the cluster-scoped objects that the community operator creates when it starts.
var communityObjects = map[schema.GroupVersionKind]string{
	constraintsKind: "efs-csi-scc",
	storagev1.SchemeGroupVersion.WithKind("CSIDriver"):    DriverName,
	storagev1.SchemeGroupVersion.WithKind("StorageClass"): "efs-sc",
}

// nextAccess is an annotation of the community operator's objects: the access of the next policy that is created. Until there is a
// policy, it is Open if Prepare decided that. Afterwards it is Granted. So neither decision is lost when this process ends.
const nextAccess = "berth.dev/next-shared-volume-access"

// initialAccess returns the access for a new policy: the recorded access, or else Open if the community operator has managed the cluster
// until now, and Granted if it has not. It relies only on cluster-scoped objects, which no tenant can create. Only the
// SecurityContextConstraints lead to Open: whoever may write them can be root on each node anyway. Those who administer storage may write
// StorageClasses, as with OpenShift's role storage-admin, or CSIDrivers. That gives them no access to all data.
func initialAccess(ctx context.Context, live client.Reader) (v1alpha1.Access, error) {
	found, err := findCommunityObjects(ctx, live)
	if err != nil {
		return "", err
	}
	return accessAfter(found), nil
}

// findCommunityObjects returns the objects of communityObjects that exist.
func findCommunityObjects(ctx context.Context, live client.Reader) (found []*metav1.PartialObjectMetadata, _ error) {
	for kind, name := range communityObjects {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		err := live.Get(ctx, types.NamespacedName{Name: name}, object)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s %s, to find out whether the community operator has managed the cluster: %w", kind.Kind, name, err)
		}
		object.SetGroupVersionKind(kind) // the response lacks it
		found = append(found, object)
	}
	return found, nil
}

// accessAfter returns what initialAccess returns, given the objects that exist. This operator adopts them one after the other, after it
// has decided the initial access. So one adopted object shows that the access has been decided.
func accessAfter(found []*metav1.PartialObjectMetadata) v1alpha1.Access {
	records := func(access v1alpha1.Access) func(*metav1.PartialObjectMetadata) bool {
		return func(object *metav1.PartialObjectMetadata) bool {
			return object.Annotations[nextAccess] == string(access)
		}
	}
	cannotOpen := func(object *metav1.PartialObjectMetadata) bool { return object.Kind != constraintsKind.Kind }
	opening := slices.DeleteFunc(slices.Clone(found), cannotOpen)
	switch {
	case slices.ContainsFunc(found, records(v1alpha1.AccessGranted)):
		return v1alpha1.AccessGranted
	case slices.ContainsFunc(opening, records(v1alpha1.AccessOpen)), slices.ContainsFunc(opening, isCommunitys) && !slices.ContainsFunc(found, isAdopted):
		return v1alpha1.AccessOpen
	}
	return v1alpha1.AccessGranted
}

// isCommunitys reports whether the community operator has created an object.
func isCommunitys(object *metav1.PartialObjectMetadata) bool {
	return object.Labels[OwnedLabel] == "true" && slices.ContainsFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "CustomResourceDefinition" && owner.Name == "sharedvolumes."+v1alpha1.GroupVersion.Group
	})
}

func isAdopted(object *metav1.PartialObjectMetadata) bool { return object.Labels[managedByLabel] != "" }

// recordAccess records the access of the next policy on the community operator's objects. It adds no record to an object that the
// community operator did not create or that this operator has adopted, because such an object already means Granted.
func recordAccess(ctx context.Context, live client.Reader, writer client.Writer, access v1alpha1.Access) error {
	found, err := findCommunityObjects(ctx, live)
	if err != nil {
		return err
	}
	for _, object := range found {
		was := object.Annotations[nextAccess]
		if was == string(access) || was == "" && (!isCommunitys(object) || isAdopted(object)) {
			continue
		}
		kind, name := object.Kind, object.Name
		body := map[string]any{"metadata": map[string]any{"annotations": map[string]any{nextAccess: access}}}
		if err := writer.Patch(ctx, object, mergePatch{body: body}, client.FieldOwner(controllerName)); err != nil {
			return fmt.Errorf("recording on %s %s that the next SharedVolumePolicy has access %s: %w", kind, name, access, err)
		}
		klog.FromContext(ctx).V(2).Info("Recorded the access of the next SharedVolumePolicy", "kind", kind, "name", name, "access", access)
	}
	return nil
}

// isOpen reports whether SharedVolumes require no grants. Without a policy, or with an unknown access, they do.
func isOpen(policy *v1alpha1.SharedVolumePolicy) bool {
	return policy != nil && policy.Spec.Access == v1alpha1.AccessOpen
}

// grantsRequired returns the condition of a policy.
func grantsRequired(policy *v1alpha1.SharedVolumePolicy) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionGrantsRequired, Status: metav1.ConditionTrue, ObservedGeneration: policy.Generation}
	switch policy.Spec.Access {
	case v1alpha1.AccessGranted:
		condition.Reason = reasonGranted
		condition.Message = "A new SharedVolume gets a volume only if the SharedVolumeGrant of its namespace lists its access point"
	case v1alpha1.AccessOpen:
		condition.Status, condition.Reason = metav1.ConditionFalse, reasonOpen
		condition.Message = "Whoever has the role edit or admin in any namespace can mount any access point of any file system that the nodes reach. " +
			"To change that, see what is used with: oc get sharedvolumes -A; create a SharedVolumeGrant for each namespace that needs more; and run: " +
			`oc patch sharedvolumepolicy cluster --type=merge -p '{"spec":{"access":"Granted"}}'. SharedVolumes that have a volume by then keep it`
	default:
		condition.Reason = reasonUnknownAccess
		condition.Message = fmt.Sprintf("spec.access is %.64q, want Granted or Open; until it is one of them, grants are required", escape.Visible(string(policy.Spec.Access)))
	}
	return condition
}

// policies writes the status of the policy, and recreates the policy if it is deleted.
type policies struct {
	cached client.Reader
	live   client.Reader
	client client.Client
	events events.EventRecorder
	// initialAccess is the access of the next policy that is created, if that is decided.
	initialAccess v1alpha1.Access
}

func addPolicies(mgr manager.Manager, initialAccess v1alpha1.Access) error {
	atStart := watched.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: policyKey}) // so that a missing policy is created
		return nil
	})
	return builder.ControllerManagedBy(mgr).
		Named("sharedvolume-policy").
		For(&v1alpha1.SharedVolumePolicy{}).
		WatchesRawSource(atStart).
		WithOptions(controller.Options{
			// While its definition is missing, the policy cannot be created, and no event shows when it can.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, 30*time.Second),
		}).
		Complete(&policies{cached: mgr.GetCache(), live: mgr.GetAPIReader(), client: mgr.GetClient(), events: mgr.GetEventRecorder(controllerName), initialAccess: initialAccess})
}

func (r *policies) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	policy, err := get[v1alpha1.SharedVolumePolicy](ctx, r.cached, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	setOpenMetric(isOpen(policy))
	if policy == nil {
		return reconcile.Result{}, ensurePolicy(ctx, r.live, r.client, r.initialAccess)
	}
	if r.initialAccess == v1alpha1.AccessOpen { // Open stays recorded only until there is a policy.
		if err := recordAccess(ctx, r.live, r.client, v1alpha1.AccessGranted); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to record the access of the next SharedVolumePolicy; this is repeated at the next start")
		}
	}
	r.initialAccess = v1alpha1.AccessGranted // The access of a policy that replaces this one: somebody may have closed the cluster.
	status, condition := *policy.Status.DeepCopy(), grantsRequired(policy)
	meta.SetStatusCondition(&status.Conditions, condition)
	if equality.Semantic.DeepEqual(status, policy.Status) {
		return reconcile.Result{}, nil
	}
	before := meta.FindStatusCondition(policy.Status.Conditions, condition.Type)
	patched := policy.DeepCopy()
	if err := r.client.Status().Patch(ctx, patched, mergePatch{locked: true, body: map[string]any{"status": status}}, client.FieldOwner(controllerName)); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of SharedVolumePolicy %s: %w", policy.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Changed the status", "reason", condition.Reason, "message", condition.Message)
	if condition.Reason != reasonGranted && (before == nil || before.Reason != condition.Reason) {
		r.events.Eventf(policy, nil, corev1.EventTypeWarning, condition.Reason, "Reconcile", "%s", condition.Message)
	}
	return reconcile.Result{}, nil
}
