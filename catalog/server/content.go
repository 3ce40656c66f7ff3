package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/cache"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/rules"
)

// content answers queries about a catalog, as operator-registry's cache does. It holds the catalog in memory, except for the payload
// of its bundles.
type content struct {
	*fbc.Catalog
	*index
	payload
}

// payload reads the documents of a catalog, which are not kept in memory.
type payload interface {
	Load(buffer []byte, span document.Span) ([]byte, error)
	// Keep stores text that was made from a document, if there is a store.
	Keep(span document.Span, content []byte) error
	// Size is the number of bytes that the documents take on disk, besides the catalog itself.
	Size() int64
	Close() error
}

// inPlace reads documents from the files of the catalog again.
type inPlace document.Files

func (p inPlace) Load(buffer []byte, span document.Span) ([]byte, error) {
	i := slices.IndexFunc(p, func(f document.File) bool { return f.Path == span.File })
	if now, err := os.Stat(span.File); err != nil {
		return nil, err
	} else if i < 0 || now.Size() != p[i].Size || now.ModTime().UnixNano() != p[i].Modified {
		return nil, fmt.Errorf("%s has changed, and is being read again; ask again later", span.File)
	}
	d, err := document.Load(span)
	return append(buffer, d.Content...), err
}

func (inPlace) Keep(document.Span, []byte) error { return nil }
func (inPlace) Size() int64                      { return 0 }
func (inPlace) Close() error                     { return nil }

var _ registry.GRPCQuery = &content{}

// mixed reads JSON documents from the files of the catalog again. Documents that were YAML are in a store, as JSON.
type mixed struct {
	*document.Store
	files inPlace
}

func (m mixed) Load(buffer []byte, span document.Span) ([]byte, error) {
	text, err := m.Store.Load(buffer, span)
	if errors.Is(err, document.ErrNotKept) {
		return m.files.Load(buffer, span)
	}
	return text, err
}

// open reads the catalog in a folder for queries. It stores the documents in the first of the folders that it can write to. If it
// can write to none, as in a read-only container, it reads them from the catalog again.
func (o Options) open(ctx context.Context, dir string) (*content, error) {
	store, err := document.NewStore(o.Folders...)
	if err != nil {
		read, err := rules.Load(ctx, dir)
		if err != nil {
			return nil, err
		}
		return &content{read, newIndex(read), inPlace(read.Files)}, nil
	}
	read, err := rules.LoadAndKeep(ctx, dir, func(d document.Document) error {
		if o.Unchanging && d.JSON {
			return nil
		}
		return store.Keep(d.Span, d.Content)
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	answers := newIndex(read)
	if err := keepLean(read, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	c := &content{read, answers, store}
	if o.Unchanging {
		c.payload = mixed{store, inPlace(read.Files)}
	}
	return c, nil
}

// channel finds a channel.
func (c *content) channel(pkg, name string) (*fbc.Package, *fbc.Channel, error) {
	p := c.Find(pkg)
	if p == nil {
		return nil, nil, fmt.Errorf("package %q not found", pkg)
	}
	channel := p.FindChannel(name)
	if channel == nil {
		return nil, nil, fmt.Errorf("package %q, channel %q not found", pkg, name)
	}
	return p, channel, nil
}

// ListPackages returns the names of all packages.
func (c *content) ListPackages(context.Context) (names []string, err error) {
	for _, p := range c.Packages {
		names = append(names, p.Name)
	}
	return names, nil
}

// GetPackage returns a package and the heads of its channels.
func (c *content) GetPackage(_ context.Context, name string) (*registry.PackageManifest, error) {
	p := c.Find(name)
	if p == nil {
		return nil, fmt.Errorf("package %q not found", name)
	}
	manifest := &registry.PackageManifest{
		PackageName:        p.Name,
		DefaultChannelName: p.DefaultChannel,
		Deprecation:        deprecation(p, declcfg.SchemaPackage, ""),
	}
	for _, channel := range p.Channels {
		manifest.Channels = append(manifest.Channels, registry.PackageChannel{
			Name:           channel.Name,
			CurrentCSVName: c.heads[channel].Name,
			Deprecation:    deprecation(p, declcfg.SchemaChannel, channel.Name),
		})
	}
	slices.SortFunc(manifest.Channels, func(a, b registry.PackageChannel) int { return strings.Compare(a.Name, b.Name) })
	return manifest, nil
}

// deprecation returns the deprecation of something in a package, or nil if it is not deprecated.
func deprecation(p *fbc.Package, schema, name string) *registry.Deprecation {
	if message := p.Deprecation(schema, name); message != "" {
		return &registry.Deprecation{Message: message}
	}
	return nil
}

// SendBundles sends all bundles, once for each channel. It leaves out the payload of bundles with an image, because OLM reads the payload
// from the image.
func (c *content) SendBundles(ctx context.Context, stream registry.BundleSender) error {
	for _, p := range c.Packages {
		for _, channel := range p.Channels {
			for i := range channel.Entries {
				if err := c.sendBundle(ctx, p, channel, &channel.Entries[i], stream); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *content) sendBundle(ctx context.Context, p *fbc.Package, channel *fbc.Channel, e *declcfg.ChannelEntry, stream registry.BundleSender) error {
	release, err := roomForAnswer(ctx, p.FindBundle(e.Name).Span)
	if err != nil {
		return err
	}
	defer release()
	bundle, err := c.bundle(p, channel, e, isInline)
	if err != nil {
		return err
	}
	return stream.Send(bundle)
}

// ListBundles returns the bundles that SendBundles sends.
func (c *content) ListBundles(ctx context.Context) ([]*api.Bundle, error) {
	var all collector
	err := c.SendBundles(ctx, &all)
	return all, err
}

type collector []*api.Bundle

func (c *collector) Send(b *api.Bundle) error {
	*c = append(*c, b)
	return nil
}

// GetBundle returns a bundle of a channel.
func (c *content) GetBundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error) {
	p, ch, err := c.channel(pkg, channel)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(ch.Entries, func(e declcfg.ChannelEntry) bool { return e.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("package %q, channel %q, bundle %q not found", pkg, channel, name)
	}
	return c.wholeBundle(ctx, p, ch, &ch.Entries[i])
}

// wholeBundle returns a bundle with its payload, but without its upgrade edges: clients that ask for one bundle do not use them.
func (c *content) wholeBundle(ctx context.Context, p *fbc.Package, channel *fbc.Channel, e *declcfg.ChannelEntry) (*api.Bundle, error) {
	release, err := roomForAnswer(ctx, p.FindBundle(e.Name).Span)
	if err != nil {
		return nil, err
	}
	defer release() // after that, the message itself takes room
	bundle, err := c.bundle(p, channel, e, func(*fbc.Bundle) bool { return true })
	if err != nil {
		return nil, err
	}
	bundle.Replaces, bundle.Skips = "", nil
	return bundle, nil
}

// GetBundleForChannel returns the head of a channel.
func (c *content) GetBundleForChannel(ctx context.Context, pkg, channel string) (*api.Bundle, error) {
	p, ch, err := c.channel(pkg, channel)
	if err != nil {
		return nil, err
	}
	return c.wholeBundle(ctx, p, ch, c.heads[ch].ChannelEntry)
}

// GetBundleThatReplaces returns a bundle of a channel that replaces or skips another one.
func (c *content) GetBundleThatReplaces(ctx context.Context, name, pkg, channel string) (*api.Bundle, error) {
	p, ch, err := c.channel(pkg, channel)
	if err != nil {
		return nil, err
	}
	for i, e := range ch.Entries {
		if e.Replaces == name || slices.Contains(e.Skips, name) {
			return c.wholeBundle(ctx, p, ch, &ch.Entries[i])
		}
	}
	return nil, fmt.Errorf("no entry found for package %q, channel %q", pkg, channel)
}

// GetChannelEntriesThatReplace returns all entries that replace or skip a bundle.
func (c *content) GetChannelEntriesThatReplace(_ context.Context, name string) (found []*registry.ChannelEntry, err error) {
	for _, e := range c.replacements[name] {
		found = append(found, &registry.ChannelEntry{PackageName: e.pkg.Name, ChannelName: e.channel.Name, BundleName: e.Name, Replaces: e.Replaces})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no channel entries found that replace %s", name)
	}
	return found, nil
}

// GetChannelEntriesThatProvide returns all entries whose bundles provide an API.
func (c *content) GetChannelEntriesThatProvide(_ context.Context, group, version, kind string) (found []*registry.ChannelEntry, err error) {
	api := property.GVK{Group: group, Version: version, Kind: kind}
	for _, e := range c.entriesThatProvide(api) {
		found = append(found, e.replaces(e.Skips)...)
	}
	return found, noProvider(found, api)
}

// GetLatestChannelEntriesThatProvide returns the heads of channels whose bundles provide an API.
func (c *content) GetLatestChannelEntriesThatProvide(_ context.Context, group, version, kind string) (found []*registry.ChannelEntry, err error) {
	api := property.GVK{Group: group, Version: version, Kind: kind}
	for _, e := range c.entriesThatProvide(api) {
		if first := c.heads[e.channel]; first.Name == e.Name {
			found = append(found, e.replaces(first.skips)...)
		}
	}
	return found, noProvider(found, api)
}

func noProvider(found []*registry.ChannelEntry, api property.GVK) error {
	if len(found) > 0 {
		return nil
	}
	return fmt.Errorf("no channel entries found that provide group:%q version:%q kind:%q", api.Group, api.Version, api.Kind)
}

// GetBundleThatProvides returns the first bundle, in the order of packages, that is the head of a default channel and provides an API.
func (c *content) GetBundleThatProvides(ctx context.Context, group, version, kind string) (*api.Bundle, error) {
	found, err := c.GetLatestChannelEntriesThatProvide(ctx, group, version, kind)
	if err != nil {
		return nil, err
	}
	for _, e := range found { // in the order of packages
		if e.ChannelName == c.Find(e.PackageName).DefaultChannel {
			return c.GetBundle(ctx, e.PackageName, e.ChannelName, e.BundleName)
		}
	}
	return nil, fmt.Errorf("no entry found that provides group:%q version:%q kind:%q", group, version, kind)
}

// ListPackageCustomSchemas sends the documents of a schema that OLM does not define.
func (c *content) ListPackageCustomSchemas(ctx context.Context, schema, pkg string, send func(*structpb.Struct) error) error {
	for what, name := range map[string]string{"schema": schema, "packageName": pkg} {
		if (what == "schema" || name != "") && !fbc.IsServable(name) {
			return &cache.ValidationError{Err: fmt.Errorf("invalid custom schema query: %s is %q", what, name)}
		}
	}
	for _, other := range c.Others {
		if other.Schema != schema || other.Package != pkg {
			continue
		}
		if err := c.sendOther(ctx, other.Span, send); err != nil {
			return err
		}
	}
	return nil
}

func (c *content) sendOther(ctx context.Context, span document.Span, send func(*structpb.Struct) error) error {
	release, err := roomForAnswer(ctx, span)
	if err != nil {
		return err
	}
	defer release()
	data, err := c.Load(nil, span)
	if err != nil {
		return err
	}
	answer := &structpb.Struct{}
	if err := answer.UnmarshalJSON(data); err != nil {
		return err
	}
	return send(answer)
}
