// Package uninstall has the controller that removes a driver in order: it waits until no pod uses the driver's volumes and
// the driver's own controller has nothing left to do, deletes the driver's objects stage by stage, and then removes the
// finalizer of the ClusterCSIDriver.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/operator/objects"
)

// forceAnnotation on a ClusterCSIDriver, set to "true", removes the driver even while pods use its volumes.
const forceAnnotation = "berth.dev/force-removal"

// Options are the dependencies of the controller.
type Options struct {
	Driver drivers.Driver
	// Objects are all objects that may belong to the driver.
	Objects []*objects.WatchedObject
	// LostNamespace is the driver's namespace if it was deleted or replaced. No object is in it then.
	LostNamespace string
	// Unknown are objects that other versions of the operator created and that this one does not know.
	Unknown     []string
	Kube        kubernetes.Interface
	Reader      client.Reader
	Applier     *objects.Applier
	Finalizer   *clustercsidriver.Finalizer
	Reporter    *clustercsidriver.Reporter
	Upgradeable *controllers.UpgradeableCondition
	Recorder    events.Recorder
	Metrics     *metrics.Metrics
	// Snapshots is a client for the group and version of VolumeSnapshotContents.
	Snapshots restclient.Interface
	Clock     clock.PassiveClock
}

type controller struct {
	Options
	reported string           // the reason of the last event
	refused  map[string]error // the objects that the API server refused to delete, by kind and name

	searched    bool     // for users
	users, left []string // results of the last search: see observedState
	pause       pause
}

// A pause is a time in which the controller does not observe the cluster. The removal may wait for many pods, and they
// and the driver's objects may change often.
type pause struct {
	until  time.Time
	forced bool  // whether the removal was forced when the pause began; it ends when that changes
	inUse  bool  // whether volumes are in use, or the driver's controller has work; it ends when the driver's DaemonSets are gone
	err    error // of the decision before the pause
}

const (
	// After an observation, the controller pauses for pauseFactor times the observation's duration, within these limits.
	pauseFactor = 10
	// minInUsePause is for volumes that are in use, and for work of the driver's controller; minPodsPause is for pods of the driver that
	// have to end.
	minInUsePause, minPodsPause, maxPause = 5 * time.Second, 2 * time.Second, 5 * time.Minute
	// maxFailurePause is the longest pause after an observation that failed.
	maxFailurePause = 30 * time.Second
)

func pauseAfter(observation, least, most time.Duration) time.Duration {
	return min(max(pauseFactor*observation, least), most)
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
			return objects.RetryOnConflict(ctx, func() error { return c.sync(ctx, syncContext) })
		}).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.Reporter).
		ToController(c.Driver.ConditionPrefix+"DriverUninstallController", c.Recorder)
}

// sync takes the next action. The resulting change triggers the next sync.
func (c *controller) sync(ctx context.Context, syncContext factory.SyncContext) error {
	custom, err := c.Reporter.GetObjectMeta()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	forced := custom.Annotations[forceAnnotation] == "true"
	if left := c.pause.until.Sub(c.Clock.Now()); left > 0 && c.pause.forced == forced && (!c.pause.inUse || c.seesNodePlugin()) {
		syncContext.Queue().AddAfter(syncContext.QueueKey(), left)
		return c.pause.err
	}
	c.pause = pause{}
	began := c.Clock.Now()
	observed, next, err := c.decide(ctx, forced)
	took := c.Clock.Since(began)
	if err != nil {
		c.pause = pause{until: c.Clock.Now().Add(pauseAfter(took, 0, maxFailurePause)), forced: forced, err: err}
		return err
	}
	klog.V(4).InfoS("Decided how the removal continues", "clusterCSIDriver", custom.Name, "reason", next.reason, "message", next.message, "took", took)
	if err := c.report(ctx, observed, next); err != nil {
		return err
	}
	if err := c.deleteAll(ctx, next.delete); err != nil {
		return err
	}
	switch {
	case next.waits():
		inUse, least := next.reason == reasonInUse || next.reason == reasonControllerTasks, minPodsPause
		if inUse {
			least = minInUsePause
		}
		duration := pauseAfter(took, least, maxPause)
		c.pause = pause{until: c.Clock.Now().Add(duration), forced: forced, inUse: inUse}
		syncContext.Queue().AddAfter(syncContext.QueueKey(), duration)
	case next.done && custom.DeletionTimestamp != nil:
		return c.Finalizer.Remove(ctx)
	}
	return nil
}

// deleteAll deletes objects. An object that cannot be deleted does not block the others.
func (c *controller) deleteAll(ctx context.Context, manifests []drivers.Manifest) error {
	c.refused = map[string]error{}
	var errs []error
	for _, m := range manifests {
		err := c.Applier.Delete(ctx, m.Object)
		if objects.Refused(err) {
			c.refused[nameOf(m)] = err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// decide observes the cluster and decides what to do next. The searches for pods that use volumes, and for tasks of the
// driver's controller, take long. So it searches only if it would otherwise delete objects of the driver, but then each
// time.
func (c *controller) decide(ctx context.Context, forced bool) (observedState, action, error) {
	nodes := newNodes(c.Kube)
	observed, err := c.observe(ctx, nodes, forced)
	if err != nil {
		return observedState{}, action{}, err
	}
	next := nextAction(observed)
	if !next.deletesMore() {
		return observed, next, nil
	}
	if servesVolumes(observed) {
		if err := c.search(ctx, nodes, forced); err != nil {
			return observedState{}, action{}, err
		}
		observed.users, observed.left = c.users, append(observed.left, c.left...)
	}
	if asksController(observed) {
		if observed.tasks, err = c.controllerTasks(ctx, forced); err != nil {
			return observedState{}, action{}, err
		}
	}
	return observed, nextAction(observed), nil
}

// observe reads the remaining objects of the driver, up to the first stage that has any, and the driver's DaemonSets. It reads from the
// API server, so that a stale cache cannot end a stage early.
func (c *controller) observe(ctx context.Context, nodes *nodes, forced bool) (observedState, error) {
	observed := observedState{refused: c.refused, pods: map[int][]string{}, forced: forced, lostNamespace: c.LostNamespace, unknown: c.Unknown}
	found := false
	for i, stage := range stages {
		if found && !stage.kinds.Has(nodeKind) {
			continue
		}
		before := len(observed.objects)
		for _, desired := range c.desired(i) {
			if err := c.observeObject(ctx, desired, &observed); err != nil {
				return observedState{}, err
			}
		}
		found = found || slices.ContainsFunc(observed.objects[before:], func(m drivers.Manifest) bool {
			return stage.pods || c.refused[nameOf(m)] == nil // a refused object blocks only the objects that pods need
		})
		if found || !stage.pods {
			continue // pods of existing workloads end later
		}
		if err := c.observePods(ctx, i, nodes, &observed); err != nil {
			return observedState{}, err
		}
		found = len(observed.pods[i]) > 0
	}
	return observed, nil
}

// desired returns the objects of a stage.
func (c *controller) desired(stage int) []*unstructured.Unstructured {
	var desired []*unstructured.Unstructured
	for _, object := range c.Objects {
		if stageOf(object.Desired.GetKind()) == stage {
			desired = append(desired, object.Desired)
		}
	}
	return desired
}

// observeObject adds an object of the driver to the observed state, if it exists.
func (c *controller) observeObject(ctx context.Context, desired *unstructured.Unstructured, observed *observedState) error {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(desired.GroupVersionKind())
	err := c.Reader.Get(ctx, client.ObjectKeyFromObject(desired), current)
	name := fmt.Sprintf("%s %s", desired.GetKind(), desired.GetName())
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
	case err != nil:
		return fmt.Errorf("reading %s: %w", name, err)
	case drivers.Manifest{Object: desired}.Kept():
		observed.kept = append(observed.kept, name)
	case c.Applier.Owned(current):
		observed.objects = append(observed.objects, drivers.Manifest{Object: current})
	default:
		observed.foreign = append(observed.foreign, name)
	}
	return nil
}

// observePods adds the pods of a stage to the observed state.
func (c *controller) observePods(ctx context.Context, stage int, nodes *nodes, observed *observedState) error {
	var awaited, left []placedPod
	for _, workload := range c.desired(stage) {
		await, leave, err := c.remainingPods(ctx, workload, nodes, observed.forced)
		if err != nil {
			return err
		}
		awaited, left = append(awaited, await...), append(left, leave...)
	}
	var err error
	if observed.pods[stage], err = nodes.describe(ctx, awaited); err != nil {
		return err
	}
	described, err := nodes.describe(ctx, left)
	observed.left = append(observed.left, described...)
	return err
}

// seesNodePlugin reports whether the caches show a DaemonSet of the driver.
func (c *controller) seesNodePlugin() bool {
	return slices.ContainsFunc(c.Objects, func(object *objects.WatchedObject) bool {
		return isNodePlugin(object.Desired) && object.Cached() != nil
	})
}

// search finds the pods that use volumes. A forced removal does not wait for them, and only names them in events, so
// one search is enough.
func (c *controller) search(ctx context.Context, nodes *nodes, forced bool) error {
	if forced && c.searched {
		return nil
	}
	users, left, err := inUse{c.Kube, c.Driver, c.Clock.Now(), nodes, c.driverNodes}.pods(ctx)
	if err == nil {
		c.users, err = nodes.describe(ctx, users)
	}
	if err == nil {
		c.left, err = nodes.describe(ctx, left)
	}
	if err != nil && forced {
		klog.ErrorS(err, "Failed to find the pods that use volumes; the removal is forced and continues", "clusterCSIDriver", c.Driver.CSIName)
		err = nil
	}
	c.searched = err == nil
	return err
}

// report reports the progress of the removal: to OLM, in a metric, in conditions and in an event.
func (c *controller) report(ctx context.Context, observed observedState, next action) error {
	progressing, reason, blocking := operatorv1.ConditionTrue, controllers.Uninstalling, 0
	if next.done {
		progressing, reason = operatorv1.ConditionFalse, controllers.Settled
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
