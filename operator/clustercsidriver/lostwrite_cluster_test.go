package clustercsidriver_test

import (
	"context"
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TestLostWriteIsNotAwaited: etcd is restored to the version that the last write of the status was based on, so no watch
// will ever show that write. The reporter writes the status again, without any other change of the object.
func TestLostWriteIsNotAwaited(t *testing.T) {
	t.Parallel()
	c, custom, reporter := startReporter(t, "manila.csi.openstack.org", func(string) bool { return true },
		func(resource dynamic.ResourceInterface) dynamic.ResourceInterface {
			return &restoredResource{ResourceInterface: resource}
		})

	const conditionType = "TestAvailable"
	require.NoError(t, reporter.ApplyOperatorStatus(t.Context(), "Test", applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(conditionType).WithStatus(operatorv1.ConditionTrue).WithReason("Test"))))
	c.Await(t, limit, "the status that was lost", custom, func() error {
		if v1helpers.FindOperatorCondition(custom.Status.Conditions, conditionType) == nil {
			return fmt.Errorf("condition %s is not there; conditions are %v", conditionType, custom.Status.Conditions)
		}
		return nil
	})
}

// A restoredResource loses the first write: it answers as the API server does that performed it, and etcd has the version
// from before.
type restoredResource struct {
	dynamic.ResourceInterface
	lost bool
}

func (r *restoredResource) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	if r.lost {
		return r.ResourceInterface.Patch(ctx, name, kind, patch, options, subresources...)
	}
	r.lost = true
	options.DryRun = []string{metav1.DryRunAll}
	written, err := r.ResourceInterface.Patch(ctx, name, kind, patch, options, subresources...)
	if err == nil {
		written.SetResourceVersion(written.GetResourceVersion() + "0")
	}
	return written, err
}
