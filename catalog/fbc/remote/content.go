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
	"strings"
	"sync/atomic"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// parallel is the number of concurrent requests to a server.
const parallel = 8

// fetch fetches the bundles and packages of a catalog, as OLM does. It fails if they have more bytes than limit.
func fetch(ctx context.Context, registry api.RegistryClient, detailed []string, limit int64) (*declcfg.DeclarativeConfig, error) {
	b := &budget{limit: limit}
	bundles, err := list(ctx, registry, b)
	if err != nil {
		return nil, err
	}
	if err := complete(ctx, registry, bundles, detailed, b); err != nil {
		return nil, err
	}
	packages, err := fetchPackages(ctx, registry, bundles, b)
	if err != nil {
		return nil, err
	}
	return assemble(packages, bundles)
}

// budget counts the bytes of a catalog against a limit.
type budget struct {
	limit int64
	spent atomic.Int64
}

// perValue is about how many bytes of memory a message or an element of a list takes, besides its text: an empty one takes two bytes of the
// message that it is in. perMark is the same for a comma or a bracket, of which texts in JSON have one for each value. Real texts have one in
// thirty characters.
const (
	perValue = 96
	perMark  = 8
)

// spend counts a message, and the memory that its values take. It fails if that exceeds the limit.
func (b *budget) spend(m proto.Message) error {
	if b.spent.Add(int64(proto.Size(m))+memory(m.ProtoReflect())) > b.limit {
		return fmt.Errorf("the catalog has more than %d bytes, or more values than fit", b.limit)
	}
	return nil
}

// memory returns about how many bytes the values in a message take, besides its text.
func memory(m protoreflect.Message) (n int64) {
	n = perValue
	add := func(v protoreflect.Value) {
		switch v := v.Interface().(type) {
		case protoreflect.Message:
			n += memory(v)
		case string:
			n += perMark * int64(strings.Count(v, ",")+strings.Count(v, "[")+strings.Count(v, "{"))
		}
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !field.IsList() {
			add(v)
			return true
		}
		n += perValue * int64(v.List().Len())
		for i := range v.List().Len() {
			add(v.List().Get(i))
		}
		return true
	})
	return n
}

// list lists the entries of all channels, each with its bundle.
func list(ctx context.Context, registry api.RegistryClient, room *budget) (all []*api.Bundle, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream if the catalog is too large
	defer cancel()
	stream, err := registry.ListBundles(ctx, &api.ListBundlesRequest{})
	for err == nil {
		var b *api.Bundle
		if b, err = stream.Recv(); err == nil {
			all = append(all, b)
			err = room.spend(b)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("listing bundles: %w", err)
	}
	return all, nil
}

// complete fetches the parts of bundles that the list leaves out, for some packages.
func complete(ctx context.Context, registry api.RegistryClient, bundles []*api.Bundle, packages []string, room *budget) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	fetched := map[string]bool{}
	for _, b := range bundles {
		if b.CsvJson != "" || fetched[b.CsvName] || !slices.Contains(packages, b.PackageName) {
			continue
		}
		fetched[b.CsvName] = true
		group.Go(func() error {
			whole, err := registry.GetBundle(ctx, &api.GetBundleRequest{PkgName: b.PackageName, ChannelName: b.ChannelName, CsvName: b.CsvName})
			if err != nil {
				return fmt.Errorf("bundle %s: %w", b.CsvName, err)
			}
			b.CsvJson, b.Object = whole.CsvJson, whole.Object
			return room.spend(whole)
		})
	}
	return group.Wait()
}

// fetchPackages fetches the packages of bundles, and returns them sorted by name.
func fetchPackages(ctx context.Context, registry api.RegistryClient, bundles []*api.Bundle, room *budget) ([]*api.Package, error) {
	names := map[string]bool{}
	for _, b := range bundles {
		names[b.PackageName] = true
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	packages := make([]*api.Package, len(names))
	for i, name := range slices.Sorted(maps.Keys(names)) {
		group.Go(func() (err error) {
			if packages[i], err = registry.GetPackage(ctx, &api.GetPackageRequest{Name: name}); err != nil {
				return fmt.Errorf("package %s: %w", name, err)
			}
			return room.spend(packages[i])
		})
	}
	return packages, group.Wait()
}

// assemble converts the messages of a server to the documents of a catalog.
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
		if seen[[2]string{b.PackageName, b.CsvName}] { // the bundle is in several channels
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

// newBundle converts a bundle to its document.
func newBundle(b *api.Bundle) (*declcfg.Bundle, error) {
	description, err := described(b)
	if err != nil {
		return nil, err
	}
	if description != nil {
		b.Object = nil // the ClusterServiceVersion that the server generated from the description
	}
	m, err := api.ConvertAPIBundleToModelBundle(b)
	if err != nil {
		return nil, err
	}
	// The server also lists the required packages and APIs as dependencies, which the conversion adds to the sorted
	// properties.
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

// described returns the description of a ClusterServiceVersion that the catalog does not contain, or nil if it contains the
// ClusterServiceVersion itself. From a description, a server generates a ClusterServiceVersion without Deployments, as the
// bundle's only object.
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
