// Package e2e proves Berth's main job on a real cluster: from a driver's definition, through a
// catalog and the Operator Lifecycle Manager (OLM), to a volume that an application can mount.
package e2e

import (
	"cmp"
	"context"
	"flag"
	"maps"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/crashloop"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
	"github.com/berth-csi/berth/test/walk"
)

func TestMain(m *testing.M) {
	cluster.Init()
	crashloop.Init()
	// Tests wait for OLM and for controllers most of the time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

const (
	limit       = 5 * time.Minute // for each step
	namespace   = cluster.OperatorNamespace
	catalogName = "berth"

	operatorImage = release.OperatorImage
	opmImage      = "quay.io/operator-framework/opm"
)

// environment is a cluster with OLM, and a catalog that holds the operator of a driver.
type environment struct {
	*cluster.Cluster
	t       testing.TB
	driver  drivers.Driver
	account walk.Account // the operator's
	berth   string       // the command
	program string       // the operator's
	catalog string       // folder
}

// efs returns the driver of most of these tests.
func efs(t testing.TB) drivers.Driver {
	t.Helper()
	driver, err := registry.Get("efs")
	require.NoError(t, err)
	return driver
}

// newEnvironment builds Berth's commands, makes a catalog with them as a release engineer would, and starts a cluster
// whose nodes know them, in addition to the options.
func newEnvironment(t testing.TB, driver drivers.Driver, options cluster.Options) *environment {
	t.Helper()
	opm, err := tools.OPM(t.Context(), nil)
	require.NoError(t, err)
	made := release.Build(t, driver)
	run(t, opm, "validate", made.Catalog)
	images := made.Images()
	images[opmImage] = opm
	maps.Copy(images, options.Images)
	options.OLM, options.Images = true, images
	c := cluster.Start(t, options)
	w := &environment{
		Cluster: c, t: t, driver: driver, catalog: made.Catalog, berth: made.Berth, program: made.Operator,
		account: accountOf(c, driver),
	}
	w.enterCloud(openstack.Start(t, "default"))
	return w
}

// of is the same environment, seen from another driver.
func (w *environment) of(driver drivers.Driver) *environment {
	other := *w
	other.driver, other.account = driver, accountOf(w.Cluster, driver)
	return &other
}

func accountOf(c *cluster.Cluster, driver drivers.Driver) walk.Account {
	return walk.Account{Cluster: c, Namespace: namespace, Name: driver.Operator.Name}
}

// enterCloud creates the installer's objects with a cloud's credentials: a driver may have to query the cloud.
func (w *environment) enterCloud(cloud *openstack.Cloud) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredential.RootNamespace, Name: cloudcredential.RootOpenStack},
		Data:       map[string][]byte{"clouds.yaml": cloud.CloudsYAML()},
	})
}

func run(t testing.TB, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoErrorf(t, err, "%s %q\n%s", filepath.Base(program), args, out)
}

// step takes one step of the journey, and fails the test if it takes too long.
func (w *environment) step(do func(ctx context.Context, c client.Client) error) {
	w.t.Helper()
	w.stepWithin(limit, do)
}

// stepWithin is step with another limit.
func (w *environment) stepWithin(limit time.Duration, do func(ctx context.Context, c client.Client) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	require.NoError(w.t, do(ctx, w.Client()))
}

// serveCatalog has the catalog served by Berth.
func (w *environment) serveCatalog() {
	w.t.Helper()
	w.serve(catalogName, w.catalog)
}

// serve has a catalog in a folder served by Berth.
func (w *environment) serve(name, folder string) {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		return release.Serve(ctx, c, name, folder)
	})
}

// subscribe installs the operator and returns the name of its ClusterServiceVersion.
func (w *environment) subscribe(config *v1alpha1.SubscriptionConfig) (csv string) {
	w.t.Helper()
	subscription := w.subscription(catalogName, w.driver.Package.Channel)
	subscription.Spec.Config = config
	w.step(func(ctx context.Context, c client.Client) (err error) {
		csv, err = journey.Subscribe(ctx, c, subscription)
		return err
	})
	return csv
}

// subscription asks for the operator, or its predecessor, from a catalog.
func (w *environment) subscription(catalog, channel string) *v1alpha1.Subscription {
	return release.Subscription(w.driver, catalog, channel)
}

// driverObjects returns all objects of the driver, in its own namespace, or else the operator's.
func (w *environment) driverObjects() []*unstructured.Unstructured {
	return w.driverObjectsIn(cmp.Or(w.driver.Namespace, namespace))
}

// driverObjectsIn are the same in another namespace.
func (w *environment) driverObjectsIn(in string) []*unstructured.Unstructured {
	w.t.Helper()
	manifests, err := w.driver.Operand(drivers.Values{Namespace: in, Image: func(env string) string { return env }})
	require.NoError(w.t, err)
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		objects = append(objects, m.Object)
	}
	return objects
}

// uids returns the UIDs of the existing objects among those given, by kind and name.
func (w *environment) uids(objects ...*unstructured.Unstructured) map[string]string {
	w.t.Helper()
	return walk.UIDs(w.t, w.Cluster, objects...)
}
