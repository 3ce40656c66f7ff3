package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
)

// TestTheCertifiedCatalog makes OLM install the operators of all drivers, side by side, from the catalog as it is shipped. Each
// ClusterCSIDriver brings the objects of its driver, and of no other.
func TestTheCertifiedCatalog(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	root, err := tools.Root()
	require.NoError(t, err)
	w.catalog = filepath.Join(root, "catalog", "certified")
	w.serveCatalog()
	shipped, err := declcfg.LoadFS(t.Context(), os.DirFS(w.catalog))
	require.NoError(t, err)
	packages, err := declcfg.ConvertToModel(*shipped)
	require.NoError(t, err)
	all := registry.Packaged()
	for _, driver := range all {
		of := w.of(driver)
		head, err := packages[driver.Package.Name].Channels[driver.Package.Channel].Head()
		require.NoError(t, err)
		assert.Equal(t, head.Name, of.subscribe(nil), "OLM installed")
	}
	for _, driver := range all {
		of := w.of(driver)
		of.checkOperatorProcess()
		assert.Emptyf(t, of.uids(of.driverObjects()...), "without a ClusterCSIDriver these objects of driver %s exist", driver.Name)
		of.step(func(ctx context.Context, c client.Client) error { return journey.InstallDriver(ctx, c, driver.CSIName) })
		installed := of.uids(of.driverObjects()...)
		assert.Equalf(t, len(of.driverObjects()), len(installed), "objects of driver %s when it is available: %v", driver.Name, installed)
		of.checkPermissions()
		of.uninstall() // drivers of different clouds use the same ports of nodes
	}
}
