// Package tagging has the controller that keeps the tags of the driver's resources in the cloud as the cluster wants them.
// The driver tags what it creates, and never again.
//
// A pass over all resources begins when the operator starts, when something has changed that it depends on, and at an
// interval: that finds resources which the driver created while it did not know the latest tags, and tags that somebody
// has removed. The cluster's volumes are not watched, as new ones have their tags. The rate of calls is limited, so the time
// that a pass takes grows with the number of volumes, and the load on the cloud does not.
//
// Trouble with tags is none of the driver's: volumes work without. It is reported in conditions, and is a reason for
// Degraded only when it lasts.
package tagging

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/operator/cloudaccess"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

const (
	// firstRetry and lastRetry are the times from a pass that failed to the next: the first time, and after many.
	firstRetry = time.Minute
	lastRetry  = time.Hour
	// lasting is how long passes fail before that is a reason for Degraded: long enough for somebody to repair credentials
	// in the course of a day.
	lasting = 8 * time.Hour
	// maxHandle is the longest handle of a volume that is of interest, in bytes.
	maxHandle = 512
	// maxMessage is the longest message of a condition, in runes.
	maxMessage = 2048
)

// errChanged ends a pass, because it would set tags that the cluster no longer wants.
var errChanged = errors.New("what the pass depends on has changed")

// Options are the dependencies of the controller.
type Options struct {
	Driver    drivers.Driver
	Namespace string // the driver's
	Access    cloudaccess.Source
	// Core reads from the API server's core group.
	Core     rest.Interface
	Reporter *clustercsidriver.Reporter
	Recorder events.Recorder
	Clock    clock.Clock
}

type controller struct {
	Options
	begun    [sha256.Size]byte // what the last pass depended on
	complete [sha256.Size]byte // what the last complete pass depended on
	tags     [sha256.Size]byte // the tags that refused is about
	refused  map[string]string
	next     time.Time         // when the next pass begins if nothing changes
	failures int               // passes in a row
	leftOut  string            // by the last complete pass
	recorded map[string]string // the messages of the last events, by condition
}

// NewController returns the controller.
func NewController(options Options) factory.Controller {
	c := &controller{Options: options}
	c.leftOut = c.Reporter.Condition(c.conditionType(accepted)).Message
	c.recorded = map[string]string{set: c.Reporter.Condition(c.conditionType(set)).Message, accepted: c.leftOut}
	return factory.New().
		WithInformers(c.Access.Informers()...).
		WithSync(c.sync).
		ToController(c.Driver.ConditionPrefix+"TagsController", c.Recorder)
}

// sync makes a pass if it is time for one, and returns once the pass has ended. A change in the meantime ends it, and
// triggers another sync.
func (c *controller) sync(ctx context.Context, syncContext factory.SyncContext) error {
	wanted, err := c.observe()
	switch {
	case err != nil:
		syncContext.Queue().AddAfter(syncContext.QueueKey(), lastRetry)
		return c.report(ctx, failing(err))
	case len(wanted.Tags) == 0:
		c.begun, c.complete, c.leftOut = [sha256.Size]byte{}, hashOf(wanted), ""
		return c.report(ctx, done)
	case wanted.Credentials == nil:
		return c.report(ctx, outcome{operatorv1.ConditionUnknown, "NoCredentials", fmt.Sprintf(
			"existing %s do not get the tags that the cluster wants: Secret %s is not in namespace %s. The condition of its CredentialsRequest says why",
			c.Driver.Tagging.Resources, c.Driver.Tagging.Secret, c.Namespace)})
	}
	c.expect(wanted)
	if wait := c.next.Sub(c.Clock.Now()); wait > 0 {
		syncContext.Queue().AddAfter(syncContext.QueueKey(), wait)
		return nil
	}
	if err := c.reportProgress(ctx); err != nil {
		return err
	}
	result, err := c.pass(ctx, wanted)
	if ctx.Err() != nil {
		return nil // the shutdown says nothing about tags
	}
	if result.Changed > 0 {
		klog.V(2).InfoS("Set tags", "resources", c.Driver.Tagging.Resources, "changed", result.Changed)
		c.Recorder.Eventf("TagsSet", "Set the tags that the cluster wants on %d %s", result.Changed, c.Driver.Tagging.Resources)
	}
	if errors.Is(err, errChanged) {
		klog.V(2).InfoS("Begin again to set tags: something has changed", "resources", c.Driver.Tagging.Resources)
		syncContext.Queue().Add(syncContext.QueueKey())
		return nil
	}
	after := c.Driver.Tagging.Interval
	if err != nil {
		after = min(firstRetry<<min(c.failures, 10), lastRetry, after)
		c.failures++
		klog.V(2).InfoS("Failed to set tags", "resources", c.Driver.Tagging.Resources, "reason", err, "retry", after)
	}
	c.next = c.Clock.Now().Add(after)
	syncContext.Queue().AddAfter(syncContext.QueueKey(), after)
	if err != nil {
		return c.report(ctx, failing(err))
	}
	c.complete, c.failures, c.leftOut = c.begun, 0, truncate(strings.Join(result.LeftOut, " "))
	return c.report(ctx, done)
}

// observe returns what a pass depends on, apart from the volumes. There are no credentials while there is no Secret.
func (c *controller) observe() (drivers.TaggingPass, error) {
	access, err := c.Access.Read()
	if err != nil {
		return drivers.TaggingPass{}, err
	}
	return drivers.TaggingPass{CloudAccess: access, Tags: c.Driver.Tagging.Wanted(access.Infrastructure)}, nil
}

// expect makes the next pass begin at once if it depends on something else than the last one.
func (c *controller) expect(wanted drivers.TaggingPass) {
	if tags := hash(wanted.Tags); c.refused == nil || tags != c.tags {
		c.tags, c.refused = tags, map[string]string{}
	}
	if now := hashOf(wanted); now != c.begun {
		c.begun, c.next, c.failures = now, time.Time{}, 0
	}
}

func hashOf(pass drivers.TaggingPass) [sha256.Size]byte {
	depends := []any{pass.Infrastructure.Status.InfrastructureName, pass.Tags, pass.Credentials, pass.CABundle}
	if platform := pass.Infrastructure.Status.PlatformStatus; platform != nil && platform.AWS != nil {
		depends = append(depends, platform.AWS.Region, platform.AWS.ServiceEndpoints)
	}
	return hash(depends)
}

// hash returns a hash of what can be written as JSON; others are programming errors.
func hash(value any) [sha256.Size]byte {
	document, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return sha256.Sum256(document)
}

// pass makes a pass.
func (c *controller) pass(ctx context.Context, pass drivers.TaggingPass) (drivers.TaggingResult, error) {
	volumes, err := c.volumes(ctx)
	if err != nil || len(volumes) == 0 {
		return drivers.TaggingResult{}, err
	}
	pass.Volumes, pass.Refused = volumes, c.refused
	wait := pass.Wait
	pass.Wait = func(ctx context.Context, throttled bool) error {
		if err := wait(ctx, throttled); err != nil {
			return err
		}
		if now, err := c.observe(); err == nil && hashOf(now) != c.begun {
			return errChanged
		}
		return nil
	}
	klog.V(4).InfoS("Comparing tags", "resources", c.Driver.Tagging.Resources, "volumes", len(volumes))
	return c.Driver.Tagging.SetTags(ctx, pass)
}

// volumes returns the handles of the driver's PersistentVolumes, sorted, each once.
func (c *controller) volumes(ctx context.Context) ([]string, error) {
	type persistentVolume struct {
		Spec struct {
			CSI *struct{ Driver, VolumeHandle string }
		}
	}
	var handles []string
	err := listing.Each(ctx, c.Core, listing.List{Resource: "persistentvolumes"}, func(volume persistentVolume) error {
		if csi := volume.Spec.CSI; csi != nil && csi.Driver == c.Driver.CSIName && len(csi.VolumeHandle) <= maxHandle {
			handles = append(handles, csi.VolumeHandle)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	slices.Sort(handles)
	return slices.Compact(handles), nil
}

// The conditions of the controller. OpenShift counts only the last one as a fault.
const (
	set      = "Set"      // whether the last pass was complete; Unknown before that
	accepted = "Accepted" // whether the cloud takes all tags
	degraded = "Degraded" // whether passes have failed for long
)

func (c *controller) conditionType(name string) string {
	return c.Driver.ConditionPrefix + "Tags" + name
}

// An outcome is what the condition Set reports.
type outcome struct {
	set             operatorv1.ConditionStatus
	reason, message string
}

var done = outcome{operatorv1.ConditionTrue, "AsExpected", ""}

func failing(err error) outcome {
	return outcome{operatorv1.ConditionFalse, "Failing", truncate(err.Error())}
}

// reportProgress reports that a pass has begun, if something has changed since the last complete one. A pass at an interval
// is no news, and one after others that failed leaves it at that.
func (c *controller) reportProgress(ctx context.Context) error {
	now := c.Reporter.Condition(c.conditionType(set)).Status
	changed := c.complete != [sha256.Size]byte{} && c.complete != c.begun
	if now == operatorv1.ConditionFalse || now == operatorv1.ConditionTrue && !changed {
		return nil
	}
	return c.report(ctx, outcome{operatorv1.ConditionUnknown, "InProgress", ""})
}

// report reports an outcome and what the last complete pass has left out, in conditions and events.
func (c *controller) report(ctx context.Context, o outcome) error {
	conditions := []*applyoperatorv1.OperatorConditionApplyConfiguration{
		c.condition(set, o.set, o.reason, o.message),
		c.condition(accepted, operatorv1.ConditionTrue, "AsExpected", ""),
		c.condition(degraded, operatorv1.ConditionFalse, "AsExpected", ""),
	}
	if c.leftOut != "" {
		conditions[1] = c.condition(accepted, operatorv1.ConditionFalse, "LeftOut", c.leftOut)
	}
	before := c.Reporter.Condition(c.conditionType(set))
	if since := before.LastTransitionTime.Time; o.set == operatorv1.ConditionFalse && before.Status == o.set && c.Clock.Since(since) >= lasting {
		conditions[2] = c.condition(degraded, operatorv1.ConditionTrue, "TagsNotSet", fmt.Sprintf(
			"the tags of existing %s cannot be set, since %s; volumes work all the same: %s", c.Driver.Tagging.Resources, since.UTC().Format(time.RFC3339), o.message))
	}
	if err := c.Reporter.ApplyOperatorStatus(ctx, c.Driver.ConditionPrefix+"Tags", applyoperatorv1.OperatorStatus().WithConditions(conditions...)); err != nil {
		return err
	}
	// The conditions come first: a restarted operator reads from them what the previous one reported.
	if o.set == operatorv1.ConditionFalse {
		c.record(set, "TagsFailing", o.message)
	} else if o.set == operatorv1.ConditionTrue {
		delete(c.recorded, set)
	}
	c.record(accepted, "TagsLeftOut", c.leftOut)
	return nil
}

func (c *controller) condition(name string, status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
	return applyoperatorv1.OperatorCondition().WithType(c.conditionType(name)).WithStatus(status).WithReason(reason).WithMessage(message)
}

// record records an event when the message of a condition changes.
func (c *controller) record(name, reason, message string) {
	if message != c.recorded[name] && message != "" {
		c.Recorder.Warning(reason, message)
	}
	c.recorded[name] = message
}

// truncate shortens a message, part of which may be the cloud's, to what a condition should have.
func truncate(message string) string {
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return message
}
