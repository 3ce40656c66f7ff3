package server

import (
	"encoding/json"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/registry"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// index finds entries of channels without iterating over all of them. It is built once per catalog.
type index struct {
	// heads are the heads of channels.
	heads map[*fbc.Channel]*head
	// providers maps an API to the bundles that provide it, entries maps a bundle to its entries, and replacements maps the name of a
	// bundle to the entries that replace or skip it. All are in the order of the catalog.
	providers    map[property.GVK][]*fbc.Bundle
	entries      map[*fbc.Bundle][]located
	replacements map[string][]located
}

// located is an entry with its package and channel.
type located struct {
	pkg     *fbc.Package
	channel *fbc.Channel
	*declcfg.ChannelEntry
	// order is its place among all entries of the catalog.
	order int
}

// head is the head of a channel.
type head struct {
	*declcfg.ChannelEntry
	// skips are the entries of the channel that the head skips.
	skips []string
}

func newIndex(c *fbc.Catalog) *index {
	x := &index{map[*fbc.Channel]*head{}, map[property.GVK][]*fbc.Bundle{}, map[*fbc.Bundle][]located{}, map[string][]located{}}
	entries := 0
	for _, p := range c.Packages {
		for _, b := range p.Bundles {
			for _, api := range providedBy(b) {
				x.providers[api] = append(x.providers[api], b)
			}
		}
		for _, channel := range p.Channels {
			graph := upgrade.Of(p, channel)
			first := &head{ChannelEntry: &graph.Heads[0].ChannelEntry}
			for _, skipped := range first.Skips {
				if graph.Find(skipped) != nil {
					first.skips = append(first.skips, skipped)
				}
			}
			x.heads[channel] = first
			for i := range channel.Entries {
				e := located{p, channel, &channel.Entries[i], entries}
				entries++
				if b := p.FindBundle(e.Name); b != nil {
					x.entries[b] = append(x.entries[b], e)
				}
				for _, name := range unique(append([]string{e.Replaces}, e.Skips...)) {
					x.replacements[name] = append(x.replacements[name], e)
				}
			}
		}
	}
	return x
}

// entriesThatProvide returns the entries whose bundles provide an API, in the order of the catalog. The index does not hold these lists,
// because a bundle with many APIs may be in many channels.
func (x *index) entriesThatProvide(api property.GVK) (all []located) {
	for _, b := range x.providers[api] {
		all = append(all, x.entries[b]...)
	}
	slices.SortFunc(all, func(a, b located) int { return a.order - b.order })
	return all
}

// providedBy returns the APIs that a bundle provides.
func providedBy(b *fbc.Bundle) []property.GVK {
	var apis []property.GVK
	for _, p := range b.Properties {
		var api property.GVK
		if p.Type == property.TypeGVK && json.Unmarshal(p.Value, &api) == nil {
			apis = append(apis, api)
		}
	}
	return unique(apis)
}

// unique removes duplicates.
func unique[E comparable](all []E) []E {
	seen := map[E]bool{}
	return slices.DeleteFunc(all, func(e E) bool {
		again := seen[e]
		seen[e] = true
		return again
	})
}

// replaces returns a channel entry for the entry that e replaces, and one for each other entry in skips.
func (e located) replaces(skips []string) []*registry.ChannelEntry {
	of := func(replaced string) *registry.ChannelEntry {
		return &registry.ChannelEntry{PackageName: e.pkg.Name, ChannelName: e.channel.Name, BundleName: e.Name, Replaces: replaced}
	}
	all := []*registry.ChannelEntry{of(e.Replaces)}
	for _, skipped := range skips {
		if skipped != e.Replaces {
			all = append(all, of(skipped))
		}
	}
	return all
}
