package clusterstorage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/loglevel"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/operator/objects"
)

// minSyncInterval is the shortest time between two syncs. An installation causes dozens of events a second.
const minSyncInterval = 200 * time.Millisecond

// A controller syncs the cluster. It holds the state that outlives a sync.
type controller struct {
	drivers   []drivers.Driver // the drivers that the cluster storage operator runs on some platform
	process   Process
	cluster   *cluster
	writer    *objects.Writer
	operators map[string]*driverOperator // by the driver's name
	handOver  HandOver                   // nil if somebody else hands drivers over
	handOvers map[string]*handOverState  // by the driver's name
	waiting   string                     // the log message of the last sync's wait
}

// run syncs until ctx ends: after each change in the cluster, when the summary changes with time alone, and with
// backoff after a failure.
func (c *controller) run(ctx context.Context) error {
	initial := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: 30 * time.Second, Jitter: 0.1}
	backoff := initial
	for ctx.Err() == nil {
		next, err := c.sync(ctx)
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to sync")
			next = backoff.Step()
		} else {
			backoff = initial
		}
		if !c.pause(ctx, minSyncInterval) {
			return nil
		}
		timer := c.process.Clock.NewTimer(next)
		select {
		case <-c.cluster.changed:
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// pause waits for a duration. It returns false if ctx ends before that.
func (c *controller) pause(ctx context.Context, duration time.Duration) bool {
	select {
	case <-time.After(duration):
		return true
	case <-ctx.Done():
		return false
	}
}

// sync observes the cluster, applies missing objects, and reports. It returns the time until the next sync if nothing
// changes.
func (c *controller) sync(ctx context.Context) (next time.Duration, err error) {
	o, err := c.cluster.observe(c.process.Version)
	if errors.Is(err, errNoStorage) {
		c.wait(err.Error())
		return resync, nil
	}
	if err != nil {
		return 0, err
	}
	c.wait("")
	if err := loglevel.SetLogLevel(o.storage.Spec.OperatorLogLevel); err != nil {
		klog.ErrorS(err, "Failed to set the log level", "storage", o.storage.Name, "operatorLogLevel", o.storage.Spec.OperatorLogLevel)
	}
	if o.storage.Spec.ManagementState == operatorv1.Unmanaged {
		return resync, c.writeClusterOperator(ctx, o, unmanaged(o.clusterOperator, c.process.Clock.Now()))
	}
	choices := choose(c.drivers, o)
	status := o.storage.Status.OperatorStatus.DeepCopy()
	var states []driverState
	var errs []error
	for _, d := range chosen(choices) {
		state := c.syncDriver(ctx, d, o, &status.Generations)
		states, errs = append(states, state), append(errs, state.err)
	}
	if ctx.Err() != nil {
		return 0, nil // work that the shutdown interrupted has not failed
	}
	status.ObservedGeneration = o.storage.Generation
	now := c.process.Clock.Now()
	status.Conditions = merge(status.Conditions, conditionsOf(o, choices, states, c.process.Version), now)
	status.Version = c.process.Version
	if err := c.writeStorage(ctx, o.storage, status); err != nil {
		return 0, err
	}
	summary, next := summarize(o.clusterOperator, status.Conditions, now)
	for _, state := range states {
		next = min(next, state.succession.after)
	}
	summary.Versions = versions(summary.Versions, states, c.process.Version)
	summary.RelatedObjects = relatedObjects(states, summary.RelatedObjects)
	errs = append(errs, c.writeClusterOperator(ctx, o, summary))
	return next, errors.Join(errs...)
}

// syncDriver applies a driver's operator and returns its state.
func (c *controller) syncDriver(ctx context.Context, d drivers.Driver, o observed, generations *[]operatorv1.GenerationStatus) driverState {
	state := driverState{driver: d, customResource: o.customResources[d.CSIName], succession: succession{after: resync}}
	if foreign(d, o) {
		state.foreign = true
		return state
	}
	var old []oldCustomResource
	if state.customResource == nil {
		if old, state.err = c.readOld(ctx, d); state.err != nil {
			return state
		}
	}
	found, failed := predecessor.Observe(ctx, c.cluster.objects, d, o.bindings)
	if failed != nil { // a second operator may be running
		state.err = fmt.Errorf("looking for operators of driver %s that OLM runs: %w", d.CSIName, failed)
		return state
	}
	if state.succession, failed = c.succeed(ctx, d, o, found, old); state.blocked {
		state.err = failed
		return state
	}
	state.first = o.csiDrivers[d.CSIName] != nil && c.operators[d.Name] == nil && !predecessor.Succeeded(d, o.bindings)
	running := c.operators[d.Name]
	if running == nil {
		if running, state.err = c.newDriverOperator(ctx, d); state.err != nil {
			return state
		}
		c.operators[d.Name] = running
		klog.InfoS("Running the operator of a driver", "driver", d.CSIName, "deployment", klog.KRef(drivers.ClusterStorageNamespace, d.Operator.Name))
	}
	for _, object := range slices.Concat(running.objects, []*objects.WatchedObject{running.deployment}) {
		state.objects = append(state.objects, object.Desired)
	}
	var initial *unstructured.Unstructured
	if state.customResource == nil {
		initial = customResource(d, old)
	}
	state.deployment, state.err = c.apply(ctx, running, initial, o.proxy, generations)
	state.err = errors.Join(state.err, failed)
	return state
}

// wait logs each wait of the operator once.
func (c *controller) wait(forWhat string) {
	if forWhat != "" && forWhat != c.waiting {
		klog.InfoS("Waiting", "reason", forWhat)
	}
	c.waiting = forWhat
}

// A driverState is the state of a driver and its operator in one sync.
type driverState struct {
	driver  drivers.Driver
	foreign bool // somebody else made the CSIDriver, so nothing was done
	succession
	first          bool                         // the operator starts for the first time, but the driver exists already
	objects        []*unstructured.Unstructured // of the operator, desired
	deployment     *appsv1.Deployment           // of the operator; nil if there is none
	customResource *operatorv1.ClusterCSIDriver // nil if there was none
	err            error
}
