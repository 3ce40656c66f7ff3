package operator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/openshift/library-go/pkg/operator/events"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/drivernamespace"
	"github.com/berth-csi/berth/operator/leader"
	"github.com/berth-csi/berth/operator/metrics"
)

// A reconciler runs one cycle after the other. It holds the state that outlives a cycle.
type reconciler struct {
	process
	version        string
	cfg            *rest.Config
	customResource *clustercsidriver.Watch
	apiWait        *leader.APIWait
}

// process holds what stays the same from cycle to cycle.
type process struct {
	driver            drivers.Driver
	own               controller.Own // the driver's code besides its definition
	operatorNamespace string         // the driver may be in another namespace
	permanent         bool           // the driver cannot be removed
	recorder          events.Recorder
	clock             clock.Clock
	metrics           *metrics.Metrics
	getenv            func(name string) string
	lock              *leader.Lock
	upgradeable       *controllers.UpgradeableCondition
	degraded          *controllers.OperatorDegraded
	offers            *controllers.Offers
}

// run reconciles the desired state of the ClusterCSIDriver until ctx ends. When the desired state changes, all controllers for the old
// state end before any controller for the new state starts. So no two controllers work against each other, and no controller's memory of
// a deleted object affects a new one.
func (r *reconciler) run(ctx context.Context) error {
	for ctx.Err() == nil {
		desired := r.customResource.DesiredState(r.permanent)
		klog.InfoS("Reconciling", "clusterCSIDriver", r.driver.CSIName, "desiredState", desired.Mode, "uid", desired.UID)
		current, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { r.reconcile(current, desired.Mode) })

		for r.customResource.DesiredState(r.permanent) == desired && ctx.Err() == nil {
			select {
			case <-r.customResource.Changed():
			case <-ctx.Done():
			}
		}
		cancel()
		running.Wait()
	}
	return nil
}

// reconcile runs cycles for a mode until ctx ends. It retries a cycle that fails, with backoff.
func (r *reconciler) reconcile(ctx context.Context, mode clustercsidriver.Mode) {
	missing := 0.0
	if mode == clustercsidriver.Absent {
		missing = 1
	}
	r.metrics.CustomResourceMissing.WithLabelValues(r.driver.CSIName).Set(missing)
	if mode == clustercsidriver.Absent {
		r.metrics.SetConditions(r.driver.CSIName, nil)
		if r.own.Withdraw != nil {
			r.own.Withdraw()
		}
		_ = runAll(ctx, r.remind, func(ctx context.Context) error { r.upgradeable.SetUntilDone(ctx, controllers.Settled); return nil })
		return
	}
	initial := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: 30 * time.Second, Jitter: 0.1}
	backoff := initial
	for ctx.Err() == nil {
		started := r.clock.Now()
		if err := r.runCycle(ctx, mode); err != nil && !errors.Is(err, drivernamespace.ErrUnknown) && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to reconcile", "clusterCSIDriver", r.driver.CSIName, "desiredState", mode)
		}
		if r.clock.Since(started) > time.Minute {
			backoff = initial // the cycle worked for a while
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Step()):
		}
	}
}

// runCycle runs the controllers for a mode until ctx ends, or until the cycle has to start again because the
// configuration of its clients has changed.
func (r *reconciler) runCycle(ctx context.Context, mode clustercsidriver.Mode) error {
	ctx, cancel := context.WithCancel(ctx) // also ends the informers
	defer cancel()
	c, err := r.newCycle(mode, cancel)
	if err != nil {
		return err
	}
	defer c.customResource.Close()
	return runAll(ctx,
		c.reporter.Run,
		func(ctx context.Context) error { return r.apiWait.Report(ctx, c.reporter) },
		func(ctx context.Context) error {
			defer cancel()
			return c.run(ctx, mode)
		},
	)
}

// remindInterval is how often the operator repeats an event that must not expire. Events expire an hour after they were
// last recorded, unless the API server has another --event-ttl, such as OpenShift's, of three hours.
const remindInterval = 50 * time.Minute

// remind records that there is no ClusterCSIDriver, in an event about the operator's Deployment that stays until ctx
// ends. There is also an alert for that, but it cannot fire before the cluster's monitoring reads the operator's
// metrics.
func (r *reconciler) remind(ctx context.Context) error {
	for ctx.Err() == nil {
		r.recorder.Warning("ClusterCSIDriverMissing", r.reminder(ctx))
		select {
		case <-r.clock.After(remindInterval):
		case <-ctx.Done():
		}
	}
	return nil
}

func (r *reconciler) reminder(ctx context.Context) string {
	reminder := fmt.Sprintf("There is no ClusterCSIDriver %[1]s, so this operator neither installs the driver nor manages an existing one. "+
		`To make it do so, run: echo '{"apiVersion": "operator.openshift.io/v1", "kind": "ClusterCSIDriver", "metadata": {"name": "%[1]s"}, `+
		`"spec": {"managementState": "Managed"}}' | oc create -f -`, r.driver.CSIName)
	if monitored, err := r.isMonitored(ctx); err != nil {
		klog.ErrorS(err, "Failed to find out whether the operator's namespace is monitored", "namespace", r.operatorNamespace)
	} else if !monitored {
		reminder += fmt.Sprintf(". To also get alerts, make the cluster's monitoring read the metrics of this namespace, and of all operators in it: "+
			"%s", escape.Command("oc label namespace %s %s", r.operatorNamespace, drivers.MonitoringLabel+"=true"))
	}
	return reminder
}

// isMonitored reports whether the cluster's monitoring reads the operator's metrics.
func (r *reconciler) isMonitored(ctx context.Context) (bool, error) {
	c, err := client.New(r.cfg, client.Options{})
	if err != nil {
		return false, err
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Get(ctx, client.ObjectKey{Name: r.operatorNamespace}, namespace); err != nil {
		return false, fmt.Errorf("reading the operator's namespace: %w", err)
	}
	return namespace.Labels[drivers.MonitoringLabel] == "true", nil
}
