package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// forceAnnotation on a ClusterCSIDriver, set to "true", removes the driver although pods use its volumes.
const forceAnnotation = "berth.dev/force-removal"

// uninstaller removes a driver, one step at a time. It is the only controller that runs meanwhile.
type uninstaller struct {
	*operator
	clients   *clients
	manifests []drivers.Manifest
	told      string // the last reason that an event told of

	found []string  // the pods that used volumes when they were last looked for
	again time.Time // when to look for them again
}

// removeDriver takes the driver apart and, if its ClusterCSIDriver is being deleted, lets that go.
// It runs until ctx ends.
func (o *operator) removeDriver(ctx context.Context, c *clients) error {
	// What images it ran makes no difference to what there is to remove.
	manifests, err := o.manifests(c.place, anyImage)
	if err != nil {
		return err
	}
	if c.place.lost {
		manifests = slices.DeleteFunc(manifests, func(m drivers.Manifest) bool { return c.place.has(m.Object) || m.Kept() })
	}
	// While volumes are in use, the driver of an earlier operator is not to go with that one's API.
	relics, err := o.relics(ctx, c, manifests)
	if err != nil {
		return err
	}
	if err := o.adopt(ctx, c, relics); err != nil {
		return err
	}
	classes, err := o.classesMade(ctx, c)
	if err != nil {
		return err
	}
	u := &uninstaller{operator: o, clients: c, manifests: append(manifests, classes...)}
	u.told = c.condition(u.conditionPrefix() + operatorv1.OperatorStatusTypeProgressing).Reason
	defer blockingPods.WithLabelValues(o.driver.CSIName).Set(0)
	return c.run(ctx, []factory.Controller{o.newLogLevelController(c), o.newNamespaceController(c), u.controller()})
}

func (u *uninstaller) controller() factory.Controller {
	watched := []factory.Informer{u.clients.customResource.Informer()}
	for _, m := range u.manifests {
		watched = append(watched, u.clients.follow(m.Object).informers()...)
	}
	return factory.New().
		WithInformers(watched...).
		WithSync(func(ctx context.Context, syncContext factory.SyncContext) error {
			return retry.RetryOnConflict(conflictBackoff, func() error { return u.sync(ctx, syncContext) })
		}).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(u.clients.customResource).
		ToController(u.driver.ConditionPrefix+"DriverUninstallController", u.recorder)
}

// sync takes the next step. What the step changes wakes the controller up for the one after it.
func (u *uninstaller) sync(ctx context.Context, syncContext factory.SyncContext) error {
	custom, err := u.clients.customResource.GetObjectMeta()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := u.observe(ctx, custom)
	if err != nil {
		return err
	}
	if found.again > 0 {
		syncContext.Queue().AddAfter(syncContext.QueueKey(), found.again)
	}
	next := nextStep(found)
	if err := u.report(ctx, found, next); err != nil {
		return err
	}
	for _, m := range next.delete {
		if err := u.remove(ctx, u.clients.objects, m.Object); err != nil {
			return err
		}
	}
	if next.done && custom.DeletionTimestamp != nil {
		return u.letGo(ctx, u.clients)
	}
	return nil
}

// observe reads what is left of the driver: its own objects from the API server, so that no stale
// cache ends a stage too early, and who uses its volumes, while that makes a difference.
func (u *uninstaller) observe(ctx context.Context, custom *metav1.ObjectMeta) (remains, error) {
	found := remains{pods: map[int]int{}, forced: custom.Annotations[forceAnnotation] == "true"}
	if u.clients.place.lost {
		found.lost = u.clients.place.namespace
	}
	for _, m := range u.manifests {
		current := &unstructured.Unstructured{}
		current.SetGroupVersionKind(m.Object.GroupVersionKind())
		err := u.clients.objects.Get(ctx, client.ObjectKeyFromObject(m.Object), current)
		switch {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		case err != nil:
			return remains{}, fmt.Errorf("reading %s %s: %w", m.Object.GetKind(), m.Object.GetName(), err)
		case m.Kept():
			found.kept = append(found.kept, fmt.Sprintf("%s %s", m.Object.GetKind(), m.Object.GetName()))
		case u.ours(current):
			found.objects = append(found.objects, drivers.Manifest{File: m.File, Object: current})
		default:
			found.foreign = append(found.foreign, fmt.Sprintf("%s %s", m.Object.GetKind(), m.Object.GetName()))
		}
		pods, err := u.podsOf(ctx, m.Object)
		if err != nil {
			return remains{}, err
		}
		found.pods[stageOf(m.Object.GetKind())] += pods
	}
	if !atBeginning(found) {
		return found, nil
	}
	var err error
	found.users, found.again, err = u.users(ctx)
	return found, err
}

// podsOf counts the pods that a Deployment or DaemonSet runs, or has left behind.
func (u *uninstaller) podsOf(ctx context.Context, object *unstructured.Unstructured) (int, error) {
	selector, found, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	if err != nil || !found {
		return 0, nil // other kinds have no such field, or one of another type
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := u.clients.objects.List(ctx, pods, client.InNamespace(object.GetNamespace()), client.MatchingLabels(selector)); err != nil {
		return 0, fmt.Errorf("listing the pods of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return len(pods.Items), nil
}

// remove removes exactly the object that was looked at.
func (o *operator) remove(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := object.GetUID()
	err := c.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	o.recorder.Eventf(object.GetKind()+"Removed", "Removed %s %s", object.GetKind(), object.GetName())
	return nil
}

// tell tells of the removal in an event when it enters a new phase.
func (u *uninstaller) tell(found remains, next step) {
	if next.reason == u.told {
		return
	}
	u.told = next.reason
	if next.reason == reasonInUse {
		u.recorder.Warning(next.reason, next.message)
		return
	}
	if found.forced && len(found.users) > 0 && !next.done {
		u.recorder.Warningf("RemovalForced", "Removing the driver although its volumes are in use by %s, because of the annotation %s: %s",
			countUsers(found.users), forceAnnotation, abbreviate(found.users))
	}
	u.recorder.Event(next.reason, next.message)
}

// report writes how far the removal is: in conditions, an event, a metric, and for whoever wants to
// replace the operator.
func (u *uninstaller) report(ctx context.Context, found remains, next step) error {
	progressing, verdict, blocking := operatorv1.ConditionTrue, whileUninstalling, 0
	if next.done {
		progressing, verdict = operatorv1.ConditionFalse, mayUpgrade
	}
	if next.reason == reasonInUse {
		blocking = len(found.users)
	}
	blockingPods.WithLabelValues(u.driver.CSIName).Set(float64(blocking))
	u.upgradeable.try(ctx, verdict)
	condition := func(conditionType string, status operatorv1.ConditionStatus) *applyoperatorv1.OperatorConditionApplyConfiguration {
		return applyoperatorv1.OperatorCondition().WithType(u.conditionPrefix() + conditionType).
			WithStatus(status).WithReason(next.reason).WithMessage(next.message)
	}
	available := operatorv1.ConditionFalse
	if atBeginning(found) {
		available = operatorv1.ConditionTrue
	}
	if err := u.clients.customResource.ApplyOperatorStatus(ctx, u.conditionPrefix(), applyoperatorv1.OperatorStatus().WithConditions(
		condition(operatorv1.OperatorStatusTypeProgressing, progressing), condition(operatorv1.OperatorStatusTypeAvailable, available))); err != nil {
		return err
	}
	u.tell(found, next) // last: by the condition, an operator that is started again knows what has been told
	return nil
}

func (u *uninstaller) conditionPrefix() string { return u.driver.ConditionPrefix + "Uninstall" }
