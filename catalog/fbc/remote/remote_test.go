package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/catalogs/serving"
)

// TestMain is also the entry point of the pod that serves a catalog.
func TestMain(m *testing.M) {
	cluster.Init()
	if documents := os.Getenv(content); documents != "" {
		if err := serve(documents, os.Getenv(host)+":50051"); err != nil {
			panic(err)
		}
		return
	}
	cluster.Main(m)
}

// Environment variables of that pod: the documents of the catalog, because a pod cannot see the test's folders, and the
// address to listen on.
const content, host = "CATALOG", "POD_IP"

func serve(documents, address string) error {
	dir, err := os.MkdirTemp("", "catalog-")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(documents), 0o644); err != nil {
		return err
	}
	return serving.Serve(context.Background(), dir, address)
}

// TestRead compares a served catalog with the folder that it is served from.
func TestRead(t *testing.T) {
	dir := shore(t)
	read, err := Read(t.Context(), &rest.Config{}, sourceAt(serving.Start(t, dir)), "tide")
	require.NoError(t, err)
	want, _, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(summary(t, want, "tide", "moon"), summary(t, read, "tide", "moon")), "in the folder (-) and served (+)")
}

// TestForwarded reads from a pod that is reachable only through the API server.
func TestForwarded(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	const image = "registry.example.com/shore"
	c := cluster.Shared(t, cluster.Options{Images: map[string]string{image: program}})
	source := sourceAt("")
	source.Namespace = c.Namespace(t)
	source.Status.GRPCConnectionState = &v1alpha1.GRPCConnectionState{Address: "shore." + source.Namespace + ".svc:50051"}

	_, err = Read(t.Context(), c.Config(), source)
	assert.ErrorContains(t, err, "none of the 0 pods with label olm.catalogSource=shore in namespace "+source.Namespace+" is ready", "without a pod")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: "shore-1", Labels: map[string]string{"olm.catalogSource": source.Name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "registry-server", Image: image + ":1",
			Ports:          []corev1.ContainerPort{{Name: "grpc", ContainerPort: 50051}},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 50051}}},
			Env: []corev1.EnvVar{{Name: content, Value: stream(t, shore(t))},
				{Name: host, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
		}}},
	}
	require.NoError(t, c.Client().Create(t.Context(), pod))
	c.Await(t, time.Minute, "the pod to be ready", pod, func() error {
		if !isReady(*pod) {
			return fmt.Errorf("its status is %+v", pod.Status)
		}
		return nil
	})
	read, err := Read(t.Context(), c.Config(), source)
	require.NoError(t, err)
	if got := len(read.Packages); got != 2 {
		t.Errorf("got %d packages, want 2", got)
	}
}

// TestUndetailed: without a request for details, bundles that OLM unpacks from images have no content.
func TestUndetailed(t *testing.T) {
	read, err := Read(t.Context(), &rest.Config{}, sourceAt(serving.Start(t, shore(t))))
	require.NoError(t, err)
	for name, want := range map[string]bool{"tide.v1.0.0": false, "moon.v1.0.0": true} {
		pkg, _, _ := strings.Cut(name, ".")
		details, err := read.Find(pkg).FindBundle(name).Details()
		require.NoError(t, err)
		assert.Equalf(t, want, details.CSV != nil, "%s has a ClusterServiceVersion", name)
	}
}

// TestUnreachable: the error names the CatalogSource and the attempts.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	_, err = Read(t.Context(), &rest.Config{}, sourceAt(address))
	require.Error(t, err, "it was read")
	for _, part := range []string{"CatalogSource sea/shore", "spec.address cannot be reached from here", address, "correct the address"} {
		assert.ErrorContains(t, err, part)
	}
}

func sourceAt(address string) *v1alpha1.CatalogSource {
	return &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "sea", Name: "shore"},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}}
}

// shore is a catalog of two packages: tide, with descriptions of its bundles, and moon, with the content of its bundle.
func shore(t *testing.T) string {
	t.Helper()
	first, second, moon := catalogs.Bundle("tide", "tide.v1.0.0"), catalogs.Bundle("tide", "tide.v1.1.0"), catalogs.Bundle("moon", "moon.v1.0.0")
	first.Properties = append(first.Properties, description("1.25.0"), property.MustBuildGVK("sea.example.com", "v1", "Tide"))
	second.Properties = append(second.Properties, description("1.26.0"), property.MustBuildPackageRequired("moon", ">=1.0.0"),
		property.MustBuildGVKRequired("sea.example.com", "v1", "Moon"), property.Property{Type: "olm.maxOpenShiftVersion", Value: json.RawMessage(`"4.22"`)})
	moon.Image = ""
	for _, object := range []any{
		map[string]any{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": map[string]any{"name": moon.Name},
			"spec": map[string]any{"version": "1.0.0", "install": map[string]any{"strategy": "deployment", "spec": map[string]any{"deployments": []any{}}}}},
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "phases"}},
	} {
		manifest, err := json.Marshal(object)
		require.NoError(t, err)
		moon.Properties = append(moon.Properties, property.MustBuildBundleObject(manifest))
	}
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{
			{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"},
			{Schema: declcfg.SchemaPackage, Name: "moon", DefaultChannel: "stable"},
		},
		Channels: []declcfg.Channel{
			{Schema: declcfg.SchemaChannel, Package: "tide", Name: "fast", Entries: []declcfg.ChannelEntry{{Name: "tide.v1.1.0", SkipRange: "<1.1.0"}}},
			{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: []declcfg.ChannelEntry{
				{Name: "tide.v1.0.0"}, {Name: "tide.v1.1.0", Replaces: "tide.v1.0.0", Skips: []string{"tide.v1.0.1"}}}},
			{Schema: declcfg.SchemaChannel, Package: "moon", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "moon.v1.0.0"}}},
		},
		Bundles: []declcfg.Bundle{first, second, moon},
		Deprecations: []declcfg.Deprecation{{Schema: declcfg.SchemaDeprecation, Package: "tide", Entries: []declcfg.DeprecationEntry{
			{Reference: declcfg.PackageScopedReference{Schema: declcfg.SchemaPackage}, Message: "all"},
			{Reference: declcfg.PackageScopedReference{Schema: declcfg.SchemaChannel, Name: "fast"}, Message: "too fast"},
			{Reference: declcfg.PackageScopedReference{Schema: declcfg.SchemaBundle, Name: "tide.v1.0.0"}, Message: "leaks"},
		}}},
	})
	return dir
}

// description describes a ClusterServiceVersion that requires a version of Kubernetes.
func description(kubernetes string) property.Property {
	return property.MustBuildCSVMetadata(v1alpha1.ClusterServiceVersion{Spec: v1alpha1.ClusterServiceVersionSpec{
		DisplayName: "Tide", MinKubeVersion: kubernetes,
		InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}},
	}})
}

// stream returns the documents of a catalog's folder as one text.
func stream(t *testing.T, dir string) string {
	t.Helper()
	config, err := declcfg.LoadFS(t.Context(), os.DirFS(dir))
	require.NoError(t, err)
	var documents strings.Builder
	require.NoError(t, declcfg.WriteJSON(*config, &documents))
	return documents.String()
}

// bundleSummary holds the fields of a bundle that the test compares.
type bundleSummary struct {
	Image, Version string
	Properties     []string
	Details        fbc.Details
}

// packageSummary holds the fields of a package that the test compares.
type packageSummary struct {
	Default      string
	Channels     map[string][]declcfg.ChannelEntry
	Bundles      map[string]bundleSummary
	Deprecations map[string]string
}

func summary(t *testing.T, c *fbc.Catalog, packages ...string) map[string]packageSummary {
	t.Helper()
	all := map[string]packageSummary{}
	for _, name := range packages {
		p := c.Find(name)
		s := packageSummary{p.DefaultChannel, map[string][]declcfg.ChannelEntry{}, map[string]bundleSummary{}, map[string]string{}}
		for _, channel := range p.Channels {
			s.Channels[channel.Name] = channel.Entries
		}
		for _, b := range p.Bundles {
			details, err := b.Details()
			require.NoError(t, err)
			// A server adds these to a description.
			details.CSV.Spec.Version.Version.Major, details.CSV.Spec.InstallStrategy.StrategyName = 0, ""
			said := bundleSummary{Image: b.Image, Version: b.Number().String(), Details: *details}
			for _, p := range b.Properties {
				if !fbc.IsPayload(p.Type) {
					said.Properties = append(said.Properties, p.Type+" "+string(p.Value))
				}
			}
			slices.Sort(said.Properties)
			s.Bundles[b.Name] = said
		}
		for _, d := range p.Deprecations {
			for _, e := range d.Entries {
				s.Deprecations[e.Reference.Schema+" "+e.Reference.Name] = e.Message
			}
		}
		all[name] = s
	}
	return all
}

// listing is a server that lists the same bundle forever.
type listing struct {
	api.RegistryClient
	bundle *api.Bundle
}

func (l listing) ListBundles(ctx context.Context, _ *api.ListBundlesRequest, _ ...grpc.CallOption) (api.Registry_ListBundlesClient, error) {
	return &endless{ctx: ctx, bundle: l.bundle}, nil
}

type endless struct {
	grpc.ClientStream
	ctx    context.Context
	bundle *api.Bundle
	sent   int
}

func (e *endless) Recv() (*api.Bundle, error) {
	if e.sent++; e.sent > 300 {
		return nil, errors.New("nothing has ended the list")
	}
	return e.bundle, e.ctx.Err()
}

// TestLimit: a catalog is kept in memory, so its size is bounded, with the values that take next to nothing in a message.
func TestLimit(t *testing.T) {
	for what, bundle := range map[string]*api.Bundle{
		"text":             {CsvName: "tide.v1.0.0", CsvJson: strings.Repeat("x", 1000)},
		"nothing":          {},
		"empty texts":      {Skips: make([]string, 10)},
		"values in JSON":   {CsvJson: "[{},{},{},{}]"},
		"empty properties": {Properties: slices.Repeat([]*api.Property{{}}, 10)},
	} {
		_, err := fetch(t.Context(), listing{bundle: bundle}, nil, 20_000)
		assert.ErrorContains(t, err, "the catalog has more than 20000 bytes, or more values than fit", what)
	}
}
