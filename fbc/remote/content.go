package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"golang.org/x/sync/errgroup"
)

// atOnce is how many questions a server is asked at a time.
const atOnce = 8

// ask asks a server for its bundles, and then for each package, as OLM does.
func ask(ctx context.Context, c *connection, detailed []string) (*declcfg.DeclarativeConfig, error) {
	bundles, err := list(ctx, c.registry)
	if err != nil {
		return nil, err
	}
	if err := complete(ctx, c.registry, bundles, detailed); err != nil {
		return nil, err
	}
	packages, err := describe(ctx, c.registry, bundles)
	if err != nil {
		return nil, err
	}
	return assemble(packages, bundles)
}

// list lists the entries of all channels, each with its bundle.
func list(ctx context.Context, registry api.RegistryClient) (all []*api.Bundle, err error) {
	stream, err := registry.ListBundles(ctx, &api.ListBundlesRequest{})
	for err == nil {
		var b *api.Bundle
		if b, err = stream.Recv(); err == nil {
			all = append(all, b)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("listing bundles: %w", err)
	}
	return all, nil
}

// complete asks for what the list leaves out of the bundles of some packages.
func complete(ctx context.Context, registry api.RegistryClient, bundles []*api.Bundle, packages []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	asked := map[string]bool{}
	for _, b := range bundles {
		if b.CsvJson != "" || asked[b.CsvName] || !slices.Contains(packages, b.PackageName) {
			continue
		}
		asked[b.CsvName] = true
		group.Go(func() error {
			whole, err := registry.GetBundle(ctx, &api.GetBundleRequest{PkgName: b.PackageName, ChannelName: b.ChannelName, CsvName: b.CsvName})
			if err != nil {
				return fmt.Errorf("bundle %s: %w", b.CsvName, err)
			}
			b.CsvJson, b.Object = whole.CsvJson, whole.Object
			return nil
		})
	}
	return group.Wait()
}

// describe asks for the packages of bundles, and returns them in the order of their names.
func describe(ctx context.Context, registry api.RegistryClient, bundles []*api.Bundle) ([]*api.Package, error) {
	names := map[string]bool{}
	for _, b := range bundles {
		names[b.PackageName] = true
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	packages := make([]*api.Package, len(names))
	for i, name := range slices.Sorted(maps.Keys(names)) {
		group.Go(func() (err error) {
			if packages[i], err = registry.GetPackage(ctx, &api.GetPackageRequest{Name: name}); err != nil {
				return fmt.Errorf("package %s: %w", name, err)
			}
			return nil
		})
	}
	return packages, group.Wait()
}

// assemble makes the documents of a catalog of what a server has said.
func assemble(packages []*api.Package, bundles []*api.Bundle) (*declcfg.DeclarativeConfig, error) {
	served := &declcfg.DeclarativeConfig{}
	deprecated := map[string][]declcfg.DeprecationEntry{} // by package
	deprecate := func(pkg, schema, name string, d *api.Deprecation) {
		if d != nil {
			deprecated[pkg] = append(deprecated[pkg], declcfg.DeprecationEntry{
				Reference: declcfg.PackageScopedReference{Schema: schema, Name: name}, Message: d.Message})
		}
	}
	for _, p := range packages {
		served.Packages = append(served.Packages, declcfg.Package{Schema: declcfg.SchemaPackage, Name: p.Name, DefaultChannel: p.DefaultChannelName})
		deprecate(p.Name, declcfg.SchemaPackage, "", p.Deprecation)
		for _, c := range p.Channels {
			deprecate(p.Name, declcfg.SchemaChannel, c.Name, c.Deprecation)
		}
	}
	channels, seen := map[[2]string]*declcfg.Channel{}, map[[2]string]bool{}
	for _, b := range bundles {
		channel := channels[[2]string{b.PackageName, b.ChannelName}]
		if channel == nil {
			channel = &declcfg.Channel{Schema: declcfg.SchemaChannel, Package: b.PackageName, Name: b.ChannelName}
			channels[[2]string{b.PackageName, b.ChannelName}] = channel
		}
		channel.Entries = append(channel.Entries, declcfg.ChannelEntry{Name: b.CsvName, Replaces: b.Replaces, Skips: b.Skips, SkipRange: b.SkipRange})
		if seen[[2]string{b.PackageName, b.CsvName}] { // it is in several channels
			continue
		}
		seen[[2]string{b.PackageName, b.CsvName}] = true
		document, err := newBundle(b)
		if err != nil {
			return nil, fmt.Errorf("bundle %s: %w", b.CsvName, err)
		}
		served.Bundles = append(served.Bundles, *document)
		deprecate(b.PackageName, declcfg.SchemaBundle, b.CsvName, b.Deprecation)
	}
	for _, channel := range channels {
		served.Channels = append(served.Channels, *channel)
	}
	slices.SortFunc(served.Channels, func(a, b declcfg.Channel) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name))
	})
	for pkg, entries := range deprecated {
		served.Deprecations = append(served.Deprecations, declcfg.Deprecation{Schema: declcfg.SchemaDeprecation, Package: pkg, Entries: entries})
	}
	return served, nil
}

// newBundle makes the document of a bundle.
func newBundle(b *api.Bundle) (*declcfg.Bundle, error) {
	description, err := described(b)
	if err != nil {
		return nil, err
	}
	if description != nil {
		b.Object = nil // that of which the description was made
	}
	m, err := api.ConvertAPIBundleToModelBundle(b)
	if err != nil {
		return nil, err
	}
	// What a bundle requires is among its properties and its dependencies. They come in order.
	m.Properties = slices.CompactFunc(m.Properties, func(a, b property.Property) bool {
		return a.Type == b.Type && string(a.Value) == string(b.Value)
	})
	document := &declcfg.Bundle{Schema: declcfg.SchemaBundle, Package: b.PackageName, Name: m.Name, Image: m.Image, Properties: m.Properties}
	for _, image := range m.RelatedImages {
		document.RelatedImages = append(document.RelatedImages, declcfg.RelatedImage(image))
	}
	if description != nil {
		document.Properties = append(document.Properties, *description)
	}
	return document, nil
}

// described returns what a catalog says of a ClusterServiceVersion that it does not have itself, or nil
// where it has it. A server makes of that a ClusterServiceVersion without Deployments, its only object.
func described(b *api.Bundle) (*property.Property, error) {
	if b.CsvJson == "" || len(b.Object) > 1 || b.BundlePath == "" {
		return nil, nil
	}
	csv := v1alpha1.ClusterServiceVersion{}
	if err := json.Unmarshal([]byte(b.CsvJson), &csv); err != nil {
		return nil, fmt.Errorf("its ClusterServiceVersion: %w", err)
	}
	if len(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs) > 0 {
		return nil, nil
	}
	description := property.MustBuildCSVMetadata(csv)
	return &description, nil
}
