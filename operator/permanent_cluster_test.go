package operator_test

import (
	"context"
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// TestPermanentDriver: a driver that its platform needs stays as it is when its ClusterCSIDriver is deleted, or asks for its
// removal. A finalizer that the same operator added as long as OLM ran it does not hold the ClusterCSIDriver.
func TestPermanentDriver(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.create(env.customResource())
	stop := env.startOperator()
	env.waitForConditions(allWell)
	stop()
	before := env.uids()

	env.makePermanent()
	env.startOperator()
	cluster.Eventually(t, limit, "the finalizer to be gone", func(ctx context.Context) error {
		custom := env.customResource()
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if len(custom.Finalizers) > 0 {
			return fmt.Errorf("there are %q", custom.Finalizers)
		}
		return nil
	})
	require.NoError(t, env.Client().Delete(t.Context(), env.customResource()))
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
	env.create(env.customResource())
	env.waitForConditions(allWell)

	env.setManagementState(operatorv1.Removed)
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionTrue, "Degraded": operatorv1.ConditionTrue})
	refusal := condition(custom, env.driver.ConditionPrefix+"ManagementStateDegraded")
	assert.Equalf(t, "RemovalNotSupported", refusal.Reason, "reason of the refusal %+v", refusal)
	env.setManagementState(operatorv1.Managed)
	env.waitForConditions(allWell)
	assert.Equal(t, before, env.uids(), "UIDs of the driver's objects")
}
