package upgradeable

import (
	"context"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/berth-csi/berth/operator/status"
)

// A controller sets the condition while the driver is managed: an adoption ends when the driver has rolled out.
type controller struct {
	condition *Condition
	reporter  *status.Reporter
	adopting  bool
	set       Reason // the last one
}

// NewController returns the controller for a cycle that starts with or without an adoption.
func NewController(name string, condition *Condition, adopting bool, reporter *status.Reporter, recorder events.Recorder) factory.Controller {
	c := &controller{condition: condition, reporter: reporter, adopting: adopting}
	return factory.New().WithInformers(reporter.Informer()).WithSync(c.sync).ToController(name, recorder)
}

func (c *controller) sync(ctx context.Context, _ factory.SyncContext) error {
	rolledOut := c.reporter.Condition(operatorv1.OperatorStatusTypeAvailable).Status == operatorv1.ConditionTrue &&
		c.reporter.Condition(operatorv1.OperatorStatusTypeProgressing).Status == operatorv1.ConditionFalse
	c.adopting = c.adopting && !rolledOut
	reason := Settled
	if c.adopting {
		reason = Adopting
	}
	if reason == c.set {
		return nil
	}
	if err := c.condition.Set(ctx, reason); err != nil {
		return err
	}
	c.set = reason
	return nil
}
