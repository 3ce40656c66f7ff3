package clusterstorage

import (
	"context"
	"fmt"
	"time"

	configclient "github.com/openshift/client-go/config/clientset/versioned"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
	operatorinformers "github.com/openshift/client-go/operator/informers/externalversions"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/operator/objects"
	"github.com/berth-csi/berth/operator/transport"
)

// resync is how often informers replay their caches. Watches deliver changes at once.
const resync = 20 * time.Minute

// A cluster holds the operator's clients and caches.
type cluster struct {
	// byName is a connection that adds the object's name to requests that create an object.
	byName         *rest.Config
	kube           kubernetes.Interface
	dynamic        dynamic.Interface
	objects        client.Client
	configClient   configclient.Interface
	operatorClient operatorclient.Interface

	config          configinformers.SharedInformerFactory
	clusterOperator configinformers.SharedInformerFactory // of one object: a cluster has thirty others
	operator        operatorinformers.SharedInformerFactory
	kubeInformers   informers.SharedInformerFactory
	// attributesClasses is nil if the cluster does not serve VolumeAttributesClasses.
	attributesClasses storagelisters.VolumeAttributesClassLister

	changed chan struct{}
}

func newCluster(process Process) (*cluster, error) {
	c := &cluster{changed: make(chan struct{}, 1)}
	var err error
	c.byName = rest.CopyConfig(process.KubeConfig)
	c.byName.ContentType = runtime.ContentTypeJSON
	c.byName.Wrap(transport.CreateByName(Name))
	if c.kube, err = kubernetes.NewForConfig(c.byName); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(process.KubeConfig); err != nil {
		return nil, err
	}
	if c.objects, err = client.New(process.KubeConfig, client.Options{}); err != nil {
		return nil, err
	}
	if c.configClient, err = configclient.NewForConfig(process.KubeConfig); err != nil {
		return nil, err
	}
	if c.operatorClient, err = operatorclient.NewForConfig(process.KubeConfig); err != nil {
		return nil, err
	}
	c.config = configinformers.NewSharedInformerFactory(c.configClient, resync)
	c.clusterOperator = configinformers.NewSharedInformerFactoryWithOptions(c.configClient, resync,
		configinformers.WithTweakListOptions(transport.OnlyName(ClusterOperatorName)))
	c.operator = operatorinformers.NewSharedInformerFactory(c.operatorClient, resync)
	c.kubeInformers = informers.NewSharedInformerFactoryWithOptions(c.kube, resync, informers.WithTransform(trimClass))
	return c, nil
}

// start starts the caches that every sync reads, and returns once they have synced or ctx ends.
func (c *cluster) start(ctx context.Context) error {
	all := []cache.SharedIndexInformer{
		c.config.Config().V1().Infrastructures().Informer(),
		c.config.Config().V1().FeatureGates().Informer(),
		c.config.Config().V1().Proxies().Informer(),
		c.clusterOperator.Config().V1().ClusterOperators().Informer(),
		c.operator.Operator().V1().Storages().Informer(),
		c.operator.Operator().V1().ClusterCSIDrivers().Informer(),
		c.kubeInformers.Storage().V1().CSIDrivers().Informer(),
		c.kubeInformers.Rbac().V1().ClusterRoleBindings().Informer(),
		c.kubeInformers.Storage().V1().StorageClasses().Informer(),
	}
	_, err := c.objects.RESTMapper().RESTMapping(storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass").GroupKind(), storagev1.SchemeGroupVersion.Version)
	switch {
	case err == nil:
		attributes := c.kubeInformers.Storage().V1().VolumeAttributesClasses()
		all, c.attributesClasses = append(all, attributes.Informer()), attributes.Lister()
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("finding out whether the cluster serves VolumeAttributesClasses: %w", err)
	}
	for _, informer := range all {
		if err := c.notifyOf(informer); err != nil {
			return err
		}
	}
	c.config.Start(ctx.Done())
	c.clusterOperator.Start(ctx.Done())
	c.operator.Start(ctx.Done())
	c.kubeInformers.Start(ctx.Done())
	for _, informer := range all {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil // ctx ended
		}
	}
	return nil
}

// watch starts to watch an object until ctx ends, if the cluster serves its kind. It does not wait for the cache.
func (c *cluster) watch(ctx context.Context, object *unstructured.Unstructured) (*objects.WatchedObject, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.objects.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return objects.NewWatchedObject(object, nil), nil
	}
	if err != nil {
		return nil, fmt.Errorf("finding out whether the cluster serves %s: %w", kind.GroupKind(), err)
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, resync, object.GetNamespace(), transport.OnlyName(object.GetName()))
	informer := factory.ForResource(mapping.Resource).Informer()
	if err := c.notifyOf(informer); err != nil {
		return nil, fmt.Errorf("watching %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	factory.Start(ctx.Done())
	return objects.NewWatchedObject(object, informer), nil
}

// notifyOf makes the channel changed receive a value after each change in a cache.
func (c *cluster) notifyOf(informer cache.SharedIndexInformer) error {
	notify := func() {
		select {
		case c.changed <- struct{}{}:
		default: // a notification is pending
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	return err
}
