// Package olmv1 runs OLM v1 on a cluster with real nodes: the released catalogd and operator-controller, which pull the images of
// catalogs and bundles from a registry.
//
// Both run in one pod, where an entry of /etc/hosts leads operator-controller to catalogd, as no node has service addresses. The API
// server does not call catalogd's webhook, which only sets a label that AddCatalog sets.
package olmv1

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/authority"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// Namespace is where OLM v1 runs.
const Namespace = "olmv1-system"

// limit is for a step that usually takes seconds. Images are pulled in it, and the machine may be busy.
const limit = 4 * time.Minute

// node is where OLM runs, and address where it reaches the registry.
var node = cluster.RealNode(0)

const address = "10.0.66.1:5000"

// service is the Service of catalogd, and served its host.
const (
	service = "catalogd-service"
	served  = service + "." + Namespace + ".svc"
)

// images are the repositories of the images of OLM's programs.
var images = map[string]string{
	"catalogd":            "quay.io/operator-framework/catalogd",
	"operator-controller": "quay.io/operator-framework/operator-controller",
}

// boxcutter is the module of OLM's programs that no module proxy serves.
const boxcutter = "pkg.package-operator.run/boxcutter"

// Images returns OLM's programs by the repositories of their images, for cluster.Options. It skips the test if the user
// has given neither a program nor its source, or if the machine cannot have real nodes.
func Images(t testing.TB) map[string]string {
	t.Helper()
	cluster.NeedRealNodes(t)
	found := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		path, err := programs.Given(name)
		if path == "" && err == nil {
			path, err = buildProgram(t, name)
		}
		require.NoError(t, err)
		found[images[name]] = path
	}
	return found
}

// buildProgram builds a program of OLM.
func buildProgram(t testing.TB, name string) (string, error) {
	t.Helper()
	source, err := programs.Folder(programs.BoxcutterVariable)
	if err != nil {
		return "", err
	}
	if source == "" {
		t.Skip(missing(name))
	}
	program, err := programOf(name, source)
	if err != nil {
		return "", err
	}
	return program.Ensure(t.Context(), nil)
}

// programOf returns a program of OLM that is built with a source of boxcutter.
func programOf(name, source string) (tools.Program, error) {
	content, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return tools.Program{}, fmt.Errorf("%s names no folder with the source of %s: %w", programs.BoxcutterVariable, boxcutter, err)
	}
	if module := modfile.ModulePath(content); module != boxcutter {
		return tools.Program{}, fmt.Errorf("%s=%s has the source of module %q, want %s", programs.BoxcutterVariable, source, module, boxcutter)
	}
	return tools.Program{
		Name: name, Folder: pins, Replaced: map[string]string{boxcutter: source}, Aligned: true, Package: "github.com/operator-framework/operator-controller/cmd/" + name,
		Flags: []string{"-tags", "containers_image_openpgp,exclude_graphdriver_btrfs", "-ldflags", "-s -w"},
	}, nil
}

// pins is the folder that pins OLM's programs.
const pins = "lab/modules/olmv1"

// missing returns the requirements of a program of OLM in one line.
func missing(name string) string {
	version := "pinned"
	if pinned, err := tools.PinsOf(pins); err == nil {
		if v, err := pinned.Version(boxcutter); err == nil {
			version = v
		}
	}
	return fmt.Sprintf("OLM v1's %s is missing: want %s=DIR, a folder with catalogd and operator-controller, or %s=DIR, the source of %s %s, which no module proxy serves",
		name, programs.GivenVariable, programs.BoxcutterVariable, boxcutter, version)
}

// OLM is OLM v1 on a cluster.
type OLM struct {
	cluster *cluster.Cluster
	t       testing.TB
	// push is where this machine reaches the registry.
	push string
	// Authority has signed the certificates of OLM's servers.
	Authority []byte
}

// Options say how OLM v1 is set up.
type Options struct {
	// Features are enabled, such as "BoxcutterRuntime".
	Features []string
	// Gates are further settings of feature gates, as the flag --feature-gates has them.
	Gates string
	// Experimental serves the fields of experimental features, such as spec.config of ClusterExtensions.
	Experimental bool
	// Registry, which may be nil, is another registry, which the node reaches at the registry's own address. OLM then
	// trusts it, has its login as the global pull secret, and runs on the host network. OLM then has no registry of its
	// own: nothing can be pushed.
	Registry *registry.Secure
}

// Start starts OLM v1 until the test ends. The cluster's options must have had Images and a real node.
func Start(t testing.TB, c *cluster.Cluster, options Options) *OLM {
	t.Helper()
	o := &OLM{cluster: c, t: t}
	types := crds.OLMv1
	if options.Experimental {
		types = crds.OLMv1Experimental
	}
	require.NoError(t, types.Create(t.Context(), c.Client()))
	require.NoError(t, c.EnsureNamespace(t.Context(), Namespace))
	o.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "olmv1-cluster-admin"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: "default"}}})
	config, own := o.certificates(options.Registry)
	if options.Registry == nil {
		o.startRegistry(config)
	} else {
		o.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: pullSecret}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: options.Registry.Login}})
	}
	o.create(own)
	pod := o.pod(options)
	o.create(pod)
	o.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: service},
		Spec: corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 8443}}}})
	t.Cleanup(func() {
		if t.Failed() {
			o.report()
		}
	})
	c.Await(t, limit, "OLM v1 to be ready", pod, func() error {
		if cluster.IsReady(pod) {
			return nil
		}
		return fmt.Errorf("its containers are %+v", pod.Status.ContainerStatuses)
	})
	return o
}

// create creates an object, as soon as the API server serves its API.
func (o *OLM) create(object client.Object) {
	o.t.Helper()
	cluster.Eventually(o.t, limit, "the API server to create "+object.GetName(), func(ctx context.Context) error {
		return o.cluster.Client().Create(ctx, object)
	})
}

// certificates returns the certificate of OLM's servers and of its registry, and the Secret with it for OLM's pod. OLM
// trusts its authority, and the authority of another registry, which may be nil.
func (o *OLM) certificates(other *registry.Secure) (*tls.Config, *corev1.Secret) {
	o.t.Helper()
	made, err := authority.New("olmv1")
	require.NoError(o.t, err)
	host, _, err := net.SplitHostPort(address)
	require.NoError(o.t, err)
	config, err := made.Config([]string{host, served})
	require.NoError(o.t, err)
	key, err := x509.MarshalPKCS8PrivateKey(config.Certificates[0].PrivateKey)
	require.NoError(o.t, err)
	o.Authority = made.PEM()
	trusted := o.Authority
	if other != nil {
		trusted = slices.Concat(trusted, other.Authority)
	}
	return config, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "certificates"}, Data: map[string][]byte{
		"ca.crt":  trusted,
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: config.Certificates[0].Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
}

// startRegistry starts a registry that this machine reaches without TLS, and OLM with it.
func (o *OLM) startRegistry(config *tls.Config) {
	o.t.Helper()
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(handler)
	o.t.Cleanup(server.Close)
	o.push = strings.TrimPrefix(server.URL, "http://")
	listener, err := o.cluster.ListenOn(node, "tcp", address)
	require.NoError(o.t, err)
	secure := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: limit}
	ended := make(chan error, 1)
	go func() { ended <- secure.Serve(tls.NewListener(listener, config)) }()
	o.t.Cleanup(func() {
		assert.ErrorIs(o.t, errors.Join(secure.Close(), <-ended), http.ErrServerClosed)
	})
}

// pullSecret is the name of the Secret with the login of another registry.
const pullSecret = "pull-secret"

// pod returns the pod of both programs.
func (o *OLM) pod(options Options) *corev1.Pod {
	const certificates = "/var/certificates"
	container := func(name string, health int, args ...string) corev1.Container {
		return corev1.Container{
			Name: name, Image: images[name] + ":v1.11.0", Command: []string{"/usr/bin/" + name},
			Args: append(args, fmt.Sprintf("--health-probe-bind-address=:%d", health),
				"--tls-cert="+certificates+"/tls.crt", "--tls-key="+certificates+"/tls.key", "--pull-cas-dir="+certificates+"/authority"),
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt(health)}}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "certificates", MountPath: certificates}, {Name: name + "-cache", MountPath: "/var/cache"}, {Name: name + "-tmp", MountPath: "/tmp"},
			},
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "olmv1", Labels: map[string]string{"app": "olmv1"}}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: node},
		HostAliases:  []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{served}}},
		Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{
			container("catalogd", 8081, "--metrics-bind-address=127.0.0.1:7443", "--catalogs-server-addr=127.0.0.1:8443", "--external-address="+served+":8443"),
			container("operator-controller", 8082, "--metrics-bind-address=127.0.0.1:8444", "--catalogd-cas-dir="+certificates+"/authority"),
		},
		Volumes: []corev1.Volume{{Name: "certificates", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "certificates", Items: []corev1.KeyToPath{
			{Key: "tls.crt", Path: "tls.crt"}, {Key: "tls.key", Path: "tls.key"}, {Key: "ca.crt", Path: "authority/ca.crt"},
		}}}}},
	}}
	for _, feature := range options.Features {
		controller := &pod.Spec.Containers[1]
		controller.Args = append(controller.Args, "--feature-gates="+feature+"=true")
	}
	if options.Gates != "" {
		controller := &pod.Spec.Containers[1]
		controller.Args = append(controller.Args, "--feature-gates="+options.Gates)
	}
	if options.Registry != nil {
		pod.Spec.HostNetwork = true
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Args = append(pod.Spec.Containers[i].Args, "--global-pull-secret="+Namespace+"/"+pullSecret)
		}
	}
	for name := range images {
		for _, volume := range []string{name + "-cache", name + "-tmp"} {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
	}
	return pod
}

// AddCatalog pushes a catalog as PushCatalog does, waits until OLM serves it, and returns it.
func (o *OLM) AddCatalog(name, dir, pkg string, bundles map[string]string) declcfg.DeclarativeConfig {
	o.t.Helper()
	config := o.withImages(dir, pkg, bundles)
	o.serve(name, o.pushConfig(name+":latest", config), 0)
	return config
}

// serve makes OLM serve the image of a catalog, with a priority, and waits until it does.
func (o *OLM) serve(name, ref string, priority int64) {
	o.t.Helper()
	catalog := newObject("ClusterCatalog", name)
	catalog.SetLabels(map[string]string{"olm.operatorframework.io/metadata.name": name})
	catalog.Object["spec"] = map[string]any{"priority": priority, "source": map[string]any{"type": "Image", "image": map[string]any{"ref": ref}}}
	o.create(catalog)
	o.await(catalog, "Serving", "True")
}

// Serve makes OLM serve a catalog, with a priority, and waits until it does. folders has the folders of bundles by name; a bundle without a
// folder keeps its image.
func (o *OLM) Serve(name string, priority int64, config declcfg.DeclarativeConfig, folders map[string]string) {
	o.t.Helper()
	for i := range config.Bundles {
		b := &config.Bundles[i]
		if folder, has := folders[b.Name]; has {
			b.Image = o.pushBundle(folder, b.Package, b.Name)
		}
	}
	o.serve(name, o.pushConfig(name+":latest", config), priority)
}

// pushBundle pushes a bundle from a folder, and returns its image as OLM pulls it.
func (o *OLM) pushBundle(folder, pkg, name string) string {
	o.t.Helper()
	repository := "/bundles/" + pkg
	return address + repository + "@" + catalogs.PushBundle(o.t, folder, pkg, o.push+repository+":"+strings.ReplaceAll(name, "+", "-"))
}

// PushCatalog pushes bundles, from folders by the bundles' names, and the image of a catalog that has them, and returns
// the image's reference. The name has a tag. The bundles' entries come from a folder with a catalog; its other packages
// are left out.
func (o *OLM) PushCatalog(name, dir, pkg string, bundles map[string]string) string {
	o.t.Helper()
	return o.pushConfig(name, o.withImages(dir, pkg, bundles))
}

// withImages pushes bundles, and returns the catalog of their package with their images.
func (o *OLM) withImages(dir, pkg string, bundles map[string]string) declcfg.DeclarativeConfig {
	o.t.Helper()
	config, err := declcfg.LoadFS(o.t.Context(), os.DirFS(dir))
	require.NoError(o.t, err)
	config.Packages = slices.DeleteFunc(config.Packages, func(p declcfg.Package) bool { return p.Name != pkg })
	config.Channels = slices.DeleteFunc(config.Channels, func(c declcfg.Channel) bool { return c.Package != pkg })
	config.Bundles = slices.DeleteFunc(config.Bundles, func(b declcfg.Bundle) bool { return b.Package != pkg })
	for i := range config.Bundles {
		b := &config.Bundles[i]
		folder, ok := bundles[b.Name]
		if !ok {
			o.t.Fatalf("catalog %s has bundle %s, want folders of all bundles; got %v", dir, b.Name, bundles)
		}
		b.Image = o.pushBundle(folder, pkg, b.Name)
	}
	return *config
}

// pushConfig pushes the image of a catalog, and returns its reference as OLM pulls it.
func (o *OLM) pushConfig(name string, config declcfg.DeclarativeConfig) string {
	o.t.Helper()
	folder := o.t.TempDir()
	catalogs.WriteConfig(o.t, folder, config)
	content, err := build.Image(o.t.Context(), folder)
	require.NoError(o.t, err)
	index, err := content.Index()
	require.NoError(o.t, err)
	repository := "/catalogs/" + name
	if _, err := oci.Push(o.t.Context(), o.push+repository, index); err != nil {
		o.t.Fatal(err)
	}
	return address + repository
}

// Install installs an operator by a ClusterExtension, and waits until its objects are there.
func (o *OLM) Install(name, namespace, pkg string) *unstructured.Unstructured {
	o.t.Helper()
	require.NoError(o.t, o.cluster.EnsureNamespace(o.t.Context(), namespace))
	extension := newObject("ClusterExtension", name)
	extension.Object["spec"] = map[string]any{"namespace": namespace, "source": map[string]any{"sourceType": "Catalog", "catalog": map[string]any{"packageName": pkg}}}
	o.create(extension)
	o.await(extension, "Installed", "True")
	return extension
}

func newObject(kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("olm.operatorframework.io/v1")
	object.SetKind(kind)
	object.SetName(name)
	return object
}

// await waits until an object has a condition.
func (o *OLM) await(object *unstructured.Unstructured, of, want string) {
	o.t.Helper()
	what := fmt.Sprintf("%s %s to be %s", object.GetKind(), object.GetName(), of)
	cluster.Eventually(o.t, limit, what, func(ctx context.Context) error {
		if err := o.cluster.Client().Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == of && c["status"] == want {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", conditions)
	})
}

// report writes the end of OLM's logs to the test's log.
func (o *OLM) report() {
	output, err := o.cluster.Kubectl(context.Background(), "logs", "--namespace="+Namespace, "--all-containers", "--prefix", "--tail=60", "olmv1").CombinedOutput()
	o.t.Logf("OLM v1: %v\n%s", err, output)
}
