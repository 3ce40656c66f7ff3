package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// TestRefusedPods: the label for Pod Security on the driver's namespace forbids the pods of the DaemonSet and of the
// Deployment. The operator is Degraded within two minutes, with the API server's message, until the label allows them.
func TestRefusedPods(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	label := func(level string) {
		t.Helper()
		namespace := &corev1.Namespace{}
		namespace.Name = env.home
		require.NoError(t, env.Client().Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level))))
	}
	label("restricted")
	env.create(env.customResource())
	env.startOperator()
	began := time.Now()
	refused := env.driver.ConditionPrefix + "DriverPodsDegraded"
	cluster.Eventually(t, limit, "Degraded to quote the API server about both", func(ctx context.Context) error {
		custom := env.customResource()
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		c := condition(custom, refused)
		for _, word := range []string{"pods of DaemonSet " + env.home + "/efs-csi-node cannot be created: ", "pods of Deployment " + env.home + "/", `violates PodSecurity "restricted`} {
			if c.Status != operatorv1.ConditionTrue || c.Reason != "PodsRefused" || !strings.Contains(c.Message, word) || condition(custom, "Degraded").Status != operatorv1.ConditionTrue {
				return fmt.Errorf("condition %s is %s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
			}
		}
		return nil
	})
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
	label("privileged")
	env.waitForConditions(allWell)
}
