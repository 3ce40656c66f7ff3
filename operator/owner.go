package operator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/operator/controllers"
)

// ownerInterval is how often an operator checks whether the driver still belongs to another one.
const ownerInterval = 10 * time.Second

// leaveToOwner reports whether the driver belongs to another operator. If so, it returns only when that has changed or
// ctx ends. Meanwhile, the operator writes neither the driver's objects nor the ClusterCSIDriver: the cluster storage
// operator copies each of its conditions to the ClusterOperator storage, where ours would stay after this operator is
// removed.
//
// A permanent driver's operator never gives way, because it is the one that the cluster needs.
func (c *cycle) leaveToOwner(ctx context.Context) (left bool, err error) {
	if c.permanent {
		return false, nil
	}
	decision, err := c.finder.Decide(ctx)
	if err != nil {
		return false, err
	}
	if decision.Owner == nil {
		c.degraded.ClearUntilDone(ctx)
		return false, nil
	}
	message := c.describeOwner(*decision.Owner)
	klog.InfoS("Waiting: the driver belongs to another operator", "clusterCSIDriver", c.driver.CSIName, "message", message)
	c.recorder.Warning("DriverOfAnotherOperator", message)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return true, runAll(ctx,
		func(ctx context.Context) error {
			c.upgradeable.SetUntilDone(ctx, controllers.Settled)
			c.degraded.SetUntilDone(ctx, "DriverOfAnotherOperator", message)
			return nil
		},
		func(ctx context.Context) error {
			defer cancel()
			err := wait.PollUntilContextCancel(ctx, ownerInterval, false, func(ctx context.Context) (bool, error) {
				decision, err := c.finder.Decide(ctx)
				return err == nil && decision.Owner == nil, err
			})
			if wait.Interrupted(err) {
				return nil // ctx ended
			}
			return err
		},
	)
}

func (c *cycle) describeOwner(owner placement.Reference) string {
	return fmt.Sprintf("the driver %s belongs to the cluster storage operator, as %s shows. This operator changes nothing, and the cluster does not need it: "+
		"delete its Subscription and its ClusterServiceVersion, or what else installed it, and leave the ClusterCSIDriver as it is", c.driver.CSIName, owner)
}
