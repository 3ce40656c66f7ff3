package operator

import (
	"context"
	"fmt"
	"sync"

	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/management"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/leader"
	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/operator/transport"
)

// Process holds what the operator needs from its program.
type Process struct {
	// KubeConfig connects to the cluster, with the rate limits for requests about the driver. API controllers set their
	// own limits.
	KubeConfig *rest.Config
	// EventRecorder records what the operator does.
	EventRecorder events.Recorder
	// OperatorNamespace is where the operator runs.
	OperatorNamespace string
	Clock             clock.Clock
	// Permanent says that the driver is a part of the platform, as the cluster storage operator runs it: it cannot be
	// removed.
	Permanent bool
	// Own is the driver's code besides its definition.
	Own controller.Own
	// Metrics are served by the program.
	Metrics *metrics.Metrics
	// Getenv returns the value of an environment variable, "" if it is not set; usually os.Getenv. The variables hold
	// the driver's images, the roles of its CredentialsRequests, and the settings in drivers.Operator.Env.
	Getenv func(name string) string
}

// An APIController serves an API that comes with a driver, such as SharedVolumes. It runs whether or not the driver is
// installed.
type APIController struct {
	// Prepare, if set, runs before the operator adopts anything, while the objects still show what an earlier operator created.
	Prepare func(ctx context.Context, cfg *rest.Config) error
	// Run runs the controller until ctx ends.
	Run func(ctx context.Context, cfg *rest.Config) error
}

// notRemovable keeps library-go from removing anything, because package uninstall removes the driver in its own order.
// It is called once, because it sets a variable that the controllers of all operators in the process read.
var notRemovable = sync.OnceFunc(management.SetOperatorNotRemovable)

// Run runs the operator of one driver until ctx ends. It returns an error if it cannot start, or if an API controller
// fails. version is the operator's version for the status of the ClusterCSIDriver.
func Run(ctx context.Context, driver drivers.Driver, version string, process *Process, apis ...APIController) error {
	notRemovable()
	cfg := transport.WithDeadline(process.KubeConfig)

	// unowned.Own also runs while the operator waits for the lock, because the operator can be removed meanwhile.
	unowned, err := controllers.NewUnowned(cfg, driver, process.OperatorNamespace, process.Getenv(controllers.OperatorConditionEnv))
	if err != nil {
		return err
	}
	return runAll(ctx, unowned.Own, func(ctx context.Context) error { return runDriver(ctx, cfg, driver, version, process, apis) })
}

// runDriver waits for the lock, and then runs the controllers until ctx ends.
func runDriver(ctx context.Context, cfg *rest.Config, driver drivers.Driver, version string, started *Process, apis []APIController) error {
	lock := leader.NewLock(driver, started.OperatorNamespace, cfg, started.Metrics)
	if err := lock.Acquire(ctx); ctx.Err() != nil {
		return nil // shut down while waiting
	} else if err != nil {
		return fmt.Errorf("waiting for the lock %s/%s: %w", started.OperatorNamespace, driver.Operator.Lock, err)
	}
	klog.InfoS("Starting the operator", "driver", driver.CSIName, "namespace", started.OperatorNamespace, "version", version)
	started.Metrics.BlockingPods.WithLabelValues(driver.CSIName).Set(0)

	upgradeableCondition, err := controllers.NewUpgradeableCondition(cfg, func(isUpgradeable bool) {
		value := 0.0
		if isUpgradeable {
			value = 1
		}
		started.Metrics.Upgradeable.WithLabelValues(driver.CSIName).Set(value)
	})
	if err != nil {
		return err
	}
	degraded, err := controllers.NewOperatorDegraded(cfg)
	if err != nil {
		return err
	}
	for _, api := range apis {
		if api.Prepare == nil {
			continue
		}
		if err := api.Prepare(ctx, cfg); ctx.Err() != nil {
			return nil // shut down meanwhile
		} else if err != nil {
			return err
		}
	}
	customResource, err := clustercsidriver.Start(ctx, cfg, driver.CSIName, started.Clock)
	if err != nil {
		return err
	}

	reconciler := &reconciler{
		version: version, cfg: cfg, customResource: customResource, apiWait: leader.NewAPIWait(driver),
		process: process{
			driver: driver, own: started.Own, operatorNamespace: started.OperatorNamespace, permanent: started.Permanent,
			recorder: started.EventRecorder, clock: started.Clock, metrics: started.Metrics, getenv: started.Getenv,
			lock: lock, upgradeable: upgradeableCondition, degraded: degraded, offers: &controllers.Offers{},
		},
	}

	tasks := []func(context.Context) error{reconciler.run}
	for _, api := range apis {
		tasks = append(tasks, func(ctx context.Context) error {
			if err := reconciler.waitForOtherOperators(ctx); ctx.Err() != nil {
				return nil // shut down while waiting
			} else if err != nil {
				return err
			}
			return api.Run(ctx, cfg)
		})
	}
	return runAll(ctx, tasks...)
}

// waitForOtherOperators waits until no other operator of the driver is active. It checks the namespaces in which cluster-scoped objects
// show operators of the driver.
func (r *reconciler) waitForOtherOperators(ctx context.Context) error {
	c, err := client.New(r.cfg, client.Options{})
	if err != nil {
		return err
	}
	return r.apiWait.Until(ctx, r.lock, c, func(ctx context.Context) ([]string, error) {
		custom, err := r.customResource.Metadata()
		if err != nil {
			return nil, err
		}
		observed, err := placement.Observe(ctx, c, r.driver, r.operatorNamespace, custom)
		if err != nil {
			return nil, err
		}
		return placement.Decide(r.driver, observed).Believed, nil
	})
}
