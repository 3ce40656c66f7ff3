package operator

import (
	"cmp"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
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
	// unguarded is like objects, and needs no namespace of the driver to write.
	unguarded client.Client
	guard     *guard
	// restart ends all that runs with these clients, to begin anew.
	restart func()
	// customResource reads and writes the driver's ClusterCSIDriver.
	customResource *reporter

	configInformers   configinformers.SharedInformerFactory
	operatorInformers operatorinformers.SharedInformerFactory // CloudCredential
	dynamicInformers  dynamicinformer.DynamicSharedInformerFactory

	// place is where the driver is. It is not known before the driver was looked for.
	place place
	// namedInformers follow the objects of one name each, in the driver's namespace.
	namedInformers map[string]informers.SharedInformerFactory

	// factories are all informer factories, to be started.
	factories []interface{ Start(stop <-chan struct{}) }
}

// newClients makes clients whose writes a guard watches over. restart ends what runs with them.
func (o *operator) newClients(asked mode, restart func()) (*clients, error) {
	unguarded, err := client.New(o.cfg, client.Options{})
	if err != nil {
		return nil, err
	}
	guard := &guard{reader: unguarded, lost: restart}
	cfg := rest.CopyConfig(o.cfg)
	cfg.Wrap(guard.wrap)
	forKube := rest.CopyConfig(cfg)
	forKube.ContentType = runtime.ContentTypeJSON
	forKube.Wrap(createByName(o.driver.Operator.Name))
	kube, err := kubernetes.NewForConfig(forKube)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	objects, err := client.New(cfg, client.Options{Mapper: unguarded.RESTMapper()})
	if err != nil {
		return nil, err
	}
	config, err := configclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	operators, err := operatorclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	customResource, dynamicInformers, err := genericoperatorclient.NewClusterScopedOperatorClientWithConfigName(
		o.clock, onlyNamed(cfg, clusterCSIDrivers.Resource, o.driver.CSIName), clusterCSIDrivers,
		operatorv1.GroupVersion.WithKind("ClusterCSIDriver"), o.driver.CSIName, extractSpec, extractStatus)
	if err != nil {
		return nil, err
	}
	c := &clients{
		kube:              kube,
		dynamic:           dynamicClient,
		objects:           objects,
		unguarded:         unguarded,
		guard:             guard,
		restart:           restart,
		customResource:    o.newReporter(customResource, dynamicClient, asked),
		configInformers:   configinformers.NewSharedInformerFactory(config, resync),
		operatorInformers: operatorinformers.NewSharedInformerFactory(operators, resync),
		dynamicInformers:  dynamicInformers,
		namedInformers:    map[string]informers.SharedInformerFactory{},
	}
	c.add(c.configInformers, c.operatorInformers, c.dynamicInformers)
	return c, nil
}

// only makes lists and watches ask for the objects of one name. To RBAC they are about these objects
// then: no permission for any other is needed.
func only(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// add has informer factories started with all others.
func (c *clients) add(factories ...interface{ Start(stop <-chan struct{}) }) {
	c.factories = append(c.factories, factories...)
}

// named returns the informers that follow the objects of one name in the driver's namespace.
func (c *clients) named(name string) informers.SharedInformerFactory {
	factory, ok := c.namedInformers[name]
	if !ok {
		factory = informers.NewSharedInformerFactoryWithOptions(c.kube, resync,
			informers.WithNamespace(c.place.namespace), informers.WithTweakListOptions(only(name)))
		c.namedInformers[name] = factory
		c.add(factory)
	}
	return factory
}

// secrets returns the informer that follows one of the driver's Secrets.
func (c *clients) secrets(name string) coreinformers.SecretInformer {
	return c.named(name).Core().V1().Secrets()
}

// configMaps returns the informer that follows one of the driver's ConfigMaps.
func (c *clients) configMaps(name string) coreinformers.ConfigMapInformer {
	return c.named(name).Core().V1().ConfigMaps()
}

// condition returns a condition of the ClusterCSIDriver, an empty one where it has none of that type.
func (c *clients) condition(conditionType string) operatorv1.OperatorCondition {
	_, status, _, err := c.customResource.GetOperatorState()
	if err != nil {
		return operatorv1.OperatorCondition{}
	}
	return *cmp.Or(v1helpers.FindOperatorCondition(status.Conditions, conditionType), &operatorv1.OperatorCondition{})
}

// syncCustomResource waits until the client of the ClusterCSIDriver knows the object; it fails only
// if ctx ends before.
func (c *clients) syncCustomResource(ctx context.Context) error {
	informer := c.customResource.Informer() // makes the factory know of it
	c.dynamicInformers.Start(ctx.Done())
	cache.WaitFor(ctx, "", informer.HasSyncedChecker())
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
	for _, factory := range c.factories {
		factory.Start(ctx.Done())
	}
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
