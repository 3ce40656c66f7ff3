package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
)

// TestTheCertifiedCatalog has OLM install the operators of all drivers, side by side, from the catalog as it
// is shipped. Each ClusterCSIDriver brings the objects of its driver, and of no other.
func TestTheCertifiedCatalog(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	w.catalog = filepath.Join(root, "catalog", "certified")
	w.serveCatalog()
	all := registry.All()
	for _, driver := range all {
		of := w.of(driver)
		if got, want := of.subscribe(nil), driver.Package.Name+".v1.0.0"; got != want {
			t.Errorf("OLM installed %s, want %s", got, want)
		}
	}
	for _, driver := range all {
		of := w.of(driver)
		of.checkOperatorProcess()
		if early := of.uids(of.driverObjects()...); len(early) > 0 {
			t.Errorf("without a ClusterCSIDriver these objects of driver %s exist: %v", driver.Name, early)
		}
		of.step(func(ctx context.Context, c client.Client) error { return journey.InstallDriver(ctx, c, driver.CSIName) })
		installed := of.uids(of.driverObjects()...)
		if got, want := len(installed), len(of.driverObjects()); got != want {
			t.Errorf("driver %s is available with %d of its %d objects: %v", driver.Name, got, want, installed)
		}
		of.checkPermissions()
	}
}
