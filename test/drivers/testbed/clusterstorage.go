package testbed

import (
	"context"
	"fmt"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
)

// runClusterStorage runs the cluster storage operator, and waits until it reports that the driver runs.
func (b *Testbed) runClusterStorage(t testing.TB, env []corev1.EnvVar) {
	t.Helper()
	b.StartClusterStorage(t, env)
	b.step(t, func(ctx context.Context, c client.Client) error { return journey.AwaitDriver(ctx, c, b.Driver.CSIName) })
	b.step(t, AwaitClusterOperator)
}

// StartClusterStorage runs the cluster storage operator from its manifests, with variables for the driver's operator. The platform's other
// drivers are Unmanaged, as if an administrator had said so.
func (b *Testbed) StartClusterStorage(t testing.TB, env []corev1.EnvVar) {
	t.Helper()
	payload := release.Payload{Version: cluster.OpenShiftVersion, Images: map[string]string{}}
	for _, variable := range env {
		i := slices.IndexFunc(b.Driver.Images, func(image drivers.Image) bool { return image.Env == variable.Name })
		require.GreaterOrEqualf(t, i, 0, "the cluster storage operator passes no variable %s to the driver's operator", variable.Name)
		payload.Images[clusterstorage.ImageVariable(b.Driver, b.Driver.Images[i])] = variable.Value
	}
	b.step(t, func(ctx context.Context, c client.Client) error {
		if err := cordonProcessNodes(ctx, c); err != nil {
			return err
		}
		if err := leaveOut(ctx, c, b.Driver); err != nil {
			return err
		}
		return payload.Apply(ctx, c, registry.All())
	})
}

// CordonProcessNodes makes all pods that are created from now on run on real nodes.
func (b *Testbed) CordonProcessNodes(t testing.TB) {
	t.Helper()
	b.step(t, cordonProcessNodes)
}

// cordonProcessNodes makes operators run on real nodes, which reach the cloud.
func cordonProcessNodes(ctx context.Context, c client.Client) error {
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if slices.Contains(Nodes, node.Name) {
			continue
		}
		if err := c.Patch(ctx, &node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
			return err
		}
	}
	return nil
}

// leaveOut creates the ClusterCSIDrivers of the other drivers of a driver's platform, so that nobody installs them.
func leaveOut(ctx context.Context, c client.Client, driver drivers.Driver) error {
	for _, other := range registry.All() {
		if other.Name == driver.Name || other.ClusterStorage == nil || other.ClusterStorage.Platform != driver.ClusterStorage.Platform {
			continue
		}
		custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: other.CSIName},
			Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Unmanaged}}}
		if err := journey.Ensure(ctx, c, custom); err != nil {
			return err
		}
	}
	return nil
}

// AwaitClusterOperator waits until the cluster storage operator reports that all is well.
func AwaitClusterOperator(ctx context.Context, c client.Client) error {
	want := map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{
		configv1.OperatorAvailable: configv1.ConditionTrue, configv1.OperatorProgressing: configv1.ConditionFalse, configv1.OperatorDegraded: configv1.ConditionFalse,
	}
	return cluster.Until(ctx, "ClusterOperator "+clusterstorage.ClusterOperatorName+" to be available", func(ctx context.Context) error {
		operator := &configv1.ClusterOperator{}
		if err := c.Get(ctx, client.ObjectKey{Name: clusterstorage.ClusterOperatorName}, operator); err != nil {
			return err
		}
		met := 0
		for _, condition := range operator.Status.Conditions {
			if want[condition.Type] == condition.Status {
				met++
			}
		}
		if met < len(want) {
			return fmt.Errorf("its conditions are %+v", operator.Status.Conditions)
		}
		return nil
	})
}
