package operator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/objects"
)

// install keeps the driver's objects as the driver's definition says, until ctx ends. The controllers run side by side, but the
// controllers of the driver's pods wait for the pods' prerequisites.
func (c *cycle) install(ctx context.Context) error {
	if err := c.operand.err; err != nil {
		return runAll(ctx, func(ctx context.Context) error { return c.reportManifests(ctx, err) }, c.idle)
	}
	classes, err := c.waitForOffers(ctx, c.operand.manifests)
	if err != nil || ctx.Err() != nil {
		return err
	}
	manifests := append(c.operand.manifests, classes...)
	components := componentsOf(c.driver.ConditionPrefix, manifests)
	c.reporter.Expect(components)

	needed := c.prerequisites(manifests, components)
	workloads := c.workloads(ctx, components, needed)
	c.informers.start(ctx) // the caches sync during the adoption
	adopted, err := c.adopt(ctx, manifests)
	if err != nil {
		return err
	}
	reporting := c.reporting(manifests, classes, adopted)
	return runAll(ctx,
		func(ctx context.Context) error { return c.reportManifests(ctx, nil) },
		func(ctx context.Context) error { return c.runControllers(ctx, reporting...) },
		func(ctx context.Context) error { return c.runControllers(ctx, needed.controllers...) },
		func(ctx context.Context) error {
			if !needed.wait(ctx) {
				return nil
			}
			return c.runControllers(ctx, workloads...)
		},
	)
}

// prerequisites are the controllers of the objects that the driver's pods need before they start.
type prerequisites struct {
	controllers []factory.Controller
	ready       []<-chan struct{}  // closed once the pods may start
	triggers    []factory.Informer // of objects whose changes roll the pods
	config      *controllers.ConfigObserver
}

// wait waits until all prerequisites are ready. It returns false if ctx ends before that.
func (p *prerequisites) wait(ctx context.Context) bool {
	for _, ready := range p.ready {
		select {
		case <-ready:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (c *cycle) prerequisites(manifests []drivers.Manifest, components []clustercsidriver.Component) *prerequisites {
	static := c.newStaticResourceController(manifests)
	config := controllers.NewConfigObserver(c.driver.ConditionPrefix+"DriverCSIConfigObserverController", c.reporter,
		c.customResource.Resource(), c.driver.CSIName, c.informers.config, c.recorder)
	retired := controllers.NewRetirement(controllers.RetirementOptions{
		Driver: c.driver, Namespace: c.namespace.Name, Own: manifests, Retired: c.operand.retired,
		Reader: c.clients.objects, Applier: c.applier, Reporter: c.reporter, Recorder: c.recorder,
	})
	p := &prerequisites{config: config, ready: []<-chan struct{}{static.Ready(), config.Ready(), retired.Ready()}}
	if c.cloud = c.newCloudConfigController(manifests); c.cloud != nil {
		p.ready, p.triggers, p.controllers = append(p.ready, c.cloud.Ready()), c.cloud.Informers(), append(p.controllers, c.cloud)
	}
	own, filled := c.newOwnControllers(manifests)
	for _, secret := range filled {
		p.ready, p.triggers = append(p.ready, secret.ready.Done()), append(p.triggers, secret.Informers()...)
	}
	p.controllers = slices.Concat(p.controllers, own, c.newCredentialsRequestControllers(components), c.newClassControllers(manifests),
		[]factory.Controller{
			config, retired, static,
			controllers.NewSettings(c.driver, c.observeCluster, c.informers.config.Config().V1().Infrastructures().Informer(), c.reporter, c.recorder),
		})
	return p
}

// workloads returns the controllers of the driver's pods.
func (c *cycle) workloads(ctx context.Context, components []clustercsidriver.Component, needed *prerequisites) []factory.Controller {
	return controllers.Workloads{
		Driver: c.driver, Namespace: c.namespace.Name, Kube: c.clients.kube, Reader: c.clients.objects, OperatorClient: needed.config.Client(),
		Config: c.informers.config, Named: c.informers.named, Nodes: c.informers.nodes, Observe: c.observeCluster, Triggers: needed.triggers, Recorder: c.recorder,
	}.NewControllers(ctx, components)
}

// adopted is the outcome of an adoption.
type adopted struct {
	any  bool // there were objects of an earlier operator
	left bool // the API server refused the adoption of some
}

// adopt adopts the objects of earlier operators.
func (c *cycle) adopt(ctx context.Context, manifests []drivers.Manifest) (adopted, error) {
	unadopted, err := c.applier.Unadopted(ctx, manifests)
	if err != nil {
		return adopted{}, err
	}
	adopting := len(unadopted) > 0 || c.upgradeable.Has(ctx, controllers.Adopting) // set by an operator that was interrupted
	if adopting {
		c.upgradeable.TrySet(ctx, controllers.Adopting)
	}
	refused, err := c.applier.Adopt(ctx, unadopted)
	return adopted{any: adopting, left: refused != nil}, err
}

// reporting returns the controllers that no other controller waits for.
func (c *cycle) reporting(manifests, classes []drivers.Manifest, adopted adopted) []factory.Controller {
	reporting := []factory.Controller{
		c.newLogLevelController(),
		c.newNamespaceController(),
		c.newAdoptionController(manifests, adopted.left),
		c.newFinalizerController(),
		controllers.NewUpgradeable(c.driver.ConditionPrefix+"UpgradeableController", c.upgradeable, adopted.any, c.reporter, c.clock, c.recorder),
	}
	if c.driver.Backend != nil {
		reporting = append(reporting, c.newBackendController(true, classes, c.end))
	}
	return reporting
}

// componentsOf returns the components that have their own controllers.
func componentsOf(prefix string, manifests []drivers.Manifest) []clustercsidriver.Component {
	var components []clustercsidriver.Component
	add := func(kind string, name func(i int, m drivers.Manifest) string) {
		for i, m := range drivers.OfKind(manifests, kind) {
			components = append(components, clustercsidriver.Component{Name: prefix + name(i, m), Manifest: m})
		}
	}
	// Other components of OpenShift rely on the controller name of the first object of each kind.
	numbered := func(name string) func(int, drivers.Manifest) string {
		return func(i int, _ drivers.Manifest) string {
			if i == 0 {
				return name
			}
			return fmt.Sprintf("%s%d", name, i+1)
		}
	}
	add("Deployment", numbered("DriverControllerServiceController"))
	add("DaemonSet", numbered("DriverNodeServiceController"))
	add("CredentialsRequest", func(_ int, m drivers.Manifest) string {
		user := path.Dir(m.File) // such as "controller" or "node"
		return strings.ToUpper(user[:1]) + user[1:] + "CredentialsRequestController"
	})
	return components
}

// newClassControllers returns the controllers of the StorageClasses and of those VolumeSnapshotClasses that depend on more than their
// assets, if there are any.
func (c *cycle) newClassControllers(manifests []drivers.Manifest) (found []factory.Controller) {
	if classes := drivers.OfKind(manifests, "StorageClass"); len(classes) > 0 {
		found = append(found, c.newStorageClassController(classes))
	}
	if c.snapshotClassesDiffer() {
		found = append(found, c.newSnapshotClassController(manifests))
	}
	return found
}

// classOptions returns the dependencies of a controller of these classes. name is the class that is the default in a fresh cluster, and lists
// reads all classes.
func (c *cycle) classOptions(classes []drivers.Manifest, name string, lists rest.Interface) controllers.ClassOptions {
	return controllers.ClassOptions{
		Driver: c.driver, Classes: c.watch(classes), Observe: c.observeCluster, Infrastructures: c.informers.config.Config().V1().Infrastructures().Informer(), Default: name,
		CustomResource: c.customResource.Resource(), Lists: lists, Applier: c.applier, Reporter: c.reporter, Recorder: c.recorder,
	}
}

func (c *cycle) newStorageClassController(classes []drivers.Manifest) factory.Controller {
	name := ""
	if c.permanent && c.driver.ClusterStorage != nil {
		name = c.driver.ClusterStorage.DefaultClass
	}
	return controllers.NewStorageClass(c.classOptions(classes, name, c.clients.kube.StorageV1().RESTClient()))
}

// newCloudConfigController returns the controller of the driver's ConfigMap with the configuration of the cloud; nil if
// the driver does not need it.
func (c *cycle) newCloudConfigController(manifests []drivers.Manifest) *controllers.CloudConfig {
	if c.driver.CloudConfig == nil {
		return nil
	}
	options := controllers.CloudConfigOptions{
		Name: c.driver.ConditionPrefix + "DriverCloudConfigController", Config: c.driver.CloudConfig,
		Cloud:   c.informers.configMap(drivers.CloudConfigNamespace, drivers.CloudConfigName),
		Target:  c.watch(drivers.Named(manifests, "ConfigMap", c.driver.CloudConfig.ConfigMap))[0],
		Applier: c.applier, OperatorClient: c.reporter, Recorder: c.recorder,
	}
	if source := c.driver.CloudConfig.Source; source != "" {
		options.Source = c.informers.configMap(drivers.DriverConfigNamespace, source)
	}
	if discovery := c.driver.CloudConfig.Discovery; discovery != nil {
		options.Asked = controllers.CloudDiscovery{Find: c.own.Find, Namespace: c.namespace.Name, Secret: c.informers.secret(discovery.Secret), Cloud: c.observeCloud, Triggers: c.cloudInformers()}
	}
	return controllers.NewCloudConfig(options)
}

// snapshotClassesDiffer reports whether the VolumeSnapshotClasses depend on more than their assets.
func (c *cycle) snapshotClassesDiffer() bool {
	return c.driver.SnapshotParameters != nil || c.defaultSnapshotClass() != ""
}

// defaultSnapshotClass names the class that is the driver's default in a fresh cluster; "" for none.
func (c *cycle) defaultSnapshotClass() string {
	if !c.permanent || c.driver.ClusterStorage == nil {
		return ""
	}
	return c.driver.ClusterStorage.DefaultSnapshotClass
}

func (c *cycle) newSnapshotClassController(manifests []drivers.Manifest) factory.Controller {
	return controllers.NewSnapshotClass(c.classOptions(drivers.OfKind(manifests, controllers.SnapshotClassKind), c.defaultSnapshotClass(), c.clients.snapshots))
}

func (c *cycle) newStaticResourceController(manifests []drivers.Manifest) *controllers.StaticResources {
	static := slices.DeleteFunc(slices.Clone(manifests), func(m drivers.Manifest) bool {
		return !controllers.IsStatic(m.Object.GetKind()) || c.driver.CloudConfig != nil && m.Is("ConfigMap", c.driver.CloudConfig.ConfigMap) ||
			c.driver.Configuration != nil && m.Is("Secret", c.driver.Configuration.Secret) ||
			c.snapshotClassesDiffer() && m.Object.GetKind() == controllers.SnapshotClassKind
	})
	return controllers.NewStaticResources(c.driver.ConditionPrefix+"DriverObjectsController", c.watch(static), c.applier, c.driver.History, c.reporter, c.recorder)
}

func (c *cycle) newCredentialsRequestControllers(components []clustercsidriver.Component) []factory.Controller {
	var requests []factory.Controller
	for _, component := range components {
		if component.Manifest.Object.GetKind() != "CredentialsRequest" {
			continue
		}
		requests = append(requests, controllers.NewCredentialsRequest(controllers.CredentialsRequestOptions{
			Name: component.Name, Request: c.informers.watch(component.Manifest.Object), Applier: c.applier, OperatorClient: c.reporter,
			CloudCredentials: c.informers.operator.Operator().V1().CloudCredentials(), Secrets: c.informers.secret, Keys: c.driver.CredentialKeys, Recorder: c.recorder,
			DriverNamespace: c.namespace.Name, OperatorNamespace: c.operatorNamespace, Package: c.driver.Package.Name, Optional: c.isForOperator(component), Getenv: c.getenv,
		}))
	}
	return requests
}

// isForOperator reports whether a component is the CredentialsRequest of the operator's own credentials.
func (c *cycle) isForOperator(component clustercsidriver.Component) bool {
	secret, _, _ := unstructured.NestedString(component.Manifest.Object.Object, "spec", "secretRef", "name")
	return c.driver.CloudAccess != nil && secret == c.driver.CloudAccess.Secret
}

// newOwnControllers returns the driver's own controllers, and the Secrets that they fill.
func (c *cycle) newOwnControllers(manifests []drivers.Manifest) (own []factory.Controller, filled []*filledSecret) {
	if c.own.New == nil {
		return nil, nil
	}
	own = c.own.New(controller.Dependencies{
		Driver: c.driver, Namespace: c.namespace.Name, Cloud: c.observeCloudWith,
		Triggers: func(secret string) []factory.Informer {
			return append(c.cloudInformers(), c.informers.secret(secret).Informer())
		},
		Fill: func(secret string) controller.Secret {
			s := &filledSecret{c.watch(drivers.Named(manifests, "Secret", secret))[0], c.applier, objects.NewReadiness()}
			filled = append(filled, s)
			return s
		},
		Environment: c.environment, Core: c.clients.kube.CoreV1().RESTClient(), Storage: c.clients.kube.StorageV1().RESTClient(),
		Reporter: c.reporter, Recorder: c.recorder, Clock: c.clock,
	})
	return own, filled
}

// newBackendController returns the controller that queries the backend. The controller calls onNew when the backend offers more than the
// known StorageClasses.
func (c *cycle) newBackendController(installed bool, known []drivers.Manifest, onNew func()) factory.Controller {
	return controllers.NewBackend(controllers.BackendOptions{
		Driver: c.driver, Classes: c.own.Classes, Namespace: c.namespace.Name, Secret: c.informers.secret(c.driver.Backend.Secret),
		Reporter: c.reporter, Recorder: c.recorder, Installed: installed, Known: known,
		Offers: c.offers, OnNew: onNew,
		Cloud: c.observeCloud, Triggers: c.cloudInformers(),
	})
}

// waitForOffers returns the StorageClasses of all present and past offers of the driver's backend; none for a driver
// without a backend. If there is no offer and the driver is not installed, it waits for an offer, or until ctx ends.
// Meanwhile it applies only the objects that it needs to query the backend.
func (c *cycle) waitForOffers(ctx context.Context, manifests []drivers.Manifest) ([]drivers.Manifest, error) {
	if c.driver.Backend == nil {
		return nil, nil
	}
	existing, err := controllers.ExistingClasses(ctx, c.driver, c.clients.kube.StorageV1().RESTClient())
	if err != nil {
		return nil, err
	}
	installed, err := controllers.Installed(ctx, c.clients.objects, manifests)
	if err != nil {
		return nil, err
	}
	if !installed && len(c.offers.Classes()) == 0 {
		err = c.runBackendControllers(ctx, manifests)
	}
	return controllers.MergeClasses(c.offers.Classes(), existing), err
}

// runBackendControllers runs the controllers that are needed to query the backend, until the backend offers something or ctx ends.
func (c *cycle) runBackendControllers(ctx context.Context, manifests []drivers.Manifest) error {
	if err := controllers.ReportAskingBackend(ctx, c.driver, c.reporter); err != nil {
		return err
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	components := componentsOf(c.driver.ConditionPrefix, drivers.OfKind(manifests, "CredentialsRequest"))
	c.reporter.Expect(components)
	needed := append(drivers.OfKind(manifests, "Namespace"), drivers.Named(manifests, "ConfigMap", c.driver.TrustedCABundle)...)
	controllers := append(c.newCredentialsRequestControllers(components),
		c.newStaticResourceController(needed), c.newFinalizerController(), c.newBackendController(false, nil, stop))
	c.informers.start(ctx) // with the context of the cycle, because later controllers use the informers, too
	return runAll(waiting,
		func(ctx context.Context) error { return c.reportManifests(ctx, nil) },
		c.idle,
		func(ctx context.Context) error { return c.runControllers(ctx, controllers...) },
	)
}

// reportManifests reports in a condition whether the driver's objects could be rendered.
func (c *cycle) reportManifests(ctx context.Context, err error) error {
	condition := applyoperatorv1.OperatorCondition().
		WithType(c.driver.ConditionPrefix + "Manifests" + operatorv1.OperatorStatusTypeDegraded).
		WithStatus(operatorv1.ConditionFalse).WithReason("AsExpected")
	if err != nil {
		reason := "InvalidAssets"
		if missing := (*drivers.MissingImagesError)(nil); errors.As(err, &missing) {
			reason = "MissingImage"
		}
		condition = condition.WithStatus(operatorv1.ConditionTrue).WithReason(reason).WithMessage(err.Error())
		if c.reporter.Condition(*condition.Type).Message != err.Error() {
			c.recorder.Warning(reason, err.Error())
		}
	}
	return c.reporter.ApplyOperatorStatus(ctx, c.driver.ConditionPrefix+"Manifests",
		applyoperatorv1.OperatorStatus().WithConditions(condition))
}
