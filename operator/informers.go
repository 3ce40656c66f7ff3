package operator

import (
	"context"
	"time"

	configclient "github.com/openshift/client-go/config/clientset/versioned"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
	operatorinformers "github.com/openshift/client-go/operator/informers/externalversions"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/drivernamespace"
	"github.com/berth-csi/berth/operator/objects"
	"github.com/berth-csi/berth/operator/transport"
)

// resync is how often informers replay their cache. Watches deliver changes at once.
const resync = 20 * time.Minute

// clients are the API clients of one cycle. Their writes are guarded.
type clients struct {
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	objects  client.Client
	config   configclient.Interface
	operator operatorclient.Interface
	// snapshots is for VolumeSnapshotContents and VolumeSnapshotClasses.
	snapshots rest.Interface
}

func newClients(cfg *rest.Config, fieldManager string, guard *drivernamespace.Guard, mapper meta.RESTMapper) (*clients, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(guard.Wrap)
	kubeConfig := rest.CopyConfig(cfg)
	kubeConfig.ContentType = runtime.ContentTypeJSON
	kubeConfig.Wrap(transport.CreateByName(fieldManager))
	kube, err := kubernetes.NewForConfig(kubeConfig)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	objects, err := client.New(cfg, client.Options{Mapper: mapper})
	if err != nil {
		return nil, err
	}
	config, err := configclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	operator, err := operatorclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	snapshotConfig := rest.CopyConfig(cfg)
	snapshotConfig.APIPath, snapshotConfig.GroupVersion = "/apis", &schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}
	snapshotConfig.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	snapshots, err := rest.RESTClientFor(snapshotConfig)
	if err != nil {
		return nil, err
	}
	return &clients{kube: kube, dynamic: dynamicClient, objects: objects, config: config, operator: operator, snapshots: snapshots}, nil
}

// An informerSet holds the informers of one cycle.
type informerSet struct {
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	mapper    meta.RESTMapper
	namespace string // the driver's
	config    configinformers.SharedInformerFactory
	operator  operatorinformers.SharedInformerFactory    // for CloudCredentials
	byName    map[string]informers.SharedInformerFactory // by "namespace/name"
	factories []interface{ Start(stop <-chan struct{}) }
}

// informersIn returns informers for a driver in a namespace.
func (c *clients) informersIn(namespace string) *informerSet {
	s := &informerSet{
		kube: c.kube, dynamic: c.dynamic, mapper: c.objects.RESTMapper(), namespace: namespace,
		config:   configinformers.NewSharedInformerFactory(c.config, resync),
		operator: operatorinformers.NewSharedInformerFactory(c.operator, resync),
		byName:   map[string]informers.SharedInformerFactory{},
	}
	s.factories = append(s.factories, s.config, s.operator)
	return s
}

// start starts the informers that are not running yet.
func (s *informerSet) start(ctx context.Context) {
	for _, factory := range s.factories {
		factory.Start(ctx.Done())
	}
}

// named returns informers that show only objects of one name, in the driver's namespace.
func (s *informerSet) named(name string) informers.SharedInformerFactory {
	return s.namedIn(s.namespace, name)
}

// namedIn returns informers that show only objects of one name, in a namespace.
func (s *informerSet) namedIn(namespace, name string) informers.SharedInformerFactory {
	key := namespace + "/" + name
	factory, ok := s.byName[key]
	if !ok {
		factory = informers.NewSharedInformerFactoryWithOptions(s.kube, resync,
			informers.WithNamespace(namespace), informers.WithTweakListOptions(transport.OnlyName(name)))
		s.byName[key] = factory
		s.factories = append(s.factories, factory)
	}
	return factory
}

// configMap returns the informer of a ConfigMap in a namespace other than the driver's.
func (s *informerSet) configMap(namespace, name string) coreinformers.ConfigMapInformer {
	return s.namedIn(namespace, name).Core().V1().ConfigMaps()
}

func (s *informerSet) secret(name string) coreinformers.SecretInformer {
	return s.named(name).Core().V1().Secrets()
}

// nodes returns the nodes of the cluster. It keeps only their labels with the given keys.
func (s *informerSet) nodes(keys []string) *controllers.Nodes {
	factory := informers.NewSharedInformerFactoryWithOptions(s.kube, 0, informers.WithTransform(controllers.TrimNodes(keys)))
	s.factories = append(s.factories, factory)
	return controllers.NewNodes(factory.Core().V1().Nodes())
}

// watch returns a watched object. It has its own informer if the cluster serves its kind.
func (s *informerSet) watch(object *unstructured.Unstructured) *objects.WatchedObject {
	kind := object.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return objects.NewWatchedObject(object, nil)
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.dynamic, resync, object.GetNamespace(), transport.OnlyName(object.GetName()))
	s.factories = append(s.factories, factory)
	return objects.NewWatchedObject(object, factory.ForResource(mapping.Resource).Informer())
}
