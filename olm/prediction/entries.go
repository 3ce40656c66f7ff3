package prediction

import (
	"encoding/json"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/cache"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/registry"

	"github.com/berth-csi/berth/catalog/fbc"
)

// entriesOf returns a catalog's entries in the resolver's type, as OLM converts them: one for each bundle in each channel.
func entriesOf(c *fbc.Catalog, key cache.SourceKey) (entries []*cache.Entry) {
	for _, p := range c.Packages {
		for _, channel := range p.Channels {
			for _, e := range channel.Entries {
				if b := p.FindBundle(e.Name); b != nil {
					entries = append(entries, newEntry(key, p, channel, e, b))
				}
			}
		}
	}
	return entries
}

func newEntry(key cache.SourceKey, p *fbc.Package, c *fbc.Channel, e declcfg.ChannelEntry, b *fbc.Bundle) *cache.Entry {
	entry := &cache.Entry{
		Name:         e.Name,
		Replaces:     e.Replaces,
		Skips:        e.Skips,
		Version:      b.Number(),
		ProvidedAPIs: apis(b, property.TypeGVK),
		RequiredAPIs: apis(b, property.TypeGVKRequired),
		Properties:   properties(b),
		BundlePath:   b.Image,
		SourceInfo: &cache.OperatorSourceInfo{
			Package:        p.Name,
			Channel:        c.Name,
			Catalog:        key,
			DefaultChannel: c.Name == p.DefaultChannel,
		},
	}
	if skipped, err := semver.ParseRange(e.SkipRange); err == nil {
		entry.SkipRange = skipped
	}
	return entry
}

// properties returns the properties of a bundle that the resolver reads.
func properties(b *fbc.Bundle) (all []*api.Property) {
	for _, p := range b.Properties {
		if !fbc.IsPayload(p.Type) {
			all = append(all, &api.Property{Type: p.Type, Value: string(p.Value)})
		}
	}
	return all
}

// apis returns the APIs in a bundle's properties of one type.
func apis(b *fbc.Bundle, propertyType string) cache.APISet {
	set := cache.APISet{}
	for _, p := range b.Properties {
		var named property.GVK
		if p.Type == propertyType && json.Unmarshal(p.Value, &named) == nil {
			set[registry.APIKey{Group: named.Group, Version: named.Version, Kind: named.Kind}] = struct{}{}
		}
	}
	return set
}
