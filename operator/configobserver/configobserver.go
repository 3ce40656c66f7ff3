// Package configobserver has the controller that copies the cluster's proxy and TLS settings to spec.observedConfig of
// the ClusterCSIDriver.
package configobserver

import (
	"context"
	"encoding/json"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csiconfigobservercontroller"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/operator/eventfilter"
)

// NewController wraps library-go's controller, which notices a new TLS profile only once a minute. customResource
// writes the ClusterCSIDriver of a name.
func NewController(controllerName string, operatorClient v1helpers.OperatorClientWithFinalizers, customResource dynamic.ResourceInterface, name string, informers configinformers.SharedInformerFactory, recorder events.Recorder) factory.Controller {
	writer := observedConfigWriter{operatorClient, customResource, name}
	inner := csiconfigobservercontroller.NewCSIConfigObserverController(controllerName, writer, informers, recorder)
	config := informers.Config().V1()
	return factory.New().
		WithInformers(operatorClient.Informer(), config.Proxies().Informer(), config.APIServers().Informer()).
		WithSync(func(ctx context.Context, syncContext factory.SyncContext) error {
			return eventfilter.SyncThenEmit(ctx, syncContext, inner, recorder)
		}).
		ToController(controllerName, recorder)
}

// WaitForConfig waits until the ClusterCSIDriver has the observed configuration. It fails only if ctx ends before.
func WaitForConfig(ctx context.Context, operatorClient v1helpers.OperatorClient) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		spec, _, _, err := operatorClient.GetOperatorState()
		return err == nil && len(spec.ObservedConfig.Raw) > 0, nil
	})
}

// observedConfigWriter writes spec.observedConfig and nothing else, whatever the resource version: no other client
// writes that field. library-go would update the whole spec, and conflict again and again with the status updates of
// other controllers while the driver's pods wait for the configuration.
type observedConfigWriter struct {
	v1helpers.OperatorClientWithFinalizers
	customResource dynamic.ResourceInterface
	name           string
}

// UpdateOperatorSpec replaces library-go's, which the config observer calls for this field alone.
func (w observedConfigWriter) UpdateOperatorSpec(ctx context.Context, _ string, spec *operatorv1.OperatorSpec) (*operatorv1.OperatorSpec, string, error) {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/observedConfig", "value": spec.ObservedConfig}})
	if err != nil {
		return nil, "", err
	}
	written, err := w.customResource.Patch(ctx, w.name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, "", err
	}
	klog.V(2).InfoS("Wrote the observed configuration", "clusterCSIDriver", w.name)
	return spec, written.GetResourceVersion(), nil
}
