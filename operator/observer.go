package operator

import (
	"context"
	"encoding/json"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csiconfigobservercontroller"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// newConfigObserver wraps library-go's controller, which hears of a new TLS profile only once a minute.
func (o *operator) newConfigObserver(c *clients) factory.Controller {
	name := o.driver.ConditionPrefix + "DriverCSIConfigObserverController"
	writer := observedConfigWriter{c.customResource, c.dynamic.Resource(clusterCSIDrivers), o.driver.CSIName}
	inner := csiconfigobservercontroller.NewCSIConfigObserverController(name, writer, c.configInformers, o.recorder)
	config := c.configInformers.Config().V1()
	return factory.New().
		WithInformers(c.customResource.Informer(), config.Proxies().Informer(), config.APIServers().Informer()).
		WithSync(func(ctx context.Context, called factory.SyncContext) error { return o.tellAfter(ctx, called, inner) }).
		ToController(name, o.recorder)
}

// observedConfigWriter writes spec.observedConfig of a ClusterCSIDriver and nothing else, whatever has
// become of the object meanwhile: nobody else writes that field. library-go would write all of the spec,
// and try again and again while the other controllers write the status; the driver's pods wait for it.
type observedConfigWriter struct {
	v1helpers.OperatorClientWithFinalizers
	customResources dynamic.ResourceInterface
	name            string
}

// UpdateOperatorSpec stands in for library-go's, which the config observer calls for this field alone.
func (w observedConfigWriter) UpdateOperatorSpec(ctx context.Context, _ string, spec *operatorv1.OperatorSpec) (*operatorv1.OperatorSpec, string, error) {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/observedConfig", "value": spec.ObservedConfig}})
	if err != nil {
		return nil, "", err
	}
	written, err := w.customResources.Patch(ctx, w.name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, "", err
	}
	return spec, written.GetResourceVersion(), nil
}
