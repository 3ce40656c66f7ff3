package controllers

import (
	"context"
	"encoding/json"
	"sync"

	operatorv1 "github.com/openshift/api/operator/v1"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csiconfigobservercontroller"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
)

// A ConfigObserver observes the configuration. It wraps library-go's controller, which notices a new TLS profile only once a
// minute.
type ConfigObserver struct {
	factory.Controller
	observer *observer
}

// NewConfigObserver returns the controller that copies the cluster's proxy and TLS settings to spec.observedConfig
// of the ClusterCSIDriver.
func NewConfigObserver(controllerName string, operatorClient v1helpers.OperatorClientWithFinalizers, customResource dynamic.ResourceInterface, name string, informers configinformers.SharedInformerFactory, recorder events.Recorder) *ConfigObserver {
	o := &observer{OperatorClientWithFinalizers: operatorClient, customResource: customResource, name: name, ready: make(chan struct{})}
	inner := csiconfigobservercontroller.NewCSIConfigObserverController(controllerName, o, informers, recorder)
	config := informers.Config().V1()
	return &ConfigObserver{observer: o, Controller: factory.New().
		WithInformers(operatorClient.Informer(), config.Proxies().Informer(), config.APIServers().Informer()).
		WithSync(func(ctx context.Context, syncContext factory.SyncContext) error {
			if err := SyncThenEmit(ctx, syncContext, inner, recorder); err != nil {
				return err
			}
			o.confirm()
			return nil
		}).
		ToController(controllerName, recorder)}
}

// Ready returns a channel that is closed once the controller has observed the configuration.
func (c *ConfigObserver) Ready() <-chan struct{} { return c.observer.ready }

// Client returns an operator client that shows the observed configuration instead of spec.observedConfig. Anybody who
// applies an exported ClusterCSIDriver writes that field, and pods would be replaced until it is corrected. Before the
// controller is ready, the client shows no configuration. Its informer notifies of changes.
func (c *ConfigObserver) Client() v1helpers.OperatorClientWithFinalizers {
	return observedClient{c.observer.OperatorClientWithFinalizers, c.observer}
}

// observedClient is an operator client that shows the observed configuration.
type observedClient struct {
	v1helpers.OperatorClientWithFinalizers
	observer *observer
}

func (c observedClient) GetOperatorState() (*operatorv1.OperatorSpec, *operatorv1.OperatorStatus, string, error) {
	spec, status, resourceVersion, err := c.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return nil, nil, "", err
	}
	spec = spec.DeepCopy()
	spec.ObservedConfig = runtime.RawExtension{Raw: c.observer.observed()}
	return spec, status, resourceVersion, nil
}

// An observer is the operator client of library-go's controller. It stores the observed configuration, and writes only
// spec.observedConfig. It ignores the resource version, because the operator's value is the right one. library-go would
// update the whole spec, and conflict again and again with the status updates of other controllers while the driver's
// pods wait for the configuration.
type observer struct {
	v1helpers.OperatorClientWithFinalizers
	customResource dynamic.ResourceInterface
	name           string

	mu     sync.Mutex
	last   []byte // spec.observedConfig as library-go last read or wrote it
	config []byte // the observed configuration, as JSON
	ready  chan struct{}
}

// GetOperatorState returns the state that library-go compares with its observation.
func (o *observer) GetOperatorState() (*operatorv1.OperatorSpec, *operatorv1.OperatorStatus, string, error) {
	spec, status, resourceVersion, err := o.OperatorClientWithFinalizers.GetOperatorState()
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.last = spec.ObservedConfig.Raw
	}
	return spec, status, resourceVersion, err
}

// UpdateOperatorSpec replaces library-go's method. The config observer calls it for this field alone, if the field
// differs. The configuration is set before the write: controllers that the write triggers use it.
func (o *observer) UpdateOperatorSpec(ctx context.Context, _ string, spec *operatorv1.OperatorSpec) (*operatorv1.OperatorSpec, string, error) {
	config, err := json.Marshal(spec.ObservedConfig)
	if err != nil {
		return nil, "", err
	}
	o.set(config)
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/observedConfig", "value": json.RawMessage(config)}})
	if err != nil {
		return nil, "", err
	}
	written, err := o.customResource.Patch(ctx, o.name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, "", err
	}
	klog.V(2).InfoS("Wrote the observed configuration", "clusterCSIDriver", o.name)
	return spec, written.GetResourceVersion(), nil
}

// confirm sets the configuration to the value that library-go last read or wrote. Its sync succeeded, so it has
// observed that value.
func (o *observer) confirm() {
	o.mu.Lock()
	last := o.last
	o.mu.Unlock()
	o.set(last)
}

func (o *observer) set(config []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.config = config, config
	select {
	case <-o.ready:
	default:
		close(o.ready)
	}
}

func (o *observer) observed() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.config
}
