package testbed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/azuredisk"
	"github.com/berth-csi/berth/drivers/azurefile"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/drivers/gcppd"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/drivers/vsphere"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/release"
)

// Platform is a cloud where the cluster storage operator runs drivers.
type Platform struct {
	Type configv1.PlatformType
	// start starts the cloud until the test ends.
	start func(testing.TB) Cloud
}

// platforms are the clouds by the names that users give them.
var platforms = map[string]Platform{
	"aws":       {configv1.AWSPlatformType, func(t testing.TB) Cloud { return StartAWS(t, ebs.Driver, aws.Options{}).Options() }},
	"azure":     {configv1.AzurePlatformType, azurePlatform},
	"gcp":       {configv1.GCPPlatformType, func(t testing.TB) Cloud { return StartGCP(t, gcppd.Driver, GCPOptions{}).Options() }},
	"openstack": {configv1.OpenStackPlatformType, func(t testing.TB) Cloud { return StartOpenStack(t, "default").Options() }},
	"vsphere":   {configv1.VSpherePlatformType, func(t testing.TB) Cloud { return StartVSphere(t).Options(vsphere.Driver) }},
}

func azurePlatform(t testing.TB) Cloud {
	cloud, _ := startAzureCloud(t, AzureOptions{}, azuredisk.Driver, azurefile.Driver)
	return cloud
}

// Platforms returns the names of all platforms, sorted.
func Platforms() []string { return slices.Sorted(maps.Keys(platforms)) }

// PlatformOf returns a platform by its name, such as "aws".
func PlatformOf(name string) (Platform, error) {
	platform, found := platforms[name]
	if !found {
		return Platform{}, fmt.Errorf("there is no platform %q with drivers, want one of %s", name, strings.Join(Platforms(), ", "))
	}
	return platform, nil
}

// Drivers returns the drivers that the cluster storage operator may run on the platform.
func (p Platform) Drivers() []drivers.Driver {
	return slices.DeleteFunc(clusterstorage.OfPlatforms(registry.All()), func(d drivers.Driver) bool { return d.ClusterStorage.Platform != p.Type })
}

// Archives returns archives of the images of the platform's drivers, as the function Archives does.
func (p Platform) Archives(ctx context.Context, report func(tools.Progress)) (map[string]string, error) {
	all := map[string]string{}
	for _, driver := range p.Drivers() {
		some, err := Archives(ctx, report, driver, nil, snapshotControllerImage)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// Start starts the cloud until the test ends.
func (p Platform) Start(t testing.TB) Cloud { return p.start(t) }

// Install runs the cluster storage operator, from its manifests, on a cluster that is in the platform's cloud.
func (p Platform) Install(ctx context.Context, api client.Client) error {
	if err := cordonProcessNodes(ctx, api); err != nil {
		return err
	}
	return release.Payload{Version: cluster.OpenShiftVersion}.Apply(ctx, api, registry.All())
}

// Enter puts a running cluster into a cloud, until the test ends. The cluster's nodes already reach the cloud's servers
// (cluster.Options.Reachable). Enter installs no driver.
func Enter(t testing.TB, c *cluster.Cluster, options Options) {
	t.Helper()
	bed := &Testbed{Cluster: c}
	bed.prepare(t, options)
}
