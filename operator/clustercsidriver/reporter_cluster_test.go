package clustercsidriver_test

import (
	"context"
	"slices"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const limit = 2 * time.Minute

// TestConditionIsRemovedAfterAnotherReport: a temporary condition, such as the one about a lock, goes when its
// controller applies a status without it. A status that changes nothing must not keep later ones from being written.
func TestConditionIsRemovedAfterAnotherReport(t *testing.T) {
	c, custom, reporter := startReporter(t, "smb.csi.k8s.io", func(string) bool { return false },
		func(resource dynamic.ResourceInterface) dynamic.ResourceInterface { return resource })

	const conditionType = "TestDegraded"
	degraded := applyoperatorv1.OperatorCondition().WithType(conditionType).WithStatus(operatorv1.ConditionTrue).WithReason("Test").WithMessage("it waits")
	apply := func(controller string, applied *applyoperatorv1.OperatorStatusApplyConfiguration, present bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		require.NoErrorf(t, reporter.ApplyOperatorStatus(ctx, controller, applied), "the status of %s is not written", controller)
		require.NoError(t, c.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom))
		found := slices.ContainsFunc(custom.Status.Conditions, func(c operatorv1.OperatorCondition) bool { return c.Type == conditionType })
		assert.Equalf(t, present, found, "once the status of %s is written, the condition is there", controller)
	}
	apply("Test", applyoperatorv1.OperatorStatus().WithConditions(degraded), true)
	apply("Other", applyoperatorv1.OperatorStatus(), true) // changes nothing
	apply("Test", applyoperatorv1.OperatorStatus(), false)
}

// startReporter creates a ClusterCSIDriver and runs a reporter for it, which writes through wrap's result.
func startReporter(t *testing.T, name string, isCurrent func(string) bool, wrap func(dynamic.ResourceInterface) dynamic.ResourceInterface) (*cluster.Cluster, *operatorv1.ClusterCSIDriver, *clustercsidriver.Reporter) {
	t.Helper()
	c := cluster.Shared(t, cluster.Options{})
	custom := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	require.NoError(t, c.Client().Create(t.Context(), custom))
	t.Cleanup(func() { _ = c.Client().Delete(context.Background(), custom) })
	source, err := clustercsidriver.Start(t.Context(), c.Config(), custom.Name, clock.RealClock{})
	require.NoError(t, err)
	api := source.NewClient()
	reporter := clustercsidriver.NewReporter(api, wrap(api.Resource()), clustercsidriver.ReporterOptions{Name: custom.Name, FieldManager: "test", IsCurrent: isCurrent})
	go reporter.Run(t.Context())
	return c, custom, reporter
}
