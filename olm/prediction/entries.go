package prediction

import (
	"encoding/json"

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
		offers := map[*fbc.Bundle]*cache.Entry{} // what all entries of a bundle share: the resolver does not change it
		for _, channel := range p.Channels {
			for _, e := range channel.Entries {
				b := p.FindBundle(e.Name)
				if b == nil {
					continue
				}
				if offers[b] == nil {
					offers[b] = offerOf(b)
				}
				entries = append(entries, newEntry(key, p, channel, e, offers[b]))
			}
		}
	}
	return entries
}

// offerOf returns the fields of a bundle's entries that are the same in all channels.
func offerOf(b *fbc.Bundle) *cache.Entry {
	return &cache.Entry{
		Name:         b.Name,
		Version:      b.Number(),
		ProvidedAPIs: apis(b, property.TypeGVK),
		RequiredAPIs: apis(b, property.TypeGVKRequired),
		Properties:   properties(b),
		BundlePath:   b.Image,
	}
}

func newEntry(key cache.SourceKey, p *fbc.Package, c *fbc.Channel, e declcfg.ChannelEntry, offer *cache.Entry) *cache.Entry {
	entry := *offer
	entry.Replaces, entry.Skips = e.Replaces, e.Skips
	entry.SourceInfo = &cache.OperatorSourceInfo{
		Package:        p.Name,
		Channel:        c.Name,
		Catalog:        key,
		DefaultChannel: c.Name == p.DefaultChannel,
	}
	if skipped, err := fbc.ParseRange(e.SkipRange); err == nil {
		entry.SkipRange = skipped
	}
	return &entry
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
