// Package release does the work of a release engineer: from a driver's definition, it builds a bundle, a catalog with that bundle, and the
// programs that serve them on a cluster.
package release

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/sample"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
)

// Repositories of the images of Berth's commands.
const (
	OperatorImage = "quay.io/berth-csi/berth-operator"
	BerthImage    = "quay.io/berth-csi/berth"
)

// Release is the operator of a driver in a catalog.
type Release struct {
	// Berth and Operator are the paths of the programs berth and berth-operator.
	Berth, Operator string
	// Bundles are the folders of the versions, the first one first.
	Bundles []string
	// Catalog is the folder of a catalog that has them.
	Catalog string
}

// Build builds Berth's commands, and makes a catalog with them that has version 1.0.0 of the driver's operator.
func Build(t testing.TB, driver drivers.Driver) Release {
	t.Helper()
	return BuildVersion(t, driver, "1.0.0")
}

// BuildVersion is Build with another version.
func BuildVersion(t testing.TB, driver drivers.Driver, version string) Release {
	t.Helper()
	r := Programs(t, driver)
	bundle := filepath.Join(t.TempDir(), version)
	r.run(t, "bundle", "generate", driver.Name, "--version", version, "--output-dir", bundle)
	return r.with(t, bundle)
}

// Programs builds Berth's commands, without a catalog. For the sample driver, which is in no release, they are built with
// it.
func Programs(t testing.TB, driver drivers.Driver) Release {
	t.Helper()
	build := tools.Programs
	if driver.Name == sample.Driver.Name {
		build = func(ctx context.Context, packages ...string) (tools.Dir, error) {
			return tools.ProgramsWithTag(ctx, "sample", packages...)
		}
	}
	programs, err := build(t.Context(), "./cmd/berth", "./cmd/berth-operator")
	require.NoError(t, err)
	return Release{Berth: programs.Path("berth"), Operator: programs.Path("berth-operator")}
}

// Update returns the release with one more version, which updates the last one: its operator has another image.
func (r Release) Update(t testing.TB) Release {
	t.Helper()
	return r.UpdateTo(t, OperatorImage)
}

// UpdateTo is Update with the repository of the operator's image, such as one that has another program.
func (r Release) UpdateTo(t testing.TB, repository string) Release {
	t.Helper()
	version := fmt.Sprintf("1.0.%d", len(r.Bundles))
	bundle := filepath.Join(t.TempDir(), version)
	r.run(t, "bundle", "bump", r.Bundles[len(r.Bundles)-1], "--image", "OPERATOR_IMAGE="+repository+":v"+version, "--output-dir", bundle)
	return r.with(t, bundle)
}

// with returns the release with one more bundle, in a new catalog.
func (r Release) with(t testing.TB, bundle string) Release {
	t.Helper()
	r.Bundles = append(slices.Clone(r.Bundles), bundle)
	r.Catalog = filepath.Join(t.TempDir(), "catalog")
	r.run(t, append([]string{"catalog", "build", "--output-dir", r.Catalog}, r.Bundles...)...)
	return r
}

func (r Release) run(t testing.TB, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), r.Berth, args...).CombinedOutput()
	require.NoErrorf(t, err, "berth %q\n%s", args, out)
}

// Images returns the images that a cluster needs, for cluster.Options.
func (r Release) Images() map[string]string {
	return map[string]string{OperatorImage: r.Operator, BerthImage: r.Berth}
}

// Serve makes Berth serve the catalog in a folder, under a name, on nodes that know the catalog's image.
func Serve(ctx context.Context, c client.Client, name, folder string) error {
	return journey.ServeCatalog(ctx, c, journey.Catalog{
		Name: name, Folder: folder, Port: journey.CatalogPort, Image: BerthImage + ":test",
		Args: []string{"catalog", "serve", journey.CatalogFolder, fmt.Sprintf("--address=$(POD_IP):%d", journey.CatalogPort)},
	})
}

// Subscription asks for the driver's operator from a catalog, in the namespace for operators of the whole cluster.
func Subscription(driver drivers.Driver, catalog, channel string) *v1alpha1.Subscription {
	return &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: driver.Package.Name, Namespace: cluster.OperatorNamespace},
		Spec: &v1alpha1.SubscriptionSpec{
			CatalogSource: catalog, CatalogSourceNamespace: cluster.CatalogNamespace,
			Package: driver.Package.Name, Channel: channel,
		},
	}
}
