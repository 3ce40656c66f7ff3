package sharedvolume

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// controllerName is the field manager of all our writes and the reporter of our events.
const controllerName = "sharedvolume-controller"

// passTime is how long one pass may take. A request that is never answered would hold a worker for ever.
const reconcileTimeout = 10 * time.Second

// DefaultWorkers is how many SharedVolumes are worked on at the same time, unless Options say otherwise.
// Four times as many gain a tenth.
const DefaultWorkers = 16

// Options say how the controller runs. The zero value is what a cluster needs.
type Options struct {
	// Workers is how many SharedVolumes are worked on at the same time; 0 means DefaultWorkers.
	Workers int
}

// Run serves the SharedVolumes of a cluster until ctx ends. The limits on requests a second come with
// cfg. It returns an error if the controller cannot start, for instance because the
// CustomResourceDefinition of SharedVolumes is not there. Prepare comes first.
func Run(ctx context.Context, cfg *rest.Config, opts Options) error {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("core types: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("SharedVolume types: %w", err)
	}
	anyName := true // Controllers of several clusters may run in one process.
	mgr, err := manager.New(cfg, manager.Options{
		Scheme:     scheme,
		Logger:     klog.FromContext(ctx),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &anyName, ReconciliationTimeout: reconcileTimeout},
		Cache:      cacheOptions(),
	})
	if err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	doubted := make(chan event.GenericEvent, DefaultWorkers)
	if err := add(mgr, opts, doubted); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	if err := addGrants(mgr, doubted); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	if err := addPolicies(mgr); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	if err := addOrphans(mgr); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	return mgr.Start(ctx)
}

// cacheOptions say which objects the caches hold, and how much of each.
func cacheOptions() cache.Options {
	owned := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{OwnedLabel: "true"})}
	// Administrators write these few; they are read for each SharedVolume, and never changed in memory.
	readOnly := cache.ByObject{Transform: cache.TransformStripManagedFields(), UnsafeDisableDeepCopy: new(true)}
	onePolicy := readOnly
	onePolicy.Field = fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.PolicyName)
	return cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform: func(object any) (any, error) {
			if object, ok := object.(client.Object); ok {
				trim(object)
			}
			return object, nil
		},
		NewInformer: newInformer,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.SharedVolume{}:        {},
			&corev1.PersistentVolumeClaim{}: owned,
			&corev1.PersistentVolume{}:      owned,
			&v1alpha1.SharedVolumeGrant{}:   readOnly,
			&v1alpha1.SharedVolumePolicy{}:  onePolicy,
		},
	}
}

// add makes mgr run the controller, which puts into doubted the grants whose status it finds to be wrong.
func add(mgr manager.Manager, opts Options, doubted chan<- event.GenericEvent) error {
	if opts.Workers == 0 {
		opts.Workers = DefaultWorkers
	}
	core, err := corev1client.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	users := newUsers(core.RESTClient())
	if err := mgr.Add(users); err != nil {
		return err
	}
	r := &reconciler{
		cached:  mgr.GetCache(),
		live:    mgr.GetAPIReader(),
		client:  mgr.GetClient(),
		events:  mgr.GetEventRecorder(controllerName),
		expectations:  newExpectations(),
		slots:   newSlots(),
		users:   users,
		ungranted: newUngranted(),
		staleGrants: doubted,
		retry:   workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, 5*time.Minute),
	}
	return builder.ControllerManagedBy(mgr).
		Named("sharedvolume").
		For(&v1alpha1.SharedVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ownerOfClaim)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(ownerOfVolume)).
		Watches(&v1alpha1.SharedVolumeGrant{}, handler.EnqueueRequestsFromMapFunc(r.sharedVolumesInNamespaceOf), builder.WithPredicates(grantChanged)).
		Watches(&v1alpha1.SharedVolumePolicy{}, handler.EnqueueRequestsFromMapFunc(r.allSharedVolumes), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, time.Minute),
			NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
				queue := newQueue(name, limiter)
				wake := func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) }
				r.slots.requeue, r.users.requeue = wake, wake
				return queue
			},
		}).
		Complete(r)
}

// ownerOfClaim maps a claim to the SharedVolume it may belong to. A claim of another namespace or
// name cannot be one's, whatever its labels say.
func ownerOfClaim(_ context.Context, claim client.Object) []reconcile.Request {
	owner := ownerOf(claim)
	if owner.Namespace != claim.GetNamespace() || ClaimName(owner.Name) != claim.GetName() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: owner}}
}

func ownerOfVolume(_ context.Context, volume client.Object) []reconcile.Request {
	owner := ownerOf(volume)
	if owner.Namespace == "" || owner.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: owner}}
}

// changesGrant tells whether a change of a grant may make a difference to SharedVolumes.
var grantChanged = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return isIneffective(e.ObjectOld.(*v1alpha1.SharedVolumeGrant)) != isIneffective(e.ObjectNew.(*v1alpha1.SharedVolumeGrant))
}})

// inNamespaceOf maps a grant to the SharedVolumes of its namespace.
func (r *reconciler) sharedVolumesInNamespaceOf(ctx context.Context, grant client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(grant.GetName()))
}

// everywhere maps the policy to all SharedVolumes.
func (r *reconciler) allSharedVolumes(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx)
}

func (r *reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var found v1alpha1.SharedVolumeList
	if err := r.cached.List(ctx, &found, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		klog.FromContext(ctx).Error(err, "listing SharedVolumes in the cache") // It holds them all once it has begun.
	}
	var requests []reconcile.Request
	for i := range found.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return requests
}

type reconciler struct {
	cached client.Reader
	live   client.Reader
	client client.Client
	events events.EventRecorder
	expectations *expectations
	slots  *slots
	users  *users
	// without are the SharedVolumes without a grant, for people to count.
	ungranted *ungranted
	staleGrants chan<- event.GenericEvent
	// retry spaces out attempts at what no watch will tell us has become possible.
	retry workqueue.TypedRateLimiter[types.NamespacedName]
}

// Reconcile takes one step after another until there is nothing to do but wait.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		r.expectations.markUncertain(request.NamespacedName)
		return reconcile.Result{}, err
	}
	if o.sharedVolume == nil {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	// No SharedVolume needs more steps than there are actions, each taken twice at most.
	for range 2 * len(acts) {
		s := next(o)
		if s.action == wait {
			s.requeueAfter = r.updateSlot(request.NamespacedName, s) // before the status is written: another waits
		}
		if s.status != nil {
			err = r.writeStatus(ctx, &o, *s.status)
		}
		if err == nil && s.action == wait {
			return r.result(request.NamespacedName, o, s), nil
		}
		if err == nil {
			err = acts[s.action](ctx, r, &o, s)
		}
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			// Somebody else wrote or deleted in between. What they did will be in the caches in a moment.
			r.expectations.forget(request.NamespacedName)
			return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
		}
		if err != nil {
			// It may have been done all the same.
			r.expectations.markUncertain(request.NamespacedName)
			return reconcile.Result{}, fmt.Errorf("%s: %w", s.action, err)
		}
	}
	return reconcile.Result{}, fmt.Errorf("no end of steps; the next would be to %s", next(o).action)
}

// passTurn lets the next of the namespace have the turn, unless there still is use for it. It returns
// when to look again.
func (r *reconciler) updateSlot(key types.NamespacedName, s decision) time.Duration {
	switch s.slot {
	case bindWithSlot:
		if left := r.slots.startBinding(key); left > 0 {
			return min(s.requeueAfter, left)
		}
	case releaseSlot:
		r.slots.release(key)
	}
	return s.requeueAfter
}

func (r *reconciler) result(key types.NamespacedName, o observed, s decision) reconcile.Result {
	if s.backoff {
		return reconcile.Result{RequeueAfter: r.retry.When(key)}
	}
	r.retry.Forget(key)
	if o.expecting && (s.requeueAfter == 0 || s.requeueAfter > expectationTimeout) {
		return reconcile.Result{RequeueAfter: expectationTimeout}
	}
	return reconcile.Result{RequeueAfter: s.requeueAfter}
}

func (r *reconciler) forget(key types.NamespacedName) {
	r.expectations.forget(key)
	r.slots.release(key)
	r.retry.Forget(key)
	r.ungranted.set(key, true)
}

// observe reads what the caches have, or what was written since. Where there is doubt about claim and
// volume, it asks the API server. The SharedVolume is nil if there is none of that name.
func (r *reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{now: time.Now()}
	var err error
	o.sharedVolume, err = get[v1alpha1.SharedVolume](ctx, r.cached, key)
	if err != nil || o.sharedVolume == nil {
		return o, err
	}
	policy, err := get[v1alpha1.SharedVolumePolicy](ctx, r.cached, policyKey)
	if err != nil {
		return o, err
	}
	if o.grant, err = get[v1alpha1.SharedVolumeGrant](ctx, r.cached, types.NamespacedName{Name: key.Namespace}); err != nil {
		return o, err
	}
	o.open = isOpen(policy)
	r.ungranted.set(key, lists(o.grant, o.sharedVolume.Spec) && !isIneffective(o.grant))
	if r.expectations.takeUncertain(key) {
		if err := r.readObjects(ctx, r.live, &o); err != nil {
			return o, err
		}
		r.expectations.expectRead(key, o)
	} else if err := r.readObjects(ctx, r.cached, &o); err != nil {
		return o, err
	}
	recent := r.expectations.pending(key)
	o.sharedVolume = newest(recent, key.Name, o.sharedVolume)
	o.claim = newest(recent, ClaimName(key.Name), o.claim)
	o.volume = newest(recent, volumeName(o.sharedVolume), o.volume)
	o.communityVolume = newest(recent, communityVolumeName(o.sharedVolume), o.communityVolume)
	o.expecting = r.expectations.replace(key, recent)
	return o, nil
}

// readObjects reads the claim and the volumes of a SharedVolume.
func (r *reconciler) readObjects(ctx context.Context, from client.Reader, o *observed) error {
	var err error
	if o.claim, err = get[corev1.PersistentVolumeClaim](ctx, from, claimKey(o.sharedVolume)); err != nil {
		return err
	}
	if o.volume, err = get[corev1.PersistentVolume](ctx, from, types.NamespacedName{Name: volumeName(o.sharedVolume)}); err != nil {
		return err
	}
	o.communityVolume, err = get[corev1.PersistentVolume](ctx, from, types.NamespacedName{Name: communityVolumeName(o.sharedVolume)})
	return err
}

func claimKey(sv *v1alpha1.SharedVolume) types.NamespacedName {
	return types.NamespacedName{Namespace: sv.Namespace, Name: ClaimName(sv.Name)}
}

// getListed reads a SharedVolume from the API server; it returns nil if there is none. A list of one name is
// as cheap as a get, and needs no permission besides that for the cache.
func getListed(ctx context.Context, live client.Reader, key types.NamespacedName) (*v1alpha1.SharedVolume, error) {
	list := &v1alpha1.SharedVolumeList{}
	err := live.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil {
		return nil, fmt.Errorf("reading SharedVolume %s: %w", key, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// get reads an object; it returns nil if there is none.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, from client.Reader, key types.NamespacedName) (P, error) {
	object := P(new(T))
	err := from.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	return object, nil
}
