// Package uninstall has the controller that removes a driver in order: it waits until no pod uses the driver's volumes and
// the driver's own controller has nothing left to do, deletes the driver's objects stage by stage, and then removes the finalizer of the ClusterCSIDriver.
package uninstall

import (
	"context"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/customresource"
	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/operator/objects"
	"github.com/berth-csi/berth/operator/status"
	"github.com/berth-csi/berth/operator/upgradeable"
)

// forceAnnotation on a ClusterCSIDriver, set to "true", removes the driver even while pods use its volumes.
const forceAnnotation = "berth.dev/force-removal"

// conflictBackoff is for writes that conflict: the caches need a moment to show the other write. It gives up after some
// five seconds.
var conflictBackoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 9}

// Options are the dependencies of the controller.
type Options struct {
	Driver drivers.Driver
	// Objects are all objects that the driver may consist of.
	Objects []*objects.WatchedObject
	// LostNamespace is the driver's namespace if it was deleted or replaced. No object is in it then.
	LostNamespace string
	// Unknown are objects that other versions of the operator created and that this one does not know.
	Unknown     []string
	Kube        kubernetes.Interface
	Reader      client.Reader
	Applier     *objects.Applier
	Finalizer   *customresource.Finalizer
	Reporter    *status.Reporter
	Upgradeable *upgradeable.Condition
	Recorder    events.Recorder
	Metrics     *metrics.Metrics
	// Snapshots is a client for the group and version of VolumeSnapshotContents.
	Snapshots restclient.Interface
}

type controller struct {
	Options
	reported string // the reason of the last event

	users     []string  // the pods that used volumes when they were last looked for
	usersNext time.Time // when to look for them again
}

// NewController returns the controller.
func NewController(options Options) factory.Controller {
	c := &controller{Options: options}
	c.reported = c.Reporter.Condition(c.conditionPrefix() + operatorv1.OperatorStatusTypeProgressing).Reason
	informers := []factory.Informer{c.Reporter.Informer()}
	for _, object := range c.Objects {
		informers = append(informers, object.Informers()...)
	}
	return factory.New().
		WithInformers(informers...).
		WithSync(func(ctx context.Context, syncContext factory.SyncContext) error {
			return retry.RetryOnConflict(conflictBackoff, func() error { return c.sync(ctx, syncContext) })
		}).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.Reporter).
		ToController(c.Driver.ConditionPrefix+"DriverUninstallController", c.Recorder)
}

// sync takes the next action. The change that it makes triggers the sync for the one after it.
func (c *controller) sync(ctx context.Context, syncContext factory.SyncContext) error {
	custom, err := c.Reporter.GetObjectMeta()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	observed, err := c.observe(ctx, custom)
	if err != nil {
		return err
	}
	if observed.usersRequeue > 0 {
		syncContext.Queue().AddAfter(syncContext.QueueKey(), observed.usersRequeue)
	}
	next := nextAction(observed)
	klog.V(4).InfoS("Decided how the removal continues", "clusterCSIDriver", custom.Name, "reason", next.reason, "message", next.message)
	if err := c.report(ctx, observed, next); err != nil {
		return err
	}
	for _, m := range next.delete {
		if err := c.Applier.Delete(ctx, m.Object); err != nil {
			return err
		}
	}
	if next.done && custom.DeletionTimestamp != nil {
		return c.Finalizer.Remove(ctx)
	}
	return nil
}

// observe reads what is left of the driver, and which pods use its volumes while that makes a difference. It reads the
// driver's objects from the API server, so that a stale cache cannot end a stage early.
func (c *controller) observe(ctx context.Context, custom *metav1.ObjectMeta) (observedState, error) {
	observed := observedState{pods: map[int]int{}, forced: custom.Annotations[forceAnnotation] == "true", lostNamespace: c.LostNamespace, unknown: c.Unknown}
	for _, object := range c.Objects {
		desired := object.Desired
		m := drivers.Manifest{Object: desired}
		current := &unstructured.Unstructured{}
		current.SetGroupVersionKind(desired.GroupVersionKind())
		err := c.Reader.Get(ctx, client.ObjectKeyFromObject(desired), current)
		switch {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		case err != nil:
			return observedState{}, fmt.Errorf("reading %s %s: %w", desired.GetKind(), desired.GetName(), err)
		case m.Kept():
			observed.kept = append(observed.kept, fmt.Sprintf("%s %s", desired.GetKind(), desired.GetName()))
		case c.Applier.Owned(current):
			observed.objects = append(observed.objects, drivers.Manifest{Object: current})
		default:
			observed.foreign = append(observed.foreign, fmt.Sprintf("%s %s", desired.GetKind(), desired.GetName()))
		}
		pods, err := c.countPods(ctx, desired)
		if err != nil {
			return observedState{}, err
		}
		observed.pods[stageOf(desired.GetKind())] += pods
	}
	var err error
	if servesVolumes(observed) {
		if observed.users, observed.usersRequeue, err = c.findUsers(ctx); err != nil {
			return observedState{}, err
		}
	}
	if asksController(observed) {
		if observed.tasks, err = c.controllerTasks(ctx, observed.forced); err != nil {
			return observedState{}, err
		}
	}
	return observed, nil
}

// countPods counts the pods of a Deployment or DaemonSet, which may be deleted already.
func (c *controller) countPods(ctx context.Context, workload *unstructured.Unstructured) (int, error) {
	selector, found, err := unstructured.NestedStringMap(workload.Object, "spec", "selector", "matchLabels")
	if err != nil || !found {
		return 0, nil // other kinds lack the field, or have one of another type
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := c.Reader.List(ctx, pods, client.InNamespace(workload.GetNamespace()), client.MatchingLabels(selector)); err != nil {
		return 0, fmt.Errorf("listing the pods of %s %s: %w", workload.GetKind(), workload.GetName(), err)
	}
	return len(pods.Items), nil
}

// findUsers returns the pods that use a volume of the driver, and when to look for them again. While the last search
// found some, it searches only from time to time. It never returns an empty result of an earlier search.
func (c *controller) findUsers(ctx context.Context) (users []string, requeue time.Duration, err error) {
	if left := time.Until(c.usersNext); len(c.users) > 0 && left > 0 {
		return c.users, left, nil
	}
	started := time.Now()
	if c.users, err = (inUse{c.Kube, c.Driver, c.driverNodes}).pods(ctx); err != nil {
		return nil, 0, err
	}
	requeue = min(max(searchRest*time.Since(started), minSearchInterval), maxSearchInterval)
	c.usersNext = time.Now().Add(requeue)
	return c.users, requeue, nil
}

// report reports the progress of the removal: to OLM, in a metric, in conditions and in an event.
func (c *controller) report(ctx context.Context, observed observedState, next action) error {
	progressing, reason, blocking := operatorv1.ConditionTrue, upgradeable.Uninstalling, 0
	if next.done {
		progressing, reason = operatorv1.ConditionFalse, upgradeable.Settled
	}
	if next.reason == reasonInUse {
		blocking = len(observed.users)
	}
	c.Metrics.BlockingPods.WithLabelValues(c.Driver.CSIName).Set(float64(blocking))
	c.Upgradeable.TrySet(ctx, reason)
	condition := func(conditionType string, status operatorv1.ConditionStatus) *applyoperatorv1.OperatorConditionApplyConfiguration {
		return applyoperatorv1.OperatorCondition().WithType(c.conditionPrefix() + conditionType).
			WithStatus(status).WithReason(next.reason).WithMessage(next.message)
	}
	available := operatorv1.ConditionFalse
	if servesVolumes(observed) {
		available = operatorv1.ConditionTrue
	}
	if err := c.Reporter.ApplyOperatorStatus(ctx, c.conditionPrefix(), applyoperatorv1.OperatorStatus().WithConditions(
		condition(operatorv1.OperatorStatusTypeProgressing, progressing), condition(operatorv1.OperatorStatusTypeAvailable, available))); err != nil {
		return err
	}
	c.recordEvent(observed, next) // last: a restarted operator reads from the condition which events were recorded
	return nil
}

// recordEvent records an event when the removal enters a new phase.
func (c *controller) recordEvent(observed observedState, next action) {
	if next.reason == c.reported {
		return
	}
	c.reported = next.reason
	klog.InfoS("The removal of the driver entered a new phase", "clusterCSIDriver", c.Driver.CSIName, "reason", next.reason, "message", next.message)
	if next.reason == reasonInUse || next.reason == reasonControllerTasks {
		c.Recorder.Warning(next.reason, next.message)
		return
	}
	if observed.forced && len(observed.users) > 0 && !next.done {
		c.Recorder.Warningf("RemovalForced", "Removing the driver although its volumes are in use by %s, because of the annotation %s: %s",
			countUsers(observed.users), forceAnnotation, abbreviate(observed.users))
	}
	if observed.forced && len(observed.tasks) > 0 {
		c.Recorder.Warningf("RemovalForced", "Removing the driver's controller, because of the annotation %s, although it still has to %s",
			forceAnnotation, describeTasks(observed.tasks))
	}
	c.Recorder.Event(next.reason, next.message)
}

func (c *controller) conditionPrefix() string { return c.Driver.ConditionPrefix + "Uninstall" }
