package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/drivernamespace"
	"github.com/berth-csi/berth/operator/objects"
	"github.com/berth-csi/berth/operator/uninstall"
)

// A cycle runs the controllers for one desired state. It holds the clients and informers that they share, and passes
// them to the controllers.
type cycle struct {
	*process
	end        func()       // ends the cycle; the reconciler then starts a new one
	standsBack *atomic.Bool // set while another operator has a driver for the same volumes; the conditions then stay as they are

	customResource *clustercsidriver.Client
	reporter       *clustercsidriver.Reporter
	clients        *clients
	guard          *drivernamespace.Guard
	finder         *drivernamespace.Finder
	applier        *objects.Applier
	finalizer      *clustercsidriver.Finalizer

	// These are known once prepare has returned.
	namespace drivernamespace.Namespace
	informers *informerSet
	operand   *operand
	cloud     *controllers.CloudConfig // nil if the driver does not need the cloud's configuration
}

func (r *reconciler) newCycle(mode clustercsidriver.Mode, end func()) (*cycle, error) {
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
	standsBack := &atomic.Bool{}
	subjects := clustercsidriver.NewSubjects(r.driver)
	reporter := clustercsidriver.NewReporter(customResource, customResource.Resource(), clustercsidriver.ReporterOptions{
		Name: r.driver.CSIName, FieldManager: r.driver.Operator.Name, Version: r.version,
		IsCurrent: func(conditionType string) bool {
			return standsBack.Load() || isWritten(r.driver.ConditionPrefix, conditionType, mode)
		},
		Subjects: func() *clustercsidriver.Subjects {
			if standsBack.Load() {
				return nil
			}
			return subjects
		},
		Show: func(conditions []operatorv1.OperatorCondition) { r.metrics.SetConditions(r.driver.CSIName, conditions) },
	})
	return &cycle{
		process: &r.process, end: end, standsBack: standsBack,
		customResource: customResource, reporter: reporter, clients: clients, guard: guard,
		finder: &drivernamespace.Finder{
			Driver: r.driver, OperatorNamespace: r.operatorNamespace, Removing: mode == clustercsidriver.Removed, Client: unguarded,
			Applier: objects.NewApplier(r.driver, unguarded, r.recorder, r.clock, r.metrics), Reporter: reporter, Recorder: r.recorder,
		},
		applier:   objects.NewApplier(r.driver, clients.objects, r.recorder, r.clock, r.metrics),
		finalizer: clustercsidriver.NewFinalizer(customResource, r.driver, r.operatorNamespace, r.permanent),
	}, nil
}

// run runs the controllers for a mode until ctx ends.
func (c *cycle) run(ctx context.Context, mode clustercsidriver.Mode) error {
	if left, err := c.leaveToOwner(ctx); left || err != nil {
		return err
	}
	err := c.runMode(ctx, mode)
	if objects.Refused(err) && ctx.Err() == nil {
		c.reportRefusal(ctx, err)
	}
	return err
}

// refused is the name of the condition about a refused write that has to succeed before any controller can start.
const refused = "Reconcile"

// reportRefusal reports the refusal of such a write in that condition. The next cycle removes the condition if it gets further.
func (c *cycle) reportRefusal(ctx context.Context, refusal error) {
	name := c.driver.ConditionPrefix + refused
	err := c.reporter.ApplyOperatorStatus(ctx, name, applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(name+operatorv1.OperatorStatusTypeDegraded).WithStatus(operatorv1.ConditionTrue).
			WithReason("RequestRefused").WithMessage(fmt.Sprintf("the driver is left as it is, because the API server refuses a request that has to come first: %v", refusal))))
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Failed to report a refused request", "clusterCSIDriver", c.driver.CSIName)
	}
}

func (c *cycle) runMode(ctx context.Context, mode clustercsidriver.Mode) error {
	switch mode {
	case clustercsidriver.Managed:
		if ready, err := c.prepare(ctx); !ready || err != nil {
			return err
		}
		return c.install(ctx)
	case clustercsidriver.Kept:
		if ready, err := c.prepare(ctx); !ready || err != nil {
			return err
		}
		return runAll(ctx, c.refuseRemoval, c.install)
	case clustercsidriver.Removed:
		if ready, err := c.prepare(ctx); !ready || err != nil {
			return err
		}
		return c.uninstall(ctx)
	case clustercsidriver.Unmanaged:
		return c.leaveUnmanaged(ctx)
	default: // Orphaned
		return c.orphan(ctx)
	}
}

// prepare finds the driver's namespace, makes sure that no other operator manages the driver, renders the driver's objects, and adds the
// finalizer. After that the operator may write to the driver. If another operator manages the driver, or has a driver of its own for the
// same volumes, prepare waits until that may have changed, and returns false or an error: the reconciler then starts a new cycle.
func (c *cycle) prepare(ctx context.Context) (ready bool, err error) {
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
	c.standsBack.Store(decision.Refusal != nil && decision.Refusal.Reason == placement.OtherDriver)
	c.operand = render(c.driver, c.getenv, drivernamespace.NameIn(decision), c.permanent)
	if c.operand.manifests == nil && (decision.Create || decision.Left != "" || decision.Refusal != nil && decision.Refusal.Lost) {
		return false, c.operand.err
	}
	c.namespace, err = c.finder.Settle(ctx, decision, slices.Concat(c.operand.manifests, c.operand.retired), c.idle)
	if err != nil {
		return false, err
	}
	if err := c.operand.recordNamespace(c.namespace); err != nil {
		return false, err
	}
	c.informers = c.clients.informersIn(c.namespace.Name)
	c.guard.Allow(c.namespace)
	return true, c.finalizer.Add(ctx, c.annotations)
}

// annotations returns the annotations that record the driver's namespace and objects, given the current annotations of the
// ClusterCSIDriver.
func (c *cycle) annotations(current map[string]string) map[string]string {
	annotations := c.operand.record(current)
	maps.Copy(annotations, c.namespace.Annotations())
	return annotations
}

// isWritten reports whether a cycle for a mode writes conditions of a type.
func isWritten(prefix, conditionType string, mode clustercsidriver.Mode) bool {
	switch rest := strings.TrimPrefix(conditionType, prefix); {
	case strings.HasPrefix(rest, "Uninstall"), strings.HasPrefix(rest, "DriverUninstall"):
		return mode == clustercsidriver.Removed
	case strings.HasPrefix(rest, "ManagementState"):
		return mode == clustercsidriver.Unmanaged || mode == clustercsidriver.Kept
	case strings.HasPrefix(rest, "DriverNamespace"), strings.HasPrefix(rest, "DriverAdoption"):
		return mode.Installs() || mode == clustercsidriver.Removed
	case strings.HasPrefix(rest, "OperatorLock"), strings.HasPrefix(rest, refused):
		return false // the reporter keeps these only while this cycle reports them
	default:
		return mode.Installs()
	}
}

// uninstall removes the driver and, if its ClusterCSIDriver is being deleted, the finalizer. It runs until ctx ends.
func (c *cycle) uninstall(ctx context.Context) error {
	if c.operand.manifests == nil {
		return c.operand.err
	}
	manifests, retired, lostNamespace := c.operand.manifests, c.operand.retired, ""
	if c.namespace.Lost {
		lostNamespace = c.namespace.Name
		isLost := func(m drivers.Manifest) bool { return m.Object.GetNamespace() == lostNamespace || m.Kept() }
		manifests, retired = slices.DeleteFunc(slices.Clone(manifests), isLost), slices.DeleteFunc(slices.Clone(retired), isLost)
	}
	// Adoption removes the owner references to an earlier operator's API: deleting the API must not delete the driver while volumes are
	// in use.
	unadopted, err := c.applier.Unadopted(ctx, manifests)
	if err != nil {
		return err
	}
	refused, err := c.applier.Adopt(ctx, unadopted)
	if err != nil {
		return err
	}
	classes, err := controllers.ExistingClasses(ctx, c.driver, c.clients.kube.StorageV1().RESTClient())
	if err != nil {
		return err
	}
	custom, err := c.reporter.GetObjectMeta()
	if err != nil {
		return err
	}
	unknown := controllers.UnknownObjects(custom.Annotations[controllers.ObjectsRecordAnnotation], c.operand.manifests, c.operand.retired)
	watched := c.watch(slices.Concat(manifests, classes))
	for _, m := range retired { // the operator has no permission to watch them, and nobody creates them any more
		watched = append(watched, objects.NewWatchedObject(m.Object, nil))
	}
	defer c.metrics.BlockingPods.WithLabelValues(c.driver.CSIName).Set(0)
	return c.runControllers(ctx,
		c.newLogLevelController(),
		c.newNamespaceController(),
		c.newAdoptionController(manifests, refused != nil),
		c.newFinalizerController(),
		uninstall.NewController(uninstall.Options{
			Driver: c.driver, Objects: watched, LostNamespace: lostNamespace, Unknown: unknown,
			Kube: c.clients.kube, Snapshots: c.clients.snapshots, Reader: c.clients.objects, Applier: c.applier, Finalizer: c.finalizer,
			Reporter: c.reporter, Upgradeable: c.upgradeable, Recorder: c.recorder, Metrics: c.metrics, Clock: c.clock,
		}),
	)
}

// ownerInterval is how often an operator checks whether the driver still belongs to another operator.
const ownerInterval = 10 * time.Second

// leaveToOwner reports whether the driver belongs to another operator. If so, it returns only when that has changed or ctx ends.
// Meanwhile, the operator writes neither the driver's objects nor the ClusterCSIDriver: the cluster storage operator copies each
// condition of the ClusterCSIDriver to the ClusterOperator storage, where this operator's conditions would stay after the operator is
// removed.
//
// The operator of a permanent driver never leaves the driver to another operator, because the cluster needs exactly that operator.
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
