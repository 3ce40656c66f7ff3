package sharedvolume

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
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
	watched "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// controllerName is the field manager of all writes and the reporting controller of all events.
const controllerName = "sharedvolume-controller"

// reconcileTimeout is how long one pass may take. Without it, a request that is never answered would block a worker forever.
const reconcileTimeout = 10 * time.Second

// DefaultWorkers is how many SharedVolumes are reconciled at the same time by default. Four times as many are only a tenth
// faster.
const DefaultWorkers = 16

// Options configure the controller. The zero value is right for a cluster.
type Options struct {
	// Workers is how many SharedVolumes are reconciled at the same time; 0 means DefaultWorkers.
	Workers int
	// InitialAccess is Prepare's result.
	InitialAccess v1alpha1.Access
	// AccessPoints knows which access points exist; nil if nobody asks AWS.
	AccessPoints AccessPoints
}

// AccessPoints knows which access points exist in AWS and can be reached from the nodes.
type AccessPoints interface {
	// Find returns the known state of the access point that a user, such as a SharedVolume, refers to: whether it is present, with the
	// reason and the message for a condition. The reason is "" if the state cannot be known. If the state is not known yet, known is
	// false, and Find starts a lookup.
	Find(user, fileSystem, accessPoint string) (present bool, reason, message string, known bool)
	// Release forgets a user's reference.
	Release(user string)
	// Changed returns a channel that gets a value when Find would return something other than before.
	Changed() <-chan struct{}
}

// Run reconciles the SharedVolumes of a cluster until ctx ends. cfg limits the requests per second. While a CustomResourceDefinition is
// missing, Run waits for it. Run returns an error if the controllers cannot start for another reason. Call Prepare first.
func Run(ctx context.Context, cfg *rest.Config, opts Options) error {
	apis, err := newDefinitions(cfg)
	if err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	for {
		if apis.await(ctx); ctx.Err() != nil {
			return nil
		}
		failure := start(ctx, cfg, opts)
		if failure == nil || ctx.Err() != nil {
			return failure
		}
		// A definition may have been deleted before the caches were filled. Once the caches are filled, they wait for a missing
		// definition by themselves.
		if missing, err := apis.missing(ctx); err != nil || len(missing) == 0 {
			return failure
		}
	}
}

// start runs the controllers until ctx ends, or until they fail.
func start(ctx context.Context, cfg *rest.Config, opts Options) error {
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
	staleGrants := make(chan event.GenericEvent, DefaultWorkers)
	if err := add(mgr, opts, staleGrants); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	if err := addGrants(mgr, staleGrants); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	if err := addPolicies(mgr, opts.InitialAccess); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	if err := addOrphans(mgr); err != nil {
		return fmt.Errorf("SharedVolume controller: %w", err)
	}
	return mgr.Start(ctx)
}

// cacheOptions returns the options that say which objects the caches hold, and which fields of them.
func cacheOptions() cache.Options {
	owned := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{OwnedLabel: "true"})}
	// There are few grants and policies. They are read for each SharedVolume, and never changed in memory.
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

// add adds the controller of SharedVolumes to mgr. It sends grants with a stale status to staleGrants.
func add(mgr manager.Manager, opts Options, staleGrants chan<- event.GenericEvent) error {
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
	accessPointsChanged := make(chan event.GenericEvent)
	if opts.AccessPoints != nil {
		if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			return forward(ctx, opts.AccessPoints.Changed(), accessPointsChanged)
		})); err != nil {
			return err
		}
	}
	r := &reconciler{
		accessPoints: opts.AccessPoints,
		cached:       mgr.GetCache(),
		live:         mgr.GetAPIReader(),
		client:       mgr.GetClient(),
		events:       mgr.GetEventRecorder(controllerName),
		records:      newRecords(),
		users:        users,
		staleGrants:  staleGrants,
	}
	current.Store(r.records)
	return builder.ControllerManagedBy(mgr).
		Named("sharedvolume").
		For(&v1alpha1.SharedVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ownerOfClaim)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(ownerOfVolume)).
		Watches(&v1alpha1.SharedVolumeGrant{}, handler.EnqueueRequestsFromMapFunc(r.sharedVolumesInNamespaceOf), builder.WithPredicates(grantChanged)).
		Watches(&v1alpha1.SharedVolumePolicy{}, handler.EnqueueRequestsFromMapFunc(r.allSharedVolumes), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(watched.Channel(accessPointsChanged, handler.EnqueueRequestsFromMapFunc(r.allSharedVolumes))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, time.Minute),
			NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
				queue := newQueue(name, limiter)
				requeue := func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) }
				r.records.requeue, r.users.requeue = requeue, requeue
				return queue
			},
		}).
		Complete(r)
}

// forward sends an event for each value of a channel, until ctx ends.
func forward(ctx context.Context, from <-chan struct{}, to chan<- event.GenericEvent) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-from:
		}
		select {
		case <-ctx.Done():
			return nil
		case to <- event.GenericEvent{Object: &v1alpha1.SharedVolume{}}: // about all of them
		}
	}
}

// ownerOfClaim maps a claim to the SharedVolume that it may belong to. A claim in another namespace or with another
// name cannot belong to it, regardless of its labels.
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

// grantChanged is the event filter for changes of a grant that may affect SharedVolumes.
var grantChanged = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return isIneffective(e.ObjectOld.(*v1alpha1.SharedVolumeGrant)) != isIneffective(e.ObjectNew.(*v1alpha1.SharedVolumeGrant))
}})

// sharedVolumesInNamespaceOf maps a grant to the SharedVolumes of its namespace.
func (r *reconciler) sharedVolumesInNamespaceOf(ctx context.Context, grant client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(grant.GetName()))
}

// allSharedVolumes maps the policy to all SharedVolumes.
func (r *reconciler) allSharedVolumes(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx)
}

func (r *reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var found v1alpha1.SharedVolumeList
	if err := r.cached.List(ctx, &found, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		klog.FromContext(ctx).Error(err, "Listing SharedVolumes in the cache") // That fails only before the cache has synced.
	}
	var requests []reconcile.Request
	for i := range found.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return requests
}
