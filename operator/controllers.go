package operator

import (
	"context"
	"maps"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/loglevel"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/objects"
)

// workers is the number of workers of each controller. Each controller has a single queue key, so a second worker would
// never have work.
const workers = 1

// newLogLevelController returns the controller that sets the operator's own log level.
func (c *cycle) newLogLevelController() factory.Controller {
	return loglevel.NewClusterOperatorLoggingController(c.reporter, controllers.DropEvents(c.recorder))
}

// newNamespaceController returns the controller that checks where this driver and others are.
func (c *cycle) newNamespaceController() factory.Controller {
	return c.finder.NewController(c.namespace, c.clock, c.end)
}

// newAdoptionController returns the controller that adopts objects which could not be adopted at first.
func (c *cycle) newAdoptionController(manifests []drivers.Manifest, left bool) factory.Controller {
	return controllers.NewAdoption(c.driver.ConditionPrefix+"DriverAdoptionController", c.applier, manifests, left, c.reporter, c.recorder)
}

// newFinalizerController returns the controller that adds the finalizer again when somebody has removed it.
func (c *cycle) newFinalizerController() factory.Controller {
	return c.finalizer.NewController(c.driver.ConditionPrefix+"DriverFinalizerController", c.namespace.Annotations(), c.annotations, c.recorder)
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
	cluster := drivers.Cluster{Infrastructure: infrastructure, ClusterCSIDriver: custom, Environment: c.environment()}
	if c.cloud != nil {
		cluster.CloudConfig = c.cloud.Content()
	}
	return cluster, nil
}

// environment returns the variables that an administrator has set for the operator.
func (c *cycle) environment() map[string]string {
	environment := map[string]string{}
	for _, name := range c.driver.Operator.Env {
		if value := c.getenv(name); value != "" {
			environment[name] = value
		}
	}
	return environment
}

// observeCloud returns the cluster's information about its cloud, without credentials.
func (c *cycle) observeCloud() (drivers.Cloud, error) {
	infrastructure, err := c.informers.config.Config().V1().Infrastructures().Lister().Get("cluster")
	if err != nil {
		return drivers.Cloud{}, err
	}
	custom, err := c.customResource.Get()
	if err != nil {
		return drivers.Cloud{}, err
	}
	cloud := drivers.Cloud{Infrastructure: infrastructure, Namespace: c.namespace.Name, DriverConfig: custom.Spec.DriverConfig}
	trusted, err := c.trustedCA().Lister().ConfigMaps(c.namespace.Name).Get(c.driver.TrustedCABundle)
	if err != nil && !apierrors.IsNotFound(err) {
		return drivers.Cloud{}, err
	}
	if err == nil {
		cloud.TrustedCABundle = trusted.Data[drivers.TrustedCAKey]
	}
	if !c.usesCloudConfig() {
		return cloud, nil
	}
	config, err := c.informers.configMap(drivers.CloudConfigNamespace, drivers.CloudConfigName).Lister().ConfigMaps(drivers.CloudConfigNamespace).Get(drivers.CloudConfigName)
	if apierrors.IsNotFound(err) {
		return cloud, nil
	}
	if err != nil {
		return drivers.Cloud{}, err
	}
	cloud.Config, cloud.CABundle = config.Data[drivers.CloudConfigKey], config.Data[drivers.CABundleKey]
	return cloud, nil
}

// observeCloudWith returns what observeCloud returns, with credentials: the content of a Secret in the driver's namespace, or nil while
// there is no such Secret.
func (c *cycle) observeCloudWith(secret string) (drivers.Cloud, error) {
	cloud, err := c.observeCloud()
	if err != nil {
		return drivers.Cloud{}, err
	}
	credentials, err := c.informers.secret(secret).Lister().Secrets(c.namespace.Name).Get(secret)
	if apierrors.IsNotFound(err) {
		return cloud, nil
	}
	if err != nil {
		return drivers.Cloud{}, err
	}
	cloud.Credentials = map[string][]byte{}
	maps.Copy(cloud.Credentials, credentials.Data)
	return cloud, nil
}

// trustedCA returns the informer of the driver's ConfigMap with the certificate authorities that the cluster trusts.
func (c *cycle) trustedCA() coreinformers.ConfigMapInformer {
	return c.informers.named(c.driver.TrustedCABundle).Core().V1().ConfigMaps()
}

// usesCloudConfig reports whether the operator reads the configuration of the cloud. If it does not, it has no permission to read it.
func (c *cycle) usesCloudConfig() bool {
	return c.driver.Configuration != nil || c.driver.CloudConfig != nil
}

// cloudInformers returns the informers of the objects that observeCloud reads.
func (c *cycle) cloudInformers() []factory.Informer {
	informers := []factory.Informer{c.informers.config.Config().V1().Infrastructures().Informer(), c.trustedCA().Informer()}
	if c.usesCloudConfig() {
		informers = append(informers, c.informers.configMap(drivers.CloudConfigNamespace, drivers.CloudConfigName).Informer())
	}
	return informers
}

// runAll runs tasks until ctx ends or one of them fails, and waits for all of them.
func runAll(ctx context.Context, tasks ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		group.Go(func() error { return task(ctx) })
	}
	return group.Wait()
}
