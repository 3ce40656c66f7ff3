package build

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/fbc/document"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/olm/upgrade"
)

// origin is where a document of a catalog that is being made comes from: the document there, and the path in it, of
// the value that a path leads to.
type origin func(path []any) (document.Document, []any)

// check asks all rules for catalogs of a catalog. They blame its documents; the findings are about what those were
// made of.
func check(config *declcfg.DeclarativeConfig, from func(schema, name string) origin) []*findings.Finding {
	var origins []origin
	made := fbc.Of(config, func(schema, name string) document.Span {
		origins = append(origins, from(schema, name))
		source, path := origins[len(origins)-1](nil)
		line, _ := source.Position(path)
		return document.Span{File: source.File, Line: line, Offset: int64(len(origins) - 1)} // which tells them apart
	})
	return rules.CheckAt(made, func(rule findings.Rule, span document.Span, path []any, format string, args ...any) *findings.Finding {
		source, path := origins[span.Offset](path)
		return source.FaultAt(rule, path, format, args...)
	})
}

// check finds what is wrong with the catalog, where it stands in the template.
func (d *draft) check() {
	d.found = append(d.found, check(d.config, func(schema, name string) origin {
		return func(path []any) (document.Document, []any) { return d.document, d.origin(schema, name, path) }
	})...)
}

// origin returns the path in the template of what a value in the catalog comes from.
func (d *draft) origin(schema, name string, path []any) []any {
	switch {
	case schema == declcfg.SchemaChannel:
		return d.inChannel(slices.IndexFunc(d.Channels, func(c channel) bool { return c.Name == name }), path)
	case schema == declcfg.SchemaBundle:
		return at("bundles", slices.Index(d.names(), name))
	case schema == declcfg.SchemaDeprecation && len(path) < 2:
		return at("deprecations")
	case schema == declcfg.SchemaDeprecation:
		return at("deprecations", path[1])
	case slices.Equal(path, at("defaultChannel")):
		return path
	}
	return at("package")
}

// inChannel returns the path in the template of a value in a channel, whose entries are in another order there.
func (d *draft) inChannel(index int, path []any) []any {
	if len(path) < 2 {
		return at("channels", index)
	}
	return slices.Concat(d.entryPaths[index][path[1].(int)], path[2:])
}

// introduce gives the package what the head of its default channel says of it.
func (d *draft) introduce() {
	if err := introduce(d.config, d.rendered); err != nil {
		d.fault(at("bundles"), "%v", err)
	}
}

// introduce gives a package that was checked what the head of its default channel says of it.
func introduce(config *declcfg.DeclarativeConfig, bundles []*render.Bundle) error {
	pkg := &config.Packages[0]
	checked := fbc.Of(config, func(string, string) document.Span { return document.Span{} }).Find(pkg.Name)
	head := upgrade.Of(checked, checked.FindChannel(pkg.DefaultChannel)).Heads[0]
	return named(bundles, head.Name).Introduce(pkg)
}

// mediaTypes are those of icons that consoles show, by the endings of their files.
var mediaTypes = map[string]string{
	".gif": "image/gif", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".png": "image/png", ".svg": "image/svg+xml"}

// icon returns the icon that the template names, or nil.
func (d *draft) icon() *declcfg.Icon {
	if d.Icon == "" {
		return nil
	}
	mediaType := mediaTypes[strings.ToLower(filepath.Ext(d.Icon))]
	if mediaType == "" {
		d.fault(at("icon"), "file %s is of no kind that consoles show as an icon; expected one that ends with %s", d.Icon,
			strings.Join(slices.Sorted(maps.Keys(mediaTypes)), ", "))
		return nil
	}
	data, err := os.ReadFile(d.path(d.Icon))
	if err != nil {
		d.fault(at("icon"), "icon: %v", err)
	}
	return &declcfg.Icon{Data: data, MediaType: mediaType}
}
