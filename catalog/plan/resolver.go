package plan

import (
	"encoding/json"
	"io"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/cache"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/catalog"
	"github.com/berth-csi/berth/catalog/upgrade"
)

// namespace is where the Subscription is that OLM's resolver is asked about. Its name matters to
// nobody.
const namespace = "default"

// source is what OLM's resolver may choose from: one catalog.
type source struct {
	key     cache.SourceKey
	entries []*cache.Entry
}

// newSource makes of a catalog what OLM makes of one that it lists: an entry for each bundle in each
// channel.
func newSource(name string, c *catalog.Catalog) *source {
	s := &source{key: cache.SourceKey{Name: name, Namespace: namespace}}
	for _, p := range c.Packages {
		for _, channel := range p.Channels {
			for _, e := range channel.Entries {
				if b := p.FindBundle(e.Name); b != nil {
					s.entries = append(s.entries, s.entry(p, channel, e, b))
				}
			}
		}
	}
	return s
}

func (s *source) entry(p *catalog.Package, c *catalog.Channel, e declcfg.ChannelEntry, b *catalog.Bundle) *cache.Entry {
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
			Catalog:        s.key,
			DefaultChannel: c.Name == p.DefaultChannel,
		},
	}
	if skipped, err := semver.ParseRange(e.SkipRange); err == nil {
		entry.SkipRange = skipped
	}
	return entry
}

// properties returns what the resolver sees of a bundle's properties.
func properties(b *catalog.Bundle) (all []*api.Property) {
	for _, p := range b.Properties {
		if !catalog.IsBulk(p.Type) {
			all = append(all, &api.Property{Type: p.Type, Value: string(p.Value)})
		}
	}
	return all
}

// apis returns the APIs that the properties of one type name.
func apis(b *catalog.Bundle, propertyType string) cache.APISet {
	set := cache.APISet{}
	for _, p := range b.Properties {
		var named property.GVK
		if p.Type == propertyType && json.Unmarshal(p.Value, &named) == nil {
			set[registry.APIKey{Group: named.Group, Version: named.Version, Kind: named.Kind}] = struct{}{}
		}
	}
	return set
}

// request is what the resolver is asked: a Subscription, and what it has installed, if anything.
type request struct {
	pkg, channel, startingCSV string
	installed                 *upgrade.Version
	provides                  []*api.Property // of what is installed
}

// resolve has OLM's resolver choose from a source. It returns nil where OLM would do nothing.
func (s *source) resolve(r request) ([]*cache.Entry, error) {
	subscription := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: r.pkg, Namespace: namespace},
		Spec: &v1alpha1.SubscriptionSpec{
			CatalogSource: s.key.Name, CatalogSourceNamespace: s.key.Namespace,
			Package: r.pkg, Channel: r.channel, StartingCSV: r.startingCSV,
		},
	}
	virtual := cache.NewVirtualSourceKey(namespace)
	existing := &cache.Snapshot{}
	if r.installed != nil {
		subscription.Status.InstalledCSV = r.installed.Name
		existing.Entries = append(existing.Entries, &cache.Entry{
			Name:       r.installed.Name,
			Version:    r.installed.Number,
			Properties: r.provides,
			SourceInfo: &cache.OperatorSourceInfo{Package: r.pkg, Catalog: virtual, Subscription: subscription},
		})
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	olm := resolver.NewDefaultResolver(cache.New(cache.StaticSourceProvider{
		s.key:   &cache.Snapshot{Entries: s.entries},
		virtual: existing,
	}), log)
	chosen, err := olm.Resolve([]string{namespace}, []*v1alpha1.Subscription{subscription})
	if err != nil {
		return nil, err
	}
	if len(chosen) == 1 && r.installed != nil && chosen[0].Name == r.installed.Name {
		return nil, nil // the Subscription is where it was: OLM makes no step of that
	}
	return chosen, nil
}
