package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// remindInterval is how often the operator repeats an event that must not expire. Events expire an hour after they were
// last recorded, unless the API server has another --event-ttl, such as OpenShift's, of three hours.
const remindInterval = 50 * time.Minute

// remind records that there is no ClusterCSIDriver, in an event about the operator's Deployment that stays until ctx
// ends. There is also an alert for that, but it cannot fire before the cluster's monitoring reads the operator's
// metrics.
func (r *reconciler) remind(ctx context.Context) error {
	for ctx.Err() == nil {
		r.recorder.Warning("ClusterCSIDriverMissing", r.reminder(ctx))
		select {
		case <-r.clock.After(remindInterval):
		case <-ctx.Done():
		}
	}
	return nil
}

func (r *reconciler) reminder(ctx context.Context) string {
	reminder := fmt.Sprintf("There is no ClusterCSIDriver %[1]s, so this operator neither installs the driver nor manages an existing one. "+
		`To have it do so, run: echo '{"apiVersion": "operator.openshift.io/v1", "kind": "ClusterCSIDriver", "metadata": {"name": "%[1]s"}, `+
		`"spec": {"managementState": "Managed"}}' | oc create -f -`, r.driver.CSIName)
	if monitored, err := r.isMonitored(ctx); err != nil {
		klog.ErrorS(err, "Failed to find out whether the operator's namespace is monitored", "namespace", r.operatorNamespace)
	} else if !monitored {
		reminder += fmt.Sprintf(". To also get alerts, have the cluster's monitoring read the metrics of this namespace, and of all operators in it: "+
			"%s", escape.Command("oc label namespace %s %s", r.operatorNamespace, drivers.MonitoringLabel+"=true"))
	}
	return reminder
}

// isMonitored reports whether the cluster's monitoring reads the operator's metrics.
func (r *reconciler) isMonitored(ctx context.Context) (bool, error) {
	c, err := client.New(r.cfg, client.Options{})
	if err != nil {
		return false, err
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Get(ctx, client.ObjectKey{Name: r.operatorNamespace}, namespace); err != nil {
		return false, fmt.Errorf("reading the operator's namespace: %w", err)
	}
	return namespace.Labels[drivers.MonitoringLabel] == "true", nil
}
