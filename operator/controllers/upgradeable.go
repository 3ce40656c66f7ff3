package controllers

import (
	"context"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/operator/clustercsidriver"
)

// recheckInterval is how often the controller compares the OperatorCondition with what it has written: when etcd is restored,
// that is lost.
const recheckInterval = 10 * time.Minute

// A upgradeable sets the condition while the driver is managed: an adoption ends when the driver has rolled out.
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
