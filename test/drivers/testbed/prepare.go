package testbed

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workerLabel is the label of nodes for pods of users. Only real nodes have it.
const workerLabel = "node-role.kubernetes.io/worker"

// prepare makes the cluster look like OpenShift in the cloud for the driver's operator.
func (b *Testbed) prepare(t testing.TB, options Options) {
	t.Helper()
	cloud := options.Cloud
	b.step(t, func(ctx context.Context, _ client.Client) error {
		surroundings, err := Surround(ctx, b.Cluster, cloud, func(err error) { t.Error(err) })
		if err != nil {
			return err
		}
		t.Cleanup(surroundings.Close)
		b.services = surroundings.services
		return nil
	})
	if options.Snapshots {
		b.installSnapshots(t)
	}
	for _, object := range cloud.Objects {
		require.NoError(t, b.Client().Create(t.Context(), object))
	}
	if cloud.Prepare != nil {
		cloud.Prepare(b.Cluster)
	}
}
