package server

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/berth-csi/berth/catalog/fbc/document"
)

// interval is how often Serve checks whether the catalog has changed. It compares names, sizes and times of files, which
// works on every file system and through the links of mounted ConfigMaps.
const interval = time.Second

// current is the content that is being served. It can be replaced while requests are in flight: each is answered from the
// content that was current when it arrived. Replaced content is garbage-collected after the last such request, and closes
// its file then.
type current struct{ atomic.Pointer[content] }

// watch replaces the content when the catalog in a folder has changed and then stays unchanged for an interval, until ctx
// is done. A catalog that is not valid is not served.
func (c *current) watch(ctx context.Context, dir string, options Options, report func(Event)) {
	known := c.Load().Files
	seen := known
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := document.List(dir)
		if err != nil {
			now = nil // for example while the folder is being replaced
		}
		settled := slices.Equal(now, seen)
		seen = now
		if !settled || slices.Equal(now, known) {
			continue
		}
		opened, err := options.open(ctx, dir)
		if errors.Is(err, context.Canceled) {
			return
		}
		known = now
		if err != nil {
			report(Event{Err: err})
			continue
		}
		c.Store(opened)
		report(Event{Catalog: opened.Catalog, Size: opened.Size()})
	}
}

// The queries of package registry, answered from the current content.

func (c *current) ListPackages(ctx context.Context) ([]string, error) {
	return c.Load().ListPackages(ctx)
}

func (c *current) SendBundles(ctx context.Context, stream registry.BundleSender) error {
	return c.Load().SendBundles(ctx, stream)
}

func (c *current) ListBundles(ctx context.Context) ([]*api.Bundle, error) {
	return c.Load().ListBundles(ctx)
}

func (c *current) GetPackage(ctx context.Context, name string) (*registry.PackageManifest, error) {
	return c.Load().GetPackage(ctx, name)
}

func (c *current) GetBundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error) {
	return c.Load().GetBundle(ctx, pkg, channel, name)
}

func (c *current) GetBundleForChannel(ctx context.Context, pkg, channel string) (*api.Bundle, error) {
	return c.Load().GetBundleForChannel(ctx, pkg, channel)
}

func (c *current) GetChannelEntriesThatReplace(ctx context.Context, name string) ([]*registry.ChannelEntry, error) {
	return c.Load().GetChannelEntriesThatReplace(ctx, name)
}

func (c *current) GetBundleThatReplaces(ctx context.Context, name, pkg, channel string) (*api.Bundle, error) {
	return c.Load().GetBundleThatReplaces(ctx, name, pkg, channel)
}

func (c *current) GetChannelEntriesThatProvide(ctx context.Context, group, version, kind string) ([]*registry.ChannelEntry, error) {
	return c.Load().GetChannelEntriesThatProvide(ctx, group, version, kind)
}

func (c *current) GetLatestChannelEntriesThatProvide(ctx context.Context, group, version, kind string) ([]*registry.ChannelEntry, error) {
	return c.Load().GetLatestChannelEntriesThatProvide(ctx, group, version, kind)
}

func (c *current) GetBundleThatProvides(ctx context.Context, group, version, kind string) (*api.Bundle, error) {
	return c.Load().GetBundleThatProvides(ctx, group, version, kind)
}

func (c *current) ListPackageCustomSchemas(ctx context.Context, schema, pkg string, send func(*structpb.Struct) error) error {
	return c.Load().ListPackageCustomSchemas(ctx, schema, pkg, send)
}
