package controllers

import (
	"context"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

// A settings controller reports settings of the cluster that the driver cannot honor: in a condition, and in an event when the condition
// changes. The driver works all the same, so it is not degraded.
type settings struct {
	driver   drivers.Driver
	observe  func() (drivers.Cluster, error)
	reporter *clustercsidriver.Reporter
	recorder events.Recorder
	reported string // the last message
}

// NewSettings returns the controller. It is triggered by the informer of Infrastructures.
func NewSettings(driver drivers.Driver, observe func() (drivers.Cluster, error), infrastructures factory.Informer, reporter *clustercsidriver.Reporter, recorder events.Recorder) factory.Controller {
	c := &settings{driver: driver, observe: observe, reporter: reporter, recorder: recorder}
	c.reported = reporter.Condition(c.conditionType()).Message
	return factory.New().
		WithInformers(reporter.Informer(), infrastructures).
		WithSync(c.sync).
		WithSyncDegradedOnError(reporter).
		ToController(driver.ConditionPrefix+"DriverSettingsController", recorder)
}

func (c *settings) sync(ctx context.Context, _ factory.SyncContext) error {
	cluster, err := c.observe()
	if err != nil {
		return err
	}
	status, reason, message := operatorv1.ConditionTrue, "AsExpected", strings.Join(c.driver.LeftOut(cluster), " ")
	if message != "" {
		status, reason = operatorv1.ConditionFalse, "LeftOut"
	}
	// The condition comes first: a restarted operator reads from it what the previous one reported.
	if err := c.reporter.ApplyOperatorStatus(ctx, c.driver.ConditionPrefix+"DriverSettings", applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(c.conditionType()).WithStatus(status).WithReason(reason).WithMessage(message))); err != nil {
		return err
	}
	if message != c.reported && message != "" {
		c.recorder.Warning("SettingsLeftOut", message)
	}
	c.reported = message
	return nil
}

func (c *settings) conditionType() string {
	return c.driver.ConditionPrefix + "DriverSettingsApplied"
}
