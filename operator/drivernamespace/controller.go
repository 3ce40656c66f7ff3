package drivernamespace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers/placement"
)

// decideInterval is how often the controller determines again where this driver and others are.
const decideInterval = time.Minute

// A controller ends the cycle when the driver's namespace has changed, or when another operator's driver for the same
// volumes was installed. It relies on objects that only administrators can write. In a condition it reports finalizers of
// other operators: the next cycle removes them, unless their operator still runs.
type controller struct {
	*Finder
	namespace Namespace
	clock     clock.PassiveClock
	endCycle  func()

	decision placement.Decision
	decided  time.Time
	others   int // number of other operators' finalizers at the last sync
}

// NewController returns the controller for a cycle in which the driver is in a namespace.
func (f *Finder) NewController(namespace Namespace, clock clock.PassiveClock, endCycle func()) factory.Controller {
	c := &controller{Finder: f, namespace: namespace, clock: clock, endCycle: endCycle}
	return factory.New().
		WithInformers(f.Reporter.Informer()).
		WithSync(c.sync).
		ResyncEvery(decideInterval).
		ToController(f.Driver.ConditionPrefix+"DriverNamespaceController", f.Recorder)
}

func (c *controller) sync(ctx context.Context, _ factory.SyncContext) error {
	custom, err := c.Reporter.GetObjectMeta()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !sameNamespace(custom.Annotations, c.namespace.Annotations()) {
		klog.InfoS("The ClusterCSIDriver names another namespace", "clusterCSIDriver", custom.Name, "namespace", c.namespace.Name)
		c.endCycle()
		return nil
	}
	var others []string
	for _, finalizer := range custom.Finalizers {
		if slices.Contains(c.Driver.History.Finalizers, finalizer) {
			others = append(others, fmt.Sprintf("ClusterCSIDriver %s has the finalizer %s", custom.Name, finalizer))
		}
	}
	// The ClusterCSIDriver changes more often, so not each change may cause a decision. But a new finalizer means that another operator
	// is running.
	if c.clock.Since(c.decided) >= decideInterval || len(others) > c.others {
		if c.decision, err = c.Decide(ctx); err != nil {
			return err
		}
		c.decided = c.clock.Now()
	}
	c.others = len(others)
	switch {
	case c.namespace.Lost:
	case c.decision.Refusal != nil:
		klog.InfoS("The operator may no longer write to the driver", "clusterCSIDriver", custom.Name, "reason", c.decision.Refusal.Reason)
		c.endCycle()
		return nil
	case c.decision.UID != c.namespace.UID:
		klog.InfoS("The driver's namespace was deleted or replaced", "clusterCSIDriver", custom.Name, "namespace", c.namespace.Name, "uid", c.namespace.UID)
		c.endCycle()
		return nil
	}
	if len(others) == 0 {
		return report(ctx, c.Reporter, c.Driver, operatorv1.ConditionFalse, "AsExpected", "")
	}
	return report(ctx, c.Reporter, c.Driver, operatorv1.ConditionTrue, "SeveralDrivers", fmt.Sprintf(
		"the driver is in namespace %s, but another operator manages it, too: %s. "+
			"Delete that operator's Subscription and its ClusterServiceVersion, and then this finalizer", c.namespace.Name, strings.Join(others, "; ")))
}
