// Package operator runs one optional CSI driver on a cluster: it installs, configures and reports
// on the driver that a drivers.Driver describes, as the driver's ClusterCSIDriver object asks.
//
// Without that object the operator touches nothing of the driver. library-go's CSI controllers do
// the work that is the same for every OpenShift CSI driver; what they lack stands here.
package operator

import (
	"context"
	"fmt"

	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/management"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
)

// Process is what an operator gets of the program that it runs in.
type Process struct {
	// KubeConfig connects to the cluster, and limits the requests about the driver. A companion sets
	// limits of its own.
	KubeConfig *rest.Config
	// EventRecorder records what the operator does.
	EventRecorder events.Recorder
	// OperatorNamespace is where the operator runs.
	OperatorNamespace string
	Clock             clock.Clock
}

// A Companion is a further controller that the operator process runs for a driver, such as the one
// that serves the driver's volume API. It runs whether or not the driver is asked for.
type Companion struct {
	// Prepare, if there is one, returns before the operator takes over what an earlier one has made: while it
	// can be told what that was.
	Prepare func(ctx context.Context, cfg *rest.Config) error
	// Run runs the controller until ctx ends.
	Run func(ctx context.Context, cfg *rest.Config) error
}

// Run runs the operator of one driver until ctx ends. It returns an error if it cannot start, or if
// a companion fails. version is what the ClusterCSIDriver says that it is looked after by.
func Run(ctx context.Context, driver drivers.Driver, version string, process *Process, companions ...Companion) error {
	management.SetOperatorNotRemovable() // uninstalling is not library-go's: it knows no order

	cfg := withDeadline(process.KubeConfig)
	o := &operator{driver: driver, version: version, namespace: process.OperatorNamespace, cfg: cfg, recorder: process.EventRecorder, clock: process.Clock, lockWait: newLockWait()}

	if err := o.becomeLeader(ctx); ctx.Err() != nil {
		return nil // told to stop while it waited
	} else if err != nil {
		return fmt.Errorf("waiting for the lock %s/%s: %w", o.namespace, driver.Operator.Lock, err)
	}
	var err error
	if o.upgradeable, err = newUpgradeable(cfg); err != nil {
		return err
	}
	klog.Infof("operator of %s runs in namespace %s", driver.CSIName, o.namespace)
	blockingPods.WithLabelValues(driver.CSIName).Set(0)

	for _, companion := range companions {
		if companion.Prepare == nil {
			continue
		}
		if err := companion.Prepare(ctx, cfg); ctx.Err() != nil {
			return nil // told to stop meanwhile
		} else if err != nil {
			return err
		}
	}
	customResource, err := o.watchCustomResource(ctx)
	if err != nil {
		return err
	}
	tasks := []func(context.Context) error{func(ctx context.Context) error { return o.serveCustomResource(ctx, customResource) }}
	for _, companion := range companions {
		tasks = append(tasks, func(ctx context.Context) error {
			if err := o.awaitOtherOperators(ctx, customResource); ctx.Err() != nil {
				return nil // told to stop while it waited
			} else if err != nil {
				return err
			}
			return companion.Run(ctx, cfg)
		})
	}
	return runAll(ctx, tasks)
}
