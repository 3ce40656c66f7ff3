package controller

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
)

// The conditions of the controller. OpenShift counts only the last one as a fault.
const (
	set      = "Set"      // whether the last pass was complete; Unknown before that
	accepted = "Accepted" // whether the cloud takes all tags
	degraded = "Degraded" // whether passes have failed for long
)

func (c *loop) conditionType(name string) string {
	return c.Driver.ConditionPrefix + "Tags" + name
}

// An outcome is the state that the condition Set reports.
type outcome struct {
	set             operatorv1.ConditionStatus
	reason, message string
}

var done = outcome{operatorv1.ConditionTrue, "AsExpected", ""}

func failing(err error) outcome {
	return outcome{operatorv1.ConditionFalse, "Failing", truncate(err.Error())}
}

// reportProgress reports that a pass has begun, if the input has changed since the last complete pass. It reports nothing when a periodic
// pass begins, or a pass after failed passes.
func (c *loop) reportProgress(ctx context.Context) error {
	now := c.Reporter.Condition(c.conditionType(set)).Status
	changed := c.complete != [sha256.Size]byte{} && c.complete != c.begun
	if now == operatorv1.ConditionFalse || now == operatorv1.ConditionTrue && !changed {
		return nil
	}
	return c.report(ctx, outcome{operatorv1.ConditionUnknown, "InProgress", ""})
}

// report reports an outcome, and the tags that the last complete pass left out, in conditions and events.
func (c *loop) report(ctx context.Context, o outcome) error {
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
			"the tags of existing %s have not been set since %s; volumes work all the same: %s", resources, since.UTC().Format(time.RFC3339), o.message))
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

func (c *loop) condition(name string, status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
	return applyoperatorv1.OperatorCondition().WithType(c.conditionType(name)).WithStatus(status).WithReason(reason).WithMessage(message)
}

// record records an event when the message of a condition changes.
func (c *loop) record(name, reason, message string) {
	if message != c.recorded[name] && message != "" {
		c.Recorder.Warning(reason, message)
	}
	c.recorded[name] = message
}

// truncate shortens a message for a condition, because it may contain text from the cloud.
func truncate(message string) string {
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return message
}
