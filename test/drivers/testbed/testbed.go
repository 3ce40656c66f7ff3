// Package testbed installs a driver as a user gets it, and runs it: the operator from a catalog by OLM, or by the cluster
// storage operator if the driver has no package, on a cluster whose workers are real nodes, with the real sidecars and the
// real driver, in a cloud that a test simulates.
//
//	bed := testbed.Start(t, testbed.Options{Driver: driver, Cloud: cloud})
//	claim := bed.Claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "files", Class: "efs-sc"})
//	pod := bed.Run(t, testbed.Pod{Name: "writer", Claim: claim, Node: testbed.Nodes[0]})
//	pod.Write(t, "greeting", "ahoy")
//
// Its process nodes only run the catalog: they take the role of a control plane without pods of drivers.
package testbed

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/nfs"
	"github.com/berth-csi/berth/lab/proxy"
	"github.com/berth-csi/berth/test/drivers/images"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/release"
)

// Nodes are the names of the nodes that run drivers and their users.
var Nodes = []string{cluster.RealNode(0), cluster.RealNode(1)}

// Limit is the time limit of a step that usually takes seconds. Images are pulled in it, and the machine may be busy.
const Limit = 3 * time.Minute

// Options configure a testbed.
type Options struct {
	Driver drivers.Driver
	Cloud  Cloud
	// Env are variables that the administrator sets for the operator, such as DRIVER_IMAGE for another image.
	Env []corev1.EnvVar
	// BehindProxy is the port of the cloud's servers that only a proxy reaches. If it is empty, there is no proxy.
	BehindProxy string
	// Snapshots installs the API of snapshots, and its controller.
	Snapshots bool
	// UserImages are archives of images of further pods of users, by repositories.
	UserImages map[string]string
	// Install, which may be nil, installs the driver with OLM in another way than from a catalog of today's operator, such
	// as with a predecessor. MoreImages are further images that its pods have, and MorePrograms programs by the
	// repositories of their images.
	Install      func(testing.TB, *Testbed)
	MoreImages   []string
	MorePrograms map[string]string
}

// Cloud describes the cloud of a cluster and its nodes. They reach nothing else.
type Cloud struct {
	// Platform is the Infrastructure's status of the platform; the default is a public region of AWS.
	Platform *configv1.PlatformStatus
	// Servers maps addresses, "IP:port", at which programs on all nodes and in their pods find servers, to addresses on
	// this machine.
	Servers map[string]string
	// Names maps names of hosts, in lower case, to IPv4 addresses. Only pods on the host network can resolve them.
	Names map[string]string
	// Resolve, which may be nil, returns the addresses of further names, such as of servers created later.
	Resolve func(host string) (address netip.Addr, known bool)
	// CA has the certificates that the cluster trusts in addition to public certificate authorities, in PEM. It may be
	// empty.
	CA []byte
	// NFS serves the exports of all servers with port 2049 among Servers. It may be nil.
	NFS *nfs.Server
	// Objects exist before the operator is installed, in namespaces that exist, such as Secrets of the installer.
	Objects []client.Object
	// Prepare, which may be nil, runs before the operator is installed, for example to let nodes differ
	// (cluster.ListenOn).
	Prepare func(*cluster.Cluster)
}

// Testbed is a cluster with an available driver.
type Testbed struct {
	*cluster.Cluster
	Driver drivers.Driver
	// Proxy is the cluster's proxy. It may be nil.
	Proxy *proxy.Proxy

	services *certificates
}

// Start starts a cluster until the test ends, and installs the driver. For one without a package, the cluster storage
// operator does that, so the cloud must be the driver's platform. It skips the test where real nodes cannot run.
func Start(t testing.TB, options Options) *Testbed {
	t.Helper()
	cluster.NeedRealNodes(t)
	packaged := options.Driver.HasPackage()
	build := release.Programs
	if packaged && options.Install == nil {
		build = release.Build
	}
	made := build(t, options.Driver)
	user, err := tools.Programs(t.Context(), "./lab/user")
	require.NoError(t, err)
	own := made.Images()
	own[journey.UserImage] = user.Path("user")
	maps.Copy(own, options.MorePrograms)
	whole := archives(t, options)
	maps.Copy(whole, options.UserImages)
	bed := &Testbed{Driver: options.Driver}
	if options.BehindProxy != "" {
		options.Cloud, bed.Proxy = options.Cloud.behindProxy(t, options.BehindProxy)
	}
	bed.Cluster = cluster.Start(t, cluster.Options{
		OLM: packaged, RealNodes: len(Nodes), Images: own, ImageArchives: whole, Reachable: options.Cloud.Servers,
	})
	t.Cleanup(func() {
		if t.Failed() {
			bed.report(t)
		}
	})
	bed.prepare(t, options)
	switch {
	case options.Install != nil:
		options.Install(t, bed)
	case packaged:
		bed.Install(t, made, options.Env)
	default:
		bed.runClusterStorage(t, options.Env)
	}
	bed.AwaitReady(t)
	return bed
}

// archives returns the images that a testbed needs, by their repositories.
func archives(t testing.TB, options Options) map[string]string {
	t.Helper()
	more := options.MoreImages
	if options.Snapshots {
		more = append(more, snapshotControllerImage)
	}
	all, err := Archives(t.Context(), nil, options.Driver, options.Env, more...)
	require.NoError(t, err)
	said, err := Programs(options.Driver, options.Env)
	require.NoError(t, err)
	t.Logf("programs of %s: %s", options.Driver.Name, said)
	return all
}

// Archives returns archives of a driver's images and of some more, by their repositories, for cluster.Options. They are
// built first if the cache does not have them. env are variables that the administrator sets for the operator.
func Archives(ctx context.Context, report func(tools.Progress), driver drivers.Driver, env []corev1.EnvVar, more ...string) (map[string]string, error) {
	references := references(driver, env)
	all := map[string]string{}
	for _, reference := range append(slices.Sorted(maps.Values(references)), more...) {
		archive, err := images.Archive(ctx, report, reference)
		if err != nil {
			return nil, err
		}
		all[reference[:strings.LastIndex(reference, ":")]] = archive
	}
	return all, nil
}

// references returns a driver's images by the variables that name them. env are variables that the administrator sets.
func references(driver drivers.Driver, env []corev1.EnvVar) map[string]string {
	found := map[string]string{}
	for _, image := range driver.Images {
		found[image.Env] = image.Default
	}
	for _, variable := range env {
		if _, ok := found[variable.Name]; ok {
			found[variable.Name] = variable.Value
		}
	}
	return found
}

// Programs lists the programs of a driver and its sidecars, such as "driver: the real one, v1.63.1; ours in place of
// csi-livenessprobe". Sidecars that are built from modules are not in it. env are variables that the administrator
// sets.
func Programs(driver drivers.Driver, env []corev1.EnvVar) (string, error) {
	const image = "DRIVER_IMAGE"
	references := references(driver, env)
	ran, err := images.WhichRuns(references[image])
	if err != nil {
		return "", err
	}
	said, ours := []string{"driver: " + ran.String()}, []string{}
	for _, variable := range slices.Sorted(maps.Keys(references)) {
		reference := references[variable]
		ran, err := images.WhichRuns(reference)
		if err != nil {
			return "", err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(path.Base(reference), "origin-"), ":")
		switch {
		case variable == image:
		case ran.Given:
			said = append(said, name+": "+ran.String())
		case !ran.Real:
			ours = append(ours, name)
		}
	}
	if len(ours) > 0 {
		said = append(said, "ours in place of "+strings.Join(ours, ", "))
	}
	return strings.Join(said, "; "), nil
}

// Install makes OLM install the operator of a release, with variables for it, and makes the operator install the driver.
func (b *Testbed) Install(t testing.TB, of release.Release, env []corev1.EnvVar) {
	t.Helper()
	b.Serve(t, catalogName, of.Catalog)
	b.Subscribe(t, env)
	b.step(t, func(ctx context.Context, c client.Client) error {
		return journey.InstallDriver(ctx, c, b.Driver.CSIName)
	})
}

// catalogName is the name of the CatalogSource.
const catalogName = "berth"

// Serve makes Berth serve the catalog in a folder, under a name.
func (b *Testbed) Serve(t testing.TB, name, catalog string) {
	t.Helper()
	b.step(t, func(ctx context.Context, c client.Client) error { return release.Serve(ctx, c, name, catalog) })
}

// Subscribe makes OLM install the operator, with variables for it, from the testbed's own catalog.
func (b *Testbed) Subscribe(t testing.TB, env []corev1.EnvVar) {
	t.Helper()
	subscription := release.Subscription(b.Driver, catalogName, b.Driver.Package.Channel)
	subscription.Spec.Config = &v1alpha1.SubscriptionConfig{
		NodeSelector: map[string]string{workerLabel: ""}, // or OLM keeps the operator's own, and it may run on a process node
		Env:          env,
	}
	b.step(t, func(ctx context.Context, c client.Client) error {
		_, err := journey.Subscribe(ctx, c, subscription)
		return err
	})
}

// RenewCertificates gives all Services certificates of a new CA, as the rotation of OpenShift's service CA does.
func (b *Testbed) RenewCertificates(t testing.TB) {
	t.Helper()
	require.NoError(t, b.services.renew(t.Context()))
}

// step performs a step of an administrator within the Limit.
func (b *Testbed) step(t testing.TB, do func(context.Context, client.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	require.NoError(t, do(ctx, b.Client()))
}

// Follow runs the commands below a heading of a page of documentation, with other names: pairs of a text and its
// replacement. The operator's namespace is the testbed's. It returns the output of the commands.
func (b *Testbed) Follow(t testing.TB, path, heading string, names ...string) string {
	t.Helper()
	reader := page.Reader{
		Docs: filepath.Dir(path), Kubectl: b.Tools().Path("kubectl"), Kubeconfig: b.Kubeconfig(), Limit: 2 * Limit, Dir: t.TempDir(),
		Variables: "NS=" + cluster.OperatorNamespace,
		Names:     strings.NewReplacer(append(names, drivers.ClusterStorageNamespace, cluster.OperatorNamespace)...),
	}
	return reader.Follow(t, filepath.Base(path), heading)
}

// proxyAddress is where nodes and their pods find the cluster's proxy.
const proxyAddress = "10.0.96.1:3128"

// noProxy lists the destinations that OpenShift lets its pods reach without the proxy: its own networks and the
// metadata service.
const noProxy = ".cluster.local,.svc,10.0.0.0/24,10.128.0.0/14,10.217.0.0/16,127.0.0.1,169.254.169.254,localhost"

// behindProxy returns the cloud behind a proxy, which serves until the test ends: only the proxy reaches the servers
// with a port, and the cluster's Proxy names it.
func (c Cloud) behindProxy(t testing.TB, port string) (Cloud, *proxy.Proxy) {
	t.Helper()
	servers, hidden := map[string]string{}, map[string]string{}
	for at, to := range c.Servers {
		if strings.HasSuffix(at, ":"+port) {
			hidden[at] = to
		} else {
			servers[at] = to
		}
	}
	for name, ip := range c.Names {
		if to, known := hidden[net.JoinHostPort(ip, port)]; known {
			hidden[net.JoinHostPort(name, port)] = to
		}
	}
	started := proxy.Start(t, hidden)
	servers[proxyAddress] = started.Address
	prepare := c.Prepare
	c.Servers = servers
	c.Prepare = func(c *cluster.Cluster) {
		require.NoError(t, setProxy(t.Context(), c.Client()))
		if prepare != nil {
			prepare(c)
		}
	}
	return c, started
}

func setProxy(ctx context.Context, c client.Client) error {
	config := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
		return err
	}
	config.Status = configv1.ProxyStatus{HTTPProxy: "http://" + proxyAddress, HTTPSProxy: "http://" + proxyAddress, NoProxy: noProxy}
	return c.Status().Update(ctx, config)
}
