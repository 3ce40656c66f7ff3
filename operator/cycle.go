package operator

import (
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/loglevel"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/backend"
	"github.com/berth-csi/berth/operator/customresource"
	"github.com/berth-csi/berth/operator/drivernamespace"
	"github.com/berth-csi/berth/operator/eventfilter"
	"github.com/berth-csi/berth/operator/leader"
	"github.com/berth-csi/berth/operator/objects"
	"github.com/berth-csi/berth/operator/status"
	"github.com/berth-csi/berth/operator/upgradeable"
)

// workers is the number of workers of each controller. Each controller has a single queue key, so a second worker would
// never have work.
const workers = 1

// A cycle runs the controllers for one desired state. It has the clients and informers that they share, and passes each
// controller those that it needs.
type cycle struct {
	driver            drivers.Driver
	operatorNamespace string
	recorder          events.Recorder
	clock             clock.PassiveClock
	lock              *leader.Lock
	upgradeable       *upgradeable.Condition
	offers            *backend.Offers
	end               func() // ends the cycle; the reconciler then starts a new one

	customResource *customresource.Client
	reporter       *status.Reporter
	clients        *clients
	guard          *drivernamespace.Guard
	finder         *drivernamespace.Finder
	applier        *objects.Applier
	finalizer      *customresource.Finalizer

	// These are known once prepare has returned.
	namespace drivernamespace.Namespace
	informers *informerSet
	operand   *operand
}

func (r *reconciler) newCycle(mode customresource.Mode, end func()) (*cycle, error) {
	unguarded, err := client.New(r.cfg, client.Options{}) // for the writes before the driver's namespace is known
	if err != nil {
		return nil, err
	}
	guard := drivernamespace.NewGuard(unguarded, end)
	clients, err := newClients(r.cfg, r.driver.Operator.Name, guard, unguarded.RESTMapper())
	if err != nil {
		return nil, err
	}
	customResource := r.customResource.NewClient()
	reporter := status.NewReporter(customResource, customResource.Resource(), status.Options{
		Name: r.driver.CSIName, FieldManager: r.driver.Operator.Name, Version: r.version,
		IsCurrent: func(conditionType string) bool { return isWritten(r.driver.ConditionPrefix, conditionType, mode) },
	})
	return &cycle{
		driver: r.driver, operatorNamespace: r.operatorNamespace, recorder: r.recorder, clock: r.clock,
		lock: r.lock, upgradeable: r.upgradeable, offers: r.offers, end: end,
		customResource: customResource, reporter: reporter, clients: clients, guard: guard,
		finder: &drivernamespace.Finder{
			Driver: r.driver, OperatorNamespace: r.operatorNamespace, Client: unguarded,
			Applier: objects.NewApplier(r.driver, unguarded, r.recorder, r.clock), Reporter: reporter, Recorder: r.recorder,
		},
		applier:   objects.NewApplier(r.driver, clients.objects, r.recorder, r.clock),
		finalizer: customresource.NewFinalizer(customResource, r.driver, r.operatorNamespace),
	}, nil
}

// isWritten reports whether a cycle for a mode writes conditions of a type.
func isWritten(prefix, conditionType string, mode customresource.Mode) bool {
	switch rest := strings.TrimPrefix(conditionType, prefix); {
	case strings.HasPrefix(rest, "Uninstall"), strings.HasPrefix(rest, "DriverUninstall"):
		return mode == customresource.Removed
	case strings.HasPrefix(rest, "ManagementState"):
		return mode == customresource.Unmanaged
	case strings.HasPrefix(rest, "DriverNamespace"):
		return mode == customresource.Managed || mode == customresource.Removed
	case strings.HasPrefix(rest, "OperatorLock"):
		return false // only while a controller reports it
	default:
		return mode == customresource.Managed
	}
}

// prepare finds the driver's namespace, makes sure that no other operator manages the driver, renders the driver's
// objects, and adds the finalizer. After that the operator may write to the driver. If another operator manages the
// driver, prepare waits until it is gone and returns false: the reconciler then starts a new cycle.
func (c *cycle) prepare(ctx context.Context, mode customresource.Mode) (ready bool, err error) {
	decision, err := c.finder.Decide(ctx)
	if err != nil {
		return false, err
	}
	other, err := c.lock.OtherHolder(ctx, c.finder.Client, decision.Believed)
	if err != nil {
		return false, err
	}
	if other != nil {
		return false, c.waitForOther(ctx, decision.Believed, other)
	}
	c.operand = render(c.driver, drivernamespace.NameIn(decision))
	if c.operand.manifests == nil && (decision.Create || decision.Refusal != nil && decision.Refusal.Lost) {
		return false, c.operand.err
	}
	c.namespace, err = c.finder.Settle(ctx, decision, c.operand.manifests, mode == customresource.Removed, c.idle)
	if err != nil {
		return false, err
	}
	if err := c.operand.recordNamespace(c.namespace); err != nil {
		return false, err
	}
	c.informers = c.clients.informersIn(c.namespace.Name)
	c.guard.Allow(c.namespace)
	return true, c.finalizer.Add(ctx, c.namespace.Annotations())
}

// waitForOther reports that another operator manages the driver, and waits until that operator is gone.
func (c *cycle) waitForOther(ctx context.Context, namespaces []string, other *leader.Holder) error {
	klog.InfoS("Waiting: another operator manages the driver", "clusterCSIDriver", c.driver.CSIName, "pod", other.Pod, "lock", other.Lock)
	if err := c.finder.ReportOtherOperator(ctx, fmt.Sprintf(
		"the operator in pod %s manages the driver: it holds the lock %s in namespace %s. "+
			"The driver is left to it until it is gone: delete its Subscription and its ClusterServiceVersion",
		other.Pod, other.Lock.Name, other.Lock.Namespace)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return runAll(ctx, c.idle, func(ctx context.Context) error {
		defer cancel()
		return wait.PollUntilContextCancel(ctx, leader.PollInterval, false, func(ctx context.Context) (bool, error) {
			other, err := c.lock.OtherHolder(ctx, c.finder.Client, namespaces)
			return other == nil, err
		})
	})
}

// idle runs the controllers for an operator that leaves the driver as it is, until ctx ends.
func (c *cycle) idle(ctx context.Context) error {
	return runAll(ctx,
		func(ctx context.Context) error { return c.runControllers(ctx, c.newLogLevelController()) },
		func(ctx context.Context) error { c.upgradeable.SetUntilDone(ctx, upgradeable.Settled); return nil },
	)
}

// leaveUnmanaged leaves the driver as it is, and reports that, until ctx ends.
func (c *cycle) leaveUnmanaged(ctx context.Context) error {
	spec, _, _, err := c.reporter.GetOperatorState()
	if err != nil {
		return err
	}
	condition := func(conditionType string, status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
		return applyoperatorv1.OperatorCondition().WithType(c.driver.ConditionPrefix + "ManagementState" + conditionType).
			WithStatus(status).WithReason(reason).WithMessage(message)
	}
	const unmanaged = "the operator does not manage the driver's objects while spec.managementState is Unmanaged"
	conditions := applyoperatorv1.OperatorStatus().WithConditions(
		condition(operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionUnknown, "Unmanaged", unmanaged),
		condition(operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse, "Unmanaged", unmanaged),
		condition(operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionFalse, "Unmanaged", unmanaged))
	if spec.ManagementState != operatorv1.Unmanaged {
		conditions = applyoperatorv1.OperatorStatus().WithConditions(
			condition(operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionTrue, "UnsupportedState", fmt.Sprintf(
				"spec.managementState is %q; want Managed, Unmanaged or Removed; the driver is left as it is", spec.ManagementState)))
	}
	if err := c.reporter.ApplyOperatorStatus(ctx, c.driver.ConditionPrefix+"ManagementState", conditions); err != nil {
		return err
	}
	return c.idle(ctx)
}

// orphan removes the finalizer of a ClusterCSIDriver that is deleted while it is unmanaged.
func (c *cycle) orphan(ctx context.Context) error {
	if err := c.finalizer.Remove(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// newLogLevelController returns the controller that sets the operator's own log level.
func (c *cycle) newLogLevelController() factory.Controller {
	return loglevel.NewClusterOperatorLoggingController(c.reporter, eventfilter.DropAll(c.recorder))
}

// newNamespaceController returns the controller that checks where this driver and others are.
func (c *cycle) newNamespaceController() factory.Controller {
	return c.finder.NewController(c.namespace, c.clock, c.end)
}

// watch returns watched objects for manifests.
func (c *cycle) watch(manifests []drivers.Manifest) []*objects.WatchedObject {
	var watched []*objects.WatchedObject
	for _, m := range manifests {
		watched = append(watched, c.informers.watch(m.Object))
	}
	return watched
}

// runControllers starts the informers, and runs controllers until ctx ends.
func (c *cycle) runControllers(ctx context.Context, controllers ...factory.Controller) error {
	if c.informers != nil {
		c.informers.start(ctx)
	}
	var tasks []func(context.Context) error
	for _, controller := range controllers {
		tasks = append(tasks, func(ctx context.Context) error {
			controller.Run(ctx, workers)
			return nil
		})
	}
	return runAll(ctx, tasks...)
}

// observeCluster returns the configuration of the cluster that the driver's settings depend on.
func (c *cycle) observeCluster() (drivers.Cluster, error) {
	infrastructure, err := c.informers.config.Config().V1().Infrastructures().Lister().Get("cluster")
	if err != nil {
		return drivers.Cluster{}, err
	}
	custom, err := c.customResource.Get()
	if err != nil {
		return drivers.Cluster{}, err
	}
	return drivers.Cluster{Infrastructure: infrastructure, ClusterCSIDriver: custom}, nil
}
