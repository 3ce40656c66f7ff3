package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	deployment "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	daemonset "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
	"github.com/openshift/library-go/pkg/operator/loglevel"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/yaml"
)

// workers is the number of workers of each controller. Each has a single object to look after, so a
// second worker would never find work.
const workers = 1

// conflictBackoff is for writes that somebody else was faster with: the caches need a moment to show
// what they wrote. It gives up after some five seconds.
var conflictBackoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 9}

// manageDriver keeps all of the driver's objects as its definition says, until ctx ends.
func (o *operator) manageDriver(ctx context.Context, c *clients) error {
	manifests, unusable := o.manifests(c.place, os.Getenv)
	if unusable != nil {
		return runAll(ctx, []func(context.Context) error{
			func(ctx context.Context) error { return o.reportManifests(ctx, c, unusable) },
			func(ctx context.Context) error { return o.onlyReport(ctx, c) },
		})
	}
	ctx, startAnew := context.WithCancel(ctx)
	defer startAnew()
	var backend []factory.Controller
	if o.driver.Backend != nil {
		classes, err := o.offers(ctx, c, manifests)
		if err != nil || ctx.Err() != nil {
			return err
		}
		manifests = append(manifests, classes...)
		backend = append(backend, o.newBackendController(c, true, classes, startAnew))
	}
	parts := o.parts(manifests)
	c.customResource.expect(parts)
	objects, ready := o.newObjectsController(c, manifests)
	first := append(o.newConfigControllers(c, manifests, parts), objects)
	workloads := o.newWorkloadControllers(ctx, c, parts)
	c.startInformers(ctx) // They fill meanwhile.

	relics, err := o.relics(ctx, c, manifests)
	if err != nil {
		return err
	}
	adopting := len(relics) > 0 || o.upgradeable.says(ctx, whileAdopting) // by an operator that was interrupted
	if adopting {
		o.upgradeable.try(ctx, whileAdopting)
	}
	if err := o.adopt(ctx, c, relics); err != nil {
		return err
	}
	report := []factory.Controller{o.newLogLevelController(c), o.newNamespaceController(c), o.newUpgradeableController(c, adopting)}
	report = append(report, backend...)
	return runAll(ctx, []func(context.Context) error{
		func(ctx context.Context) error { return o.reportManifests(ctx, c, nil) },
		func(ctx context.Context) error { return c.run(ctx, report) },
		func(ctx context.Context) error { return c.run(ctx, first) },
		func(ctx context.Context) error {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil
			}
			if err := c.waitForObservedConfig(ctx); err != nil {
				return nil // ctx ended
			}
			return c.run(ctx, workloads)
		},
	})
}

// A part of a driver is an object that has a controller of its own, which tells in conditions whether
// the part is available and whether it is progressing.
type part struct {
	name     string // of the controller; starts the types of its conditions
	manifest drivers.Manifest
}

func (o *operator) parts(manifests []drivers.Manifest) []part {
	var parts []part
	add := func(kind string, name func(i int, m drivers.Manifest) string) {
		for i, m := range drivers.OfKind(manifests, kind) {
			parts = append(parts, part{name: o.driver.ConditionPrefix + name(i, m), manifest: m})
		}
	}
	// The first of a kind has the name that other components of OpenShift know.
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
		user := path.Dir(m.File) // the controller, or the nodes
		return strings.ToUpper(user[:1]) + user[1:] + "CredentialsRequestController"
	})
	return parts
}

// leaveDriver touches nothing of the driver, and says so, until ctx ends.
func (o *operator) leaveDriver(ctx context.Context, c *clients) error {
	spec, _, _, err := c.customResource.GetOperatorState()
	if err != nil {
		return err
	}
	condition := func(conditionType string, status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
		return applyoperatorv1.OperatorCondition().WithType(o.driver.ConditionPrefix + "ManagementState" + conditionType).
			WithStatus(status).WithReason(reason).WithMessage(message)
	}
	const unmanaged = "nobody looks at the driver's objects while spec.managementState is Unmanaged"
	conditions := applyoperatorv1.OperatorStatus().WithConditions(
		condition(operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionUnknown, "Unmanaged", unmanaged),
		condition(operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse, "Unmanaged", unmanaged),
		condition(operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionFalse, "Unmanaged", unmanaged))
	if spec.ManagementState != operatorv1.Unmanaged {
		conditions = applyoperatorv1.OperatorStatus().WithConditions(
			condition(operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionTrue, "UnsupportedState", fmt.Sprintf(
				"spec.managementState is %q; want Managed, Unmanaged or Removed; the driver is left as it is", spec.ManagementState)))
	}
	if err := c.customResource.ApplyOperatorStatus(ctx, o.driver.ConditionPrefix+"ManagementState", conditions); err != nil {
		return err
	}
	return o.onlyReport(ctx, c)
}

// releaseCustomResource lets a ClusterCSIDriver go that asked for nothing to be touched.
func (o *operator) releaseCustomResource(ctx context.Context, c *clients) error {
	if err := o.letGo(ctx, c); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// manifests renders the driver's objects and marks each as this operator's. A Namespace that the driver is not in is
// none of them.
func (o *operator) manifests(in place, image func(env string) string) ([]drivers.Manifest, error) {
	manifests, err := o.driver.Operand(drivers.Values{Namespace: in.namespace, Image: image})
	if err != nil {
		return nil, err
	}
	manifests = slices.DeleteFunc(manifests, func(m drivers.Manifest) bool {
		return m.Object.GetKind() == "Namespace" && m.Object.GetName() != in.namespace
	})
	for i, m := range manifests {
		mark := labels.Set{managedByLabel: o.driver.Operator.Name}
		if m.Object.GetKind() == "Namespace" && in.uid != "" {
			mark[placement.ProofLabel] = string(in.uid)
		}
		m.Object.SetLabels(labels.Merge(m.Object.GetLabels(), mark))
		if manifests[i].YAML, err = yaml.Marshal(m.Object.Object); err != nil {
			return nil, err
		}
	}
	return manifests, nil
}

// anyImage is for manifests whose images make no difference.
func anyImage(env string) string { return env }

// run starts the informers and runs the controllers until ctx ends.
func (c *clients) run(ctx context.Context, controllers []factory.Controller) error {
	c.startInformers(ctx)
	var tasks []func(context.Context) error
	for _, controller := range controllers {
		tasks = append(tasks, func(ctx context.Context) error {
			controller.Run(ctx, workers)
			return nil
		})
	}
	return runAll(ctx, tasks)
}

// newLogLevelController builds the controller that sets the operator's own log level.
func (o *operator) newLogLevelController(c *clients) factory.Controller {
	return loglevel.NewClusterOperatorLoggingController(c.customResource, o.silent())
}

// onlyReport does what there is to do while the driver is left as it is, until ctx ends.
func (o *operator) onlyReport(ctx context.Context, c *clients) error {
	return runAll(ctx, []func(context.Context) error{
		func(ctx context.Context) error { return c.run(ctx, []factory.Controller{o.newLogLevelController(c)}) },
		func(ctx context.Context) error { o.upgradeable.insist(ctx, mayUpgrade); return nil },
	})
}

// newConfigControllers build the controllers of what the driver's pods need before they start: the
// cluster's settings, as observed for the driver, its credentials and its storage classes.
func (o *operator) newConfigControllers(c *clients, manifests []drivers.Manifest, parts []part) []factory.Controller {
	controllers := []factory.Controller{o.newConfigObserver(c), o.newSettingsController(c)}
	for _, p := range parts {
		if p.manifest.Object.GetKind() == "CredentialsRequest" {
			controllers = append(controllers, o.newCredentialsController(c, p))
		}
	}
	if classes := drivers.OfKind(manifests, "StorageClass"); len(classes) > 0 {
		controllers = append(controllers, o.newStorageClassController(c, classes))
	}
	return controllers
}

// newWorkloadControllers builds a controller for each Deployment and DaemonSet.
func (o *operator) newWorkloadControllers(ctx context.Context, c *clients, parts []part) []factory.Controller {
	var controllers []factory.Controller
	for _, p := range parts {
		switch p.manifest.Object.GetKind() {
		case "Deployment":
			controllers = append(controllers, deployment.NewCSIDriverControllerServiceController(
				p.name, p.manifest.YAML, o.newsOf(ctx, c, p.manifest.Object), c.customResource, c.kube,
				c.named(p.manifest.Object.GetName()).Apps().V1().Deployments(), c.configInformers, o.podInformers(c), o.deploymentHooks(c)...))
		case "DaemonSet":
			controllers = append(controllers, daemonset.NewCSIDriverNodeServiceController(
				p.name, p.manifest.YAML, o.newsOf(ctx, c, p.manifest.Object), c.customResource, c.kube,
				c.named(p.manifest.Object.GetName()).Apps().V1().DaemonSets(), o.podInformers(c), o.daemonSetHooks(c)...))
		}
	}
	return controllers
}

// podInformers watch what the pods of the driver depend on.
func (o *operator) podInformers(c *clients) []factory.Informer {
	watched := []factory.Informer{
		c.configMaps(o.driver.TrustedCABundle).Informer(),
		c.configInformers.Config().V1().Infrastructures().Informer(),
	}
	for _, secret := range o.driver.Secrets {
		watched = append(watched, c.secrets(secret).Informer())
	}
	return watched
}

func (o *operator) deploymentHooks(c *clients) []deploymentcontroller.DeploymentHookFunc {
	return []deploymentcontroller.DeploymentHookFunc{
		deployment.WithReplicasHook(c.configInformers),
		deployment.WithObservedProxyDeploymentHook(),
		deployment.WithCABundleDeploymentHook(c.place.namespace, o.driver.TrustedCABundle, c.configMaps(o.driver.TrustedCABundle)),
		func(_ *operatorv1.OperatorSpec, d *appsv1.Deployment) error { return o.configure(c, &d.Spec.Template) },
	}
}

func (o *operator) daemonSetHooks(c *clients) []daemonset.DaemonSetHookFunc {
	return []daemonset.DaemonSetHookFunc{
		daemonset.WithObservedProxyDaemonSetHook(),
		daemonset.WithCABundleDaemonSetHook(c.place.namespace, o.driver.TrustedCABundle, c.configMaps(o.driver.TrustedCABundle)),
		func(_ *operatorv1.OperatorSpec, d *appsv1.DaemonSet) error { return o.configure(c, &d.Spec.Template) },
	}
}

// checkRendered fails if a placeholder would reach the cluster.
func checkRendered(object any) error {
	document, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return drivers.CheckRendered(document)
}

// reportManifests writes the condition that tells whether the driver's objects could be rendered.
func (o *operator) reportManifests(ctx context.Context, c *clients, err error) error {
	condition := applyoperatorv1.OperatorCondition().
		WithType(o.driver.ConditionPrefix + "Manifests" + operatorv1.OperatorStatusTypeDegraded).
		WithStatus(operatorv1.ConditionFalse).WithReason("AsExpected")
	if err != nil {
		reason := "InvalidAssets"
		if missing := (*drivers.MissingImagesError)(nil); errors.As(err, &missing) {
			reason = "MissingImage"
		}
		condition = condition.WithStatus(operatorv1.ConditionTrue).WithReason(reason).WithMessage(err.Error())
		if c.condition(*condition.Type).Message != err.Error() {
			o.recorder.Warning(reason, err.Error())
		}
	}
	return c.customResource.ApplyOperatorStatus(ctx, o.driver.ConditionPrefix+"Manifests",
		applyoperatorv1.OperatorStatus().WithConditions(condition))
}
