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

// origin maps a path in a document of the built catalog to where that value comes from: a document of the input, and a path
// in that.
type origin func(path []any) (document.Document, []any)

// check applies all rules for catalogs. The rules report values in the catalog; the findings are at the values in the
// input that those come from.
func check(config *declcfg.DeclarativeConfig, from func(schema, name string) origin) []*findings.Finding {
	var origins []origin
	made := fbc.Of(config, func(schema, name string) document.Span {
		origins = append(origins, from(schema, name))
		source, path := origins[len(origins)-1](nil)
		line, _ := source.Position(path)
		return document.Span{File: source.File, Line: line, Offset: int64(len(origins) - 1)} // the offset is an index of origins
	})
	return rules.CheckAt(made, func(rule findings.Rule, span document.Span, path []any, format string, args ...any) *findings.Finding {
		source, path := origins[span.Offset](path)
		return source.FaultAt(rule, path, format, args...)
	})
}

// check applies all rules for catalogs, with findings in the template.
func (d *draft) check() {
	d.found = append(d.found, check(d.config, func(schema, name string) origin {
		return func(path []any) (document.Document, []any) { return d.document, d.origin(schema, name, path) }
	})...)
}

// origin returns the path in the template that a value in the catalog comes from.
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

// inChannel returns the path in the template of a value in a channel. The template may order entries differently.
func (d *draft) inChannel(index int, path []any) []any {
	if len(path) < 2 {
		return at("channels", index)
	}
	return slices.Concat(d.entryPaths[index][path[1].(int)], path[2:])
}

// introduce gives the package the description and icon of its default channel's head.
func (d *draft) introduce() {
	if err := introduce(d.config, d.rendered); err != nil {
		d.fault(at("bundles"), "%v", err)
	}
}

// introduce gives a checked package the description and icon of its default channel's head.
func introduce(config *declcfg.DeclarativeConfig, bundles []*render.Bundle) error {
	pkg := &config.Packages[0]
	checked := fbc.Of(config, func(string, string) document.Span { return document.Span{} }).Find(pkg.Name)
	head := upgrade.Of(checked, checked.FindChannel(pkg.DefaultChannel)).Heads[0]
	return named(bundles, head.Name).Introduce(pkg)
}

// mediaTypes are the media types of icons that consoles show, by file extension.
var mediaTypes = map[string]string{
	".gif": "image/gif", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".png": "image/png", ".svg": "image/svg+xml"}

// icon returns the icon that the template names, or nil.
func (d *draft) icon() *declcfg.Icon {
	if d.Icon == "" {
		return nil
	}
	mediaType := mediaTypes[strings.ToLower(filepath.Ext(d.Icon))]
	if mediaType == "" {
		d.fault(at("icon"), "consoles cannot show file %s as an icon; expected one of the extensions %s", d.Icon,
			strings.Join(slices.Sorted(maps.Keys(mediaTypes)), ", "))
		return nil
	}
	data, err := os.ReadFile(d.path(d.Icon))
	if err != nil {
		d.fault(at("icon"), "icon: %v", err)
	}
	return &declcfg.Icon{Data: data, MediaType: mediaType}
}
