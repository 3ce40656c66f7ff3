package controllers

import (
	"context"
	"maps"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	"github.com/openshift/library-go/pkg/controller/factory"
	deployment "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	daemonset "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

// Workloads builds the controllers of the driver's Deployments and DaemonSets: library-go's, with hooks that adapt the
// pods to the cluster.
type Workloads struct {
	Driver         drivers.Driver
	Namespace      string // the driver's
	Kube           kubernetes.Interface
	Reader         client.Reader
	OperatorClient v1helpers.OperatorClientWithFinalizers
	Config         configinformers.SharedInformerFactory
	// Named returns informers that show only objects of one name, in the driver's namespace.
	Named func(name string) informers.SharedInformerFactory
	// Nodes returns the cluster's nodes, with only the labels that have the given keys.
	Nodes func(keys []string) *Nodes
	// Observe returns the configuration of the cluster.
	Observe func() (drivers.Cluster, error)
	// Triggers are informers of the objects that Observe reads, in addition to Config's informers.
	Triggers []factory.Informer
	Recorder events.Recorder
}

// NewControllers returns a controller for each component that is a Deployment or a DaemonSet, and one that reports why
// pods are refused. They record events until ctx ends.
func (b Workloads) NewControllers(ctx context.Context, components []clustercsidriver.Component) []factory.Controller {
	var controllers []factory.Controller
	var clusterNodes *Nodes
	if keys, found := selectorKeys(components); found {
		clusterNodes = b.Nodes(keys)
	}
	for _, component := range components {
		object, manifest := component.Manifest.Object, component.Manifest.YAML
		apps := b.Named(object.GetName()).Apps().V1()
		switch object.GetKind() {
		case "Deployment":
			controllers = append(controllers, deployment.NewCSIDriverControllerServiceController(
				component.Name, manifest, NewGenerationEvents(ctx, b.Recorder, b.Reader, b.OperatorClient, object), b.OperatorClient, b.Kube,
				apps.Deployments(), b.Config, b.podInformers(), b.deploymentHooks()...))
		case "DaemonSet":
			pods := &nodePods{ctx: ctx, nodes: clusterNodes, sets: apps.DaemonSets().Lister(), reader: b.Reader}
			controllers = append(controllers, daemonset.NewCSIDriverNodeServiceController(
				component.Name, manifest, NewGenerationEvents(ctx, b.Recorder, b.Reader, b.OperatorClient, object),
				namingClient{b.OperatorClient, component.Name + operatorv1.OperatorStatusTypeProgressing, pods}, b.Kube,
				apps.DaemonSets(), append(b.podInformers(), clusterNodes), append(b.daemonSetHooks(), pods.adapt)...))
		}
	}
	return append(controllers, b.newRefusalsController(components))
}

// selectorKeys returns the keys of the labels by which DaemonSets select nodes, and whether there is a DaemonSet.
func selectorKeys(components []clustercsidriver.Component) (keys []string, found bool) {
	for _, component := range components {
		if component.Manifest.Object.GetKind() != "DaemonSet" {
			continue
		}
		selector, _, _ := unstructured.NestedStringMap(component.Manifest.Object.Object, "spec", "template", "spec", "nodeSelector")
		keys, found = slices.AppendSeq(keys, maps.Keys(selector)), true
	}
	return keys, found
}

// podInformers returns the informers of the objects that the driver's pods depend on.
func (b Workloads) podInformers() []factory.Informer {
	watched := []factory.Informer{
		b.Named(b.Driver.TrustedCABundle).Core().V1().ConfigMaps().Informer(),
		b.Config.Config().V1().Infrastructures().Informer(),
	}
	for _, secret := range b.Driver.PodSecrets() {
		watched = append(watched, b.Named(secret).Core().V1().Secrets().Informer())
	}
	return append(watched, b.Triggers...)
}

func (b Workloads) deploymentHooks() []deploymentcontroller.DeploymentHookFunc {
	return []deploymentcontroller.DeploymentHookFunc{
		deployment.WithReplicasHook(b.Config),
		deployment.WithObservedProxyDeploymentHook(),
		deployment.WithCABundleDeploymentHook(b.Namespace, b.Driver.TrustedCABundle, b.Named(b.Driver.TrustedCABundle).Core().V1().ConfigMaps()),
		func(_ *operatorv1.OperatorSpec, d *appsv1.Deployment) error { return b.configure(&d.Spec.Template) },
	}
}

func (b Workloads) daemonSetHooks() []daemonset.DaemonSetHookFunc {
	return []daemonset.DaemonSetHookFunc{
		daemonset.WithObservedProxyDaemonSetHook(),
		daemonset.WithCABundleDaemonSetHook(b.Namespace, b.Driver.TrustedCABundle, b.Named(b.Driver.TrustedCABundle).Core().V1().ConfigMaps()),
		func(_ *operatorv1.OperatorSpec, d *appsv1.DaemonSet) error { return b.configure(&d.Spec.Template) },
	}
}
