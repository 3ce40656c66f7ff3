package remote

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/catalog"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/catalogs/serving"
	"github.com/berth-csi/berth/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestRead reads a catalog from who serves it, and compares with what is in its folder.
func TestRead(t *testing.T) {
	dir := shore(t)
	read, err := Read(t.Context(), &rest.Config{}, sourceAt(serving.Start(t, dir)), "tide")
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := catalog.Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(summary(t, want, "tide", "moon"), summary(t, read.Catalog, "tide", "moon")); diff != "" {
		t.Errorf("in the folder (-) and served (+):\n%s", diff)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(read.Dir); !os.IsNotExist(err) {
		t.Errorf("its folder is still there: %v", err)
	}
}

// TestUndetailed: of other packages, what OLM takes from images is left out.
func TestUndetailed(t *testing.T) {
	read, err := Read(t.Context(), &rest.Config{}, sourceAt(serving.Start(t, shore(t))))
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	for name, want := range map[string]bool{"tide.v1.0.0": false, "moon.v1.0.0": true} {
		pkg, _, _ := strings.Cut(name, ".")
		details, err := read.Find(pkg).FindBundle(name).Details()
		if err != nil {
			t.Fatal(err)
		}
		if got := details.CSV != nil; got != want {
			t.Errorf("%s has a ClusterServiceVersion: %t, want %t", name, got, want)
		}
	}
}

// TestUnreachable says what was tried, and of which CatalogSource.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Read(t.Context(), &rest.Config{}, sourceAt(address))
	if err == nil {
		t.Fatal("it was read")
	}
	for _, part := range []string{"CatalogSource sea/shore", "spec.address cannot be reached from here", address, "correct the address"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func sourceAt(address string) *v1alpha1.CatalogSource {
	return &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "sea", Name: "shore"},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}}
}

// shore is a catalog of two packages: tide, whose bundles are described, and moon, whose bundle is carried.
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
		if err != nil {
			t.Fatal(err)
		}
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

// description is the description of a ClusterServiceVersion that wants a version of Kubernetes.
func description(kubernetes string) property.Property {
	return property.MustBuildCSVMetadata(v1alpha1.ClusterServiceVersion{Spec: v1alpha1.ClusterServiceVersionSpec{
		DisplayName: "Tide", MinKubeVersion: kubernetes,
		InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}},
	}})
}

// bundleSummary is what matters of a bundle.
type bundleSummary struct {
	Image, Version string
	Properties     []string
	Details        catalog.Details
}

// packageSummary is what matters of a package.
type packageSummary struct {
	Default      string
	Channels     map[string][]declcfg.ChannelEntry
	Bundles      map[string]bundleSummary
	Deprecations map[string]string
}

func summary(t *testing.T, c *catalog.Catalog, packages ...string) map[string]packageSummary {
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
			if err != nil {
				t.Fatal(err)
			}
			// A server adds these, and no description has them.
			details.CSV.Spec.Version.Version.Major, details.CSV.Spec.InstallStrategy.StrategyName = 0, ""
			said := bundleSummary{Image: b.Image, Version: b.Number().String(), Details: *details}
			for _, p := range b.Properties {
				if !catalog.IsBulk(p.Type) {
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
