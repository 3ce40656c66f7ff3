package certification

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// fileSystem is the file system of the EFS driver's manifest.
const fileSystem = "fs-0123456789abcdef0"

// cloudOf starts the cloud of a driver until the test ends. Only EFS needs more than its platform's cloud: somebody
// must create a file system.
func cloudOf(t testing.TB, d drivers.Driver) testbed.Cloud {
	t.Helper()
	if d.ClusterStorage == nil {
		region := testbed.StartAWS(t, d, aws.Options{})
		files := testbed.AddFileSystems(t, region, efs.FileSystem{ID: fileSystem})
		cloud := region.Options()
		files.Serve(&cloud)
		return cloud
	}
	for _, name := range testbed.Platforms() {
		platform, err := testbed.PlatformOf(name)
		require.NoError(t, err)
		if slices.ContainsFunc(platform.Drivers(), func(other drivers.Driver) bool { return other.Name == d.Name }) {
			return platform.Start(t)
		}
	}
	t.Fatalf("no platform has the driver %s", d.Name)
	return testbed.Cloud{}
}

// start starts a testbed with a driver and the images of tests. Their pods run on real nodes.
func start(t testing.TB, d drivers.Driver) *testbed.Testbed {
	t.Helper()
	archives, err := Images(t.Context())
	require.NoError(t, err)
	bed := testbed.Start(t, testbed.Options{
		Driver: d, Cloud: cloudOf(t, d), UserImages: archives,
		Snapshots: d.HasImage(drivers.SnapshotterImage),
	})
	bed.CordonProcessNodes(t)
	return bed
}

// manifests copies the generated files of a driver into a folder.
func manifests(d drivers.Driver, folder string) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	from := os.DirFS(filepath.Join(root, "deploy", "certification", "manifests", d.Name))
	if err := os.CopyFS(folder, from); err != nil {
		return fmt.Errorf("copy the generated files of driver %s: %w", d.Name, err)
	}
	return nil
}

// recordOf returns the file with the record of a driver.
func recordOf(driver string) string { return filepath.Join("testdata", strings.ToLower(driver)+".txt") }
