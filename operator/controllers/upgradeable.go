package controllers

import (
	"context"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/operator/clustercsidriver"
)

// recheckInterval is how often the controller checks that the OperatorCondition still has the value that it wrote: a
// restore of etcd may revert it.
const recheckInterval = 10 * time.Minute

// An upgradeable sets the condition while the driver is managed. An adoption ends when the driver has rolled out.
type upgradeable struct {
	condition *UpgradeableCondition
	reporter  *clustercsidriver.Reporter
	clock     clock.PassiveClock
	adopting  bool
	set       UpgradeableReason // the last one
	at        time.Time
}

// NewUpgradeable returns the controller for a cycle that starts with or without an adoption.
func NewUpgradeable(name string, condition *UpgradeableCondition, adopting bool, reporter *clustercsidriver.Reporter, clock clock.PassiveClock, recorder events.Recorder) factory.Controller {
	c := &upgradeable{condition: condition, reporter: reporter, clock: clock, adopting: adopting}
	return factory.New().
		WithInformers(reporter.Informer()).
		WithPostStartHooks(reporter.SyncOnceReported).
		WithSync(c.sync).
		ResyncEvery(recheckInterval).
		ToController(name, recorder)
}

func (c *upgradeable) sync(ctx context.Context, _ factory.SyncContext) error {
	c.adopting = c.adopting && !c.reporter.RolledOut()
	reason := Settled
	if c.adopting {
		reason = Adopting
	}
	if reason == c.set && c.clock.Since(c.at) < recheckInterval {
		return nil
	}
	if err := c.condition.Set(ctx, reason); err != nil {
		return err
	}
	c.set, c.at = reason, c.clock.Now()
	return nil
}
