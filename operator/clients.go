package operator

import (
	"context"
	"net/http"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	configclient "github.com/openshift/client-go/config/clientset/versioned"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
	operatorinformers "github.com/openshift/client-go/operator/informers/externalversions"
	"github.com/openshift/library-go/pkg/operator/genericoperatorclient"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resync is how often informers replay what they hold; the API server's watch is what drives us.
const resync = 20 * time.Minute

// clients are the connections of one cycle, from the creation of a ClusterCSIDriver to its removal.
type clients struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	objects client.Client
	// customResource reads and writes the driver's ClusterCSIDriver.
	customResource v1helpers.OperatorClientWithFinalizers

	kubeInformers     informers.SharedInformerFactory // of the operand's namespace
	clusterInformers  informers.SharedInformerFactory // cluster-scoped
	configInformers   configinformers.SharedInformerFactory
	operatorInformers operatorinformers.SharedInformerFactory // CloudCredential
	driverInformers   operatorinformers.SharedInformerFactory // the one ClusterCSIDriver
	dynamicInformers  dynamicinformer.DynamicSharedInformerFactory
	// secretInformers follow the Secrets that the driver's pods mount, one each, by name, and
	// caInformers the ConfigMap with the trusted CA bundle.
	secretInformers map[string]informers.SharedInformerFactory
	caInformers     informers.SharedInformerFactory
	// credentialInformers follow one CredentialsRequest each.
	credentialInformers []dynamicinformer.DynamicSharedInformerFactory
	// managed and clusterManaged follow the metadata of the objects that carry managedByLabel, in the
	// operand's namespace and outside of all namespaces.
	managed, clusterManaged metadatainformer.SharedInformerFactory
}

func (o *operator) newClients() (*clients, error) {
	kube, err := kubernetes.NewForConfig(o.cfg)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(o.cfg)
	if err != nil {
		return nil, err
	}
	objects, err := client.New(o.cfg, client.Options{})
	if err != nil {
		return nil, err
	}
	config, err := configclient.NewForConfig(o.cfg)
	if err != nil {
		return nil, err
	}
	operators, err := operatorclient.NewForConfig(o.cfg)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(o.cfg)
	if err != nil {
		return nil, err
	}
	managed := func(namespace string) metadatainformer.SharedInformerFactory {
		return metadatainformer.NewFilteredSharedInformerFactory(metadataClient, resync, namespace, func(options *metav1.ListOptions) {
			options.LabelSelector = labels.SelectorFromSet(labels.Set{managedByLabel: o.driver.Operator.Name}).String()
		})
	}
	named := func(name string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(kube, resync, informers.WithNamespace(o.namespace),
			informers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
			}))
	}
	secretInformers := map[string]informers.SharedInformerFactory{}
	for _, secret := range o.driver.Secrets {
		secretInformers[secret] = named(secret)
	}
	customResource, dynamicInformers, err := genericoperatorclient.NewClusterScopedOperatorClientWithConfigName(
		o.clock, onlyNamed(o.cfg, clusterCSIDrivers.Resource, o.driver.CSIName), clusterCSIDrivers,
		operatorv1.GroupVersion.WithKind("ClusterCSIDriver"), o.driver.CSIName, extractSpec, extractStatus)
	if err != nil {
		return nil, err
	}
	return &clients{
		kube:              kube,
		dynamic:           dynamicClient,
		objects:           objects,
		customResource:    customResource,
		kubeInformers:     informers.NewSharedInformerFactoryWithOptions(kube, resync, informers.WithNamespace(o.namespace)),
		clusterInformers:  informers.NewSharedInformerFactoryWithOptions(kube, resync, informers.WithTransform(trim)),
		configInformers:   configinformers.NewSharedInformerFactory(config, resync),
		operatorInformers: operatorinformers.NewSharedInformerFactory(operators, resync),
		driverInformers: operatorinformers.NewSharedInformerFactoryWithOptions(operators, resync,
			operatorinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.driver.CSIName).String()
			})),
		dynamicInformers: dynamicInformers,
		secretInformers:  secretInformers,
		caInformers:      named(o.driver.TrustedCABundle),
		managed:          managed(o.namespace),
		clusterManaged:   managed(metav1.NamespaceAll),
	}, nil
}

// managedObjects returns the informer that follows the objects of an object's kind, or nil where the
// cluster does not serve that kind; then the objects are looked at when something else wakes us.
func (c *clients) managedObjects(object *unstructured.Unstructured) cache.SharedIndexInformer {
	kind := object.GroupVersionKind()
	mapping, err := c.objects.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.clusterManaged.ForResource(mapping.Resource).Informer()
	}
	return c.managed.ForResource(mapping.Resource).Informer()
}

// secrets returns the informer that follows one of the driver's Secrets.
func (c *clients) secrets(name string) coreinformers.SecretInformer {
	return c.secretInformers[name].Core().V1().Secrets()
}

// trustedCA returns the informer that follows the ConfigMap with the trusted CA bundle.
func (c *clients) trustedCA() coreinformers.ConfigMapInformer {
	return c.caInformers.Core().V1().ConfigMaps()
}

// credentialsRequests returns the informer that follows one CredentialsRequest.
func (c *clients) credentialsRequests(request *unstructured.Unstructured) cache.SharedIndexInformer {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, resync, request.GetNamespace(),
		func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, request.GetName()).String()
		})
	c.credentialInformers = append(c.credentialInformers, factory)
	return factory.ForResource(schema.GroupVersionResource{
		Group: "cloudcredential.openshift.io", Version: "v1", Resource: "credentialsrequests"}).Informer()
}

// syncCustomResource waits until the client of the ClusterCSIDriver knows the object; it fails only
// if ctx ends before.
func (c *clients) syncCustomResource(ctx context.Context) error {
	c.customResource.Informer() // makes the factory know of it
	c.dynamicInformers.Start(ctx.Done())
	c.dynamicInformers.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// waitForObservedConfig waits until the ClusterCSIDriver holds what was observed of the cluster's
// settings; it fails only if ctx ends before.
func (c *clients) waitForObservedConfig(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		spec, _, _, err := c.customResource.GetOperatorState()
		return err == nil && len(spec.ObservedConfig.Raw) > 0, nil
	})
}

func (c *clients) startInformers(ctx context.Context) {
	c.kubeInformers.Start(ctx.Done())
	c.clusterInformers.Start(ctx.Done())
	c.configInformers.Start(ctx.Done())
	c.operatorInformers.Start(ctx.Done())
	c.driverInformers.Start(ctx.Done())
	c.dynamicInformers.Start(ctx.Done())
	c.caInformers.Start(ctx.Done())
	for _, factory := range c.secretInformers {
		factory.Start(ctx.Done())
	}
	for _, factory := range c.credentialInformers {
		factory.Start(ctx.Done())
	}
	c.managed.Start(ctx.Done())
	c.clusterManaged.Start(ctx.Done())
}

// onlyNamed makes list and watch requests of a cluster-scoped resource ask for one object only.
// library-go's operator client has no such setting and would follow the objects of all drivers,
// which an operator has no business, and needs no permission, to see.
func onlyNamed(cfg *rest.Config, resource, name string) *rest.Config {
	narrowed := rest.CopyConfig(cfg)
	narrowed.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/"+resource) {
				request = request.Clone(request.Context())
				query := request.URL.Query()
				query.Set("fieldSelector", fields.OneTermEqualSelector(metav1.ObjectNameField, name).String())
				request.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(request)
		})
	})
	return narrowed
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// extractSpec and extractStatus return what a field manager owns of a ClusterCSIDriver, for
// library-go's server-side apply.
func extractSpec(object *unstructured.Unstructured, fieldManager string) (*applyoperatorv1.OperatorSpecApplyConfiguration, error) {
	owned, err := extract(object, fieldManager, "")
	if err != nil || owned.Spec == nil {
		return nil, err
	}
	return &owned.Spec.OperatorSpecApplyConfiguration, nil
}

func extractStatus(object *unstructured.Unstructured, fieldManager string) (*applyoperatorv1.OperatorStatusApplyConfiguration, error) {
	owned, err := extract(object, fieldManager, "status")
	if err != nil || owned.Status == nil {
		return nil, err
	}
	return &owned.Status.OperatorStatusApplyConfiguration, nil
}

func extract(object *unstructured.Unstructured, fieldManager, subresource string) (*applyoperatorv1.ClusterCSIDriverApplyConfiguration, error) {
	driver := &operatorv1.ClusterCSIDriver{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, driver); err != nil {
		return nil, err
	}
	return applyoperatorv1.ExtractClusterCSIDriverFrom(driver, fieldManager, subresource)
}
