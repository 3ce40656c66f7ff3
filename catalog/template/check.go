package template

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog"
	"github.com/berth-csi/berth/catalog/document"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/upgrade"
	"github.com/berth-csi/berth/findings"
)

// origin is where in the template a document of the catalog comes from: it returns the path there of the value
// that a path leads to in the document.
type origin func(path []any) []any

// check asks all rules for catalogs of this one. They blame a document of the catalog; the findings are about
// what that was made of.
func (d *draft) check() {
	var origins []origin
	of := catalog.Of(d.config, func(schema, name string) document.Span {
		from := d.origin(schema, name)
		line, _ := d.document.Position(from(nil))
		origins = append(origins, from)
		return document.Span{File: d.document.File, Line: line, Offset: int64(len(origins) - 1)} // which tells them apart
	})
	d.found = append(d.found, rules.CheckAt(of, func(rule findings.Rule, span document.Span, path []any, format string, args ...any) *findings.Finding {
		return d.document.FaultAt(rule, origins[span.Offset](path), format, args...)
	})...)
}

func (d *draft) origin(schema, name string) origin {
	switch schema {
	case declcfg.SchemaChannel:
		index := slices.IndexFunc(d.Channels, func(c channel) bool { return c.Name == name })
		return func(path []any) []any { return d.inChannel(index, path) }
	case declcfg.SchemaBundle:
		index := slices.Index(d.names(), name)
		return func([]any) []any { return at("bundles", index) }
	case declcfg.SchemaDeprecation:
		return func(path []any) []any {
			if len(path) < 2 {
				return at("deprecations")
			}
			return at("deprecations", path[1])
		}
	}
	return func(path []any) []any {
		if slices.Equal(path, at("defaultChannel")) {
			return path
		}
		return at("package")
	}
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
	pkg := &d.config.Packages[0]
	checked := catalog.Of(d.config, func(string, string) document.Span { return document.Span{} }).Find(pkg.Name)
	head := upgrade.Of(checked, checked.FindChannel(pkg.DefaultChannel)).Heads[0]
	if err := d.releases[slices.Index(d.names(), head.Name)].Introduce(pkg); err != nil {
		d.fault(at("bundles", slices.Index(d.names(), head.Name)), "%v", err)
	}
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
