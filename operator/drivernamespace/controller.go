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

// decideInterval is how often the controller reads again where this driver and others are.
const decideInterval = time.Minute

// A controller reports traces of other drivers for the same volumes in a condition: only one of them can serve volumes
// on a node, and only a person can remove the other. It goes by objects that only administrators can write. It also ends
// the cycle when the driver's namespace has changed.
type controller struct {
	*Finder
	namespace Namespace
	clock     clock.PassiveClock
	endCycle  func()

	decision placement.Decision
	decided  time.Time
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
	if c.clock.Since(c.decided) >= decideInterval { // the ClusterCSIDriver changes more often
		if c.decision, err = c.Decide(ctx); err != nil {
			return err
		}
		c.decided = c.clock.Now()
	}
	if c.decision.Refusal != nil && !c.namespace.Lost {
		klog.InfoS("The driver's namespace is not known any more", "clusterCSIDriver", custom.Name, "reason", c.decision.Refusal.Reason)
		c.endCycle()
		return nil
	}
	var others []string
	for _, other := range c.decision.Others {
		others = append(others, other.String())
	}
	for _, finalizer := range custom.Finalizers {
		if slices.Contains(c.Driver.History.Finalizers, finalizer) {
			others = append(others, fmt.Sprintf("ClusterCSIDriver %s has the finalizer %s", custom.Name, finalizer))
		}
	}
	if len(others) == 0 {
		return report(ctx, c.Reporter, c.Driver, operatorv1.ConditionFalse, "AsExpected", "")
	}
	return report(ctx, c.Reporter, c.Driver, operatorv1.ConditionTrue, "SeveralDrivers", fmt.Sprintf(
		"the driver is in namespace %s, but there are traces of another operator's driver: %s. "+
			"Only one can serve volumes on a node: remove the other one, its operator, and these traces", c.namespace.Name, strings.Join(others, "; ")))
}
