package build

import (
	"cmp"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/render"
)

// assemble builds the catalog, except for the description and the icon, which introduce adds.
func (d *draft) assemble() {
	d.config = &declcfg.DeclarativeConfig{Packages: []declcfg.Package{{
		Schema: declcfg.SchemaPackage, Name: d.Package, DefaultChannel: d.DefaultChannel, Description: d.Description, Icon: d.icon()}}}
	if len(d.Channels) == 1 && d.DefaultChannel == "" {
		d.config.Packages[0].DefaultChannel = d.Channels[0].Name
	}
	for i := range d.Channels {
		d.config.Channels = append(d.config.Channels, d.channel(i))
	}
	for i, b := range d.rendered {
		rendered, err := b.In(render.Described)
		if err != nil {
			d.found = append(d.found, d.document.FaultAt(ruleBundle, at("bundles", i), "%v", err))
		}
		d.config.Bundles = append(d.config.Bundles, rendered)
	}
	if len(d.Deprecations) > 0 {
		d.config.Deprecations = []declcfg.Deprecation{d.deprecations()}
	}
}

// place is an entry of the template with its bundle.
type place struct {
	entry
	bundle *render.Bundle
	path   []any
}

// channel returns a channel with its entries from the oldest to the newest.
func (d *draft) channel(index int) declcfg.Channel {
	said := d.Channels[index]
	places := d.places(index)
	slices.SortStableFunc(places, func(a, b place) int { return a.bundle.Compare(b.bundle) })
	c := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: d.Package, Name: said.Name}
	paths := map[string][]any{}
	for i, p := range places {
		c.Entries = append(c.Entries, d.entry(p, said.SkipRange, places[:i]))
		paths[p.bundle.Name] = p.path
	}
	d.entryPaths = append(d.entryPaths, paths)
	return c
}

// places returns the entries of a channel in the order of the template.
func (d *draft) places(index int) (places []place) {
	if d.Channels[index].Entries == nil {
		for _, b := range d.rendered {
			places = append(places, place{bundle: b, path: at("channels", index)})
		}
		return places
	}
	for i, e := range d.Channels[index].Entries {
		p := place{entry: e, path: at("channels", index, "entries", i)}
		if p.bundle = d.find(cmp.Or(e.Name, e.Version), p.path); p.bundle != nil {
			places = append(places, p)
		}
	}
	return places
}

// entry returns the catalog's entry for an entry of the template. Each field comes from the template's entry, its channel
// or the ClusterServiceVersion, in this order. By default the entry replaces the latest entry before it that it does not
// skip. The first one replaces what its ClusterServiceVersion replaces, because each channel may begin with another
// version.
func (d *draft) entry(p place, skipRange *string, before []place) declcfg.ChannelEntry {
	e, err := p.bundle.Entry()
	if err != nil {
		d.fault(p.path, "%v", err)
		return e
	}
	e.SkipRange = *cmp.Or(p.SkipRange, skipRange, &e.SkipRange)
	if p.Skips != nil {
		e.Skips = nil
		for i, skipped := range *p.Skips {
			e.Skips = append(e.Skips, d.nameOf(skipped, slices.Concat(p.path, at("skips", i))))
		}
	}
	if p.Replaces != nil {
		e.Replaces = d.replaced(*p.Replaces, p, before)
		return e
	}
	for _, earlier := range slices.Backward(before) {
		if name := earlier.bundle.Name; !slices.Contains(e.Skips, name) {
			e.Replaces = name
			break
		}
	}
	return e
}

// replaced returns the name that an entry of the template replaces. The first entry of a channel may replace a bundle of another catalog.
// A later entry must not, because that would strand the entries before it.
func (d *draft) replaced(said string, by place, before []place) string {
	path := slices.Concat(by.path, at("replaces"))
	name := d.nameOf(said, path)
	if name != "" && len(before) > 0 && !slices.Contains(d.names(), name) {
		d.fault(path, "%s replaces %s, which is not a bundle of this template; only the first entry of a channel may: "+
			"list other versions that it updates in skips, and replace the bundle before it", by.bundle.Name, name)
	}
	return name
}

// nameOf returns the name of the bundle with a name or a version. A name may belong to a bundle outside of this catalog: OLM needs only
// its name.
func (d *draft) nameOf(nameOrVersion string, path []any) string {
	if _, isVersion := parse(nameOrVersion); !isVersion {
		return nameOrVersion
	}
	if b := d.find(nameOrVersion, path); b != nil {
		return b.Name
	}
	return ""
}

func (d *draft) deprecations() declcfg.Deprecation {
	all := declcfg.Deprecation{Schema: declcfg.SchemaDeprecation, Package: d.Package}
	for i, said := range d.Deprecations {
		entry := declcfg.DeprecationEntry{Message: said.Message}
		switch {
		case said.Package != "":
			entry.Reference.Schema = declcfg.SchemaPackage
		case said.Channel != "":
			entry.Reference = declcfg.PackageScopedReference{Schema: declcfg.SchemaChannel, Name: said.Channel}
		default:
			entry.Reference = declcfg.PackageScopedReference{Schema: declcfg.SchemaBundle, Name: d.nameOf(said.Bundle, at("deprecations", i, "bundle"))}
		}
		all.Entries = append(all.Entries, entry)
	}
	return all
}
