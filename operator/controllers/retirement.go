package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/objects"
)

// workloadKinds are the kinds with pods that would work against their replacements.
var workloadKinds = sets.New("Deployment", "DaemonSet")

// RetirementOptions are the dependencies of the controller.
type RetirementOptions struct {
	Driver    drivers.Driver
	Namespace string             // the driver's
	Own       []drivers.Manifest // its objects
	Retired   []drivers.Manifest // from Driver.RetiredObjects
	Reader    client.Reader
	Applier   *objects.Applier
	Reporter  *clustercsidriver.Reporter
	Recorder  events.Recorder
}

// A Retirement deletes retired objects: workloads at once, and the objects that their pods need once the driver has
// rolled out without them. Then it also replaces the keys that an earlier operator wrote into Secrets. It does not
// watch these objects. It checks an object that is gone, or that is not the operator's, only once in a cycle.
type Retirement struct {
	factory.Controller
	RetirementOptions
	left     []drivers.Manifest    // retired objects that may still exist
	keys     []drivers.RetiredKeys // retired keys that Secrets may still have
	waits    []string              // what the keys wait for
	ready    chan struct{}
	reported string // the last message
}

// NewRetirement returns the controller that deletes the objects which the driver's definition has retired, and reports
// objects of other versions of the operator.
func NewRetirement(options RetirementOptions) *Retirement {
	c := &Retirement{RetirementOptions: options, left: slices.Clone(options.Retired), keys: slices.Clone(options.Driver.History.Keys), ready: make(chan struct{})}
	c.reported = c.Reporter.Condition(c.conditionType()).Message
	c.Controller = factory.New().
		WithInformers(c.Reporter.Informer()).
		WithPostStartHooks(c.Reporter.SyncOnceReported).
		WithSync(c.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.Reporter).
		ToController(c.Driver.ConditionPrefix+"DriverRetirementController", c.Recorder)
	return c
}

// Ready returns a channel that is closed once the retired workloads are deleted, or their deletion has failed. The driver's pods must not
// start earlier, but a failure must not keep them from starting.
func (c *Retirement) Ready() <-chan struct{} { return c.ready }

// sync deletes what is due. An object that cannot be deleted blocks no other.
func (c *Retirement) sync(ctx context.Context, syncContext factory.SyncContext) error {
	now, later := dueRetired(c.left, c.Reporter.RolledOut())
	var errs []error
	c.left = later
	for _, m := range now {
		exists, err := c.delete(ctx, m)
		if err != nil {
			errs = append(errs, err)
		}
		if exists || err != nil {
			c.left = append(c.left, m)
		}
	}
	errs = append(errs, c.replaceKeys(ctx))
	if ctx.Err() != nil {
		return nil // the shutdown is no failure
	}
	if len(c.keys) > 0 && c.Reporter.RolledOut() {
		syncContext.Queue().AddAfter(factory.DefaultQueueKey, podInterval)
	}
	select {
	case <-c.ready:
	default:
		close(c.ready)
	}
	return errors.Join(append(errs, c.report(ctx))...)
}

// dueRetired separates the objects to delete now from those to delete when the driver has rolled out.
func dueRetired(left []drivers.Manifest, rolledOut bool) (now, later []drivers.Manifest) {
	for _, m := range left {
		if rolledOut || workloadKinds.Has(m.Object.GetKind()) {
			now = append(now, m)
		} else {
			later = append(later, m)
		}
	}
	return now, later
}

// delete deletes an object if the driver's operators created it, and reports whether such an object existed.
func (c *Retirement) delete(ctx context.Context, m drivers.Manifest) (existed bool, err error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(m.Object.GroupVersionKind())
	err = c.Reader.Get(ctx, client.ObjectKeyFromObject(m.Object), live)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the retired %s %s: %w", m.Object.GetKind(), m.Object.GetName(), err)
	case !c.Applier.Owned(live):
		klog.InfoS("Left an object alone that has the name of a retired one, because the operator did not create it",
			"kind", live.GetKind(), "object", klog.KObj(live))
		return false, nil
	}
	return true, c.Applier.Delete(ctx, live)
}

// report reports what other versions of the driver left: in a condition, and in an event when the condition changes.
func (c *Retirement) report(ctx context.Context) error {
	custom, err := c.Reporter.GetObjectMeta()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	unknown := UnknownObjects(custom.Annotations[ObjectsRecordAnnotation], c.Own, c.Retired)
	next := describeRetirement(c.left, c.waits, DescribeUnknownObjects(unknown, custom.Name, c.Driver.Operator.Name, c.Namespace))
	if err := c.Reporter.ApplyOperatorStatus(ctx, c.Driver.ConditionPrefix+"DriverLeftovers", applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(c.conditionType()).WithStatus(next.status).WithReason(next.reason).WithMessage(next.message))); err != nil {
		return err
	}
	if next.reason == reasonOtherVersion && next.message != c.reported {
		c.Recorder.Warning(next.reason, next.message)
	}
	c.reported = next.message
	return nil
}

const reasonOtherVersion = "ObjectsOfOtherVersion"

// retirementVerdict is the content of the condition.
type retirementVerdict struct {
	status          operatorv1.ConditionStatus
	reason, message string
}

// describeRetirement decides what the condition says about the remaining retired objects and keys, and about objects of
// other versions.
func describeRetirement(left []drivers.Manifest, waits []string, otherVersion string) retirementVerdict {
	if otherVersion != "" {
		return retirementVerdict{operatorv1.ConditionFalse, reasonOtherVersion, otherVersion}
	}
	if len(left) > 0 {
		waits = append([]string{fmt.Sprintf(
			"this version of the driver no longer has these objects, and they are deleted, if they exist, once it has rolled out: %s", strings.Join(objectReferences(left), ", "))}, waits...)
	}
	if len(waits) > 0 {
		return retirementVerdict{operatorv1.ConditionFalse, "Removing", strings.Join(waits, "; ")}
	}
	return retirementVerdict{operatorv1.ConditionTrue, "AsExpected", ""}
}

func (c *Retirement) conditionType() string {
	return c.Driver.ConditionPrefix + "DriverLeftoversRemoved"
}
