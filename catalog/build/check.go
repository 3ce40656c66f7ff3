package build

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/olm/upgrade"
)

// origin maps a path in a document of the built catalog to the source of the value: a document of the input and a path in it.
type origin func(path []any) (document.Document, []any)

// located is a document in which many positions are looked up: it is parsed once for all of them.
type located struct {
	document.Document
	position func(path []any) (line, column int)
}

func locate(d document.Document) located { return located{d, d.Positions()} }

// FaultAt returns a finding about a place in the document.
func (l located) FaultAt(rule findings.Rule, path []any, format string, args ...any) *findings.Finding {
	if l.position == nil { // there is no document
		return rule.Finding(l.File, format, args...)
	}
	line, column := l.position(path)
	return rule.Finding(l.File, format, args...).At(line, column)
}

// check applies all rules for catalogs and, unless against is nil, the rules for a catalog that replaces another one. The rules report
// values in the catalog; the findings name the values in the input from which these were made.
func check(config *declcfg.DeclarativeConfig, against *fbc.Catalog, from func(schema, name string) origin) []*findings.Finding {
	var origins []origin
	positions := map[string]func([]any) (line, column int){} // by file: each is parsed once
	made, found := fbc.Of(config, func(schema, name string) document.Span {
		origins = append(origins, from(schema, name))
		source, path := origins[len(origins)-1](nil)
		if positions[source.File] == nil {
			positions[source.File] = source.Positions()
		}
		line, _ := positions[source.File](path)
		return document.Span{File: source.File, Line: line, Offset: int64(len(origins) - 1)} // the offset is an index of origins
	})
	place := func(rule findings.Rule, span document.Span, path []any, format string, args ...any) *findings.Finding {
		source, path := origins[span.Offset](path)
		if positions[source.File] == nil { // a value may come from another file than its document
			return source.FaultAt(rule, path, format, args...)
		}
		line, column := positions[source.File](path)
		return rule.Finding(source.File, format, args...).At(line, column)
	}
	found = append(found, rules.CheckAt(made, place)...)
	for _, p := range made.Packages {
		if against == nil || against.Find(p.Name) == nil {
			continue
		}
		before := &fbc.Catalog{Dir: against.Dir, Packages: []*fbc.Package{against.Find(p.Name)}}
		found = append(found, rules.AgainstAt(made, before, place)...)
	}
	return found
}

// check applies all rules for catalogs to a catalog that was built from the template, with findings in the template.
func (d *draft) check(config *declcfg.DeclarativeConfig) []*findings.Finding {
	return check(config, d.against, func(schema, name string) origin {
		return func(path []any) (document.Document, []any) {
			return d.document.Document, d.origin(config, schema, name, path)
		}
	})
}

// origin returns the path in the template that a value in the catalog comes from.
func (d *draft) origin(config *declcfg.DeclarativeConfig, schema, name string, path []any) []any {
	switch {
	case schema == declcfg.SchemaChannel:
		return d.inChannel(config, name, path)
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
func (d *draft) inChannel(config *declcfg.DeclarativeConfig, name string, path []any) []any {
	index := slices.IndexFunc(d.Channels, func(c channel) bool { return c.Name == name })
	if len(path) < 2 {
		return at("channels", index)
	}
	made := config.Channels[slices.IndexFunc(config.Channels, func(c declcfg.Channel) bool { return c.Name == name })]
	return slices.Concat(d.entryPaths[index][made.Entries[path[1].(int)].Name], path[2:])
}

// chooseDefault chooses a default channel if a catalog with some of the bundles lacks the template's default channel.
func (d *draft) chooseDefault(config *declcfg.DeclarativeConfig) []*findings.Finding {
	lost, chosen := chooseDefault(config)
	if lost == "" {
		return nil
	}
	return []*findings.Finding{otherDefault(d.document, at("defaultChannel"), lost, chosen)}
}

// chooseDefault sets the default channel to the last channel by name, if the catalog of one package lacks its default channel. It
// then returns both.
func chooseDefault(config *declcfg.DeclarativeConfig) (lost, chosen string) {
	if len(config.Packages) != 1 || len(config.Channels) == 0 {
		return "", ""
	}
	pkg := &config.Packages[0]
	var names []string
	for _, c := range config.Channels {
		names = append(names, c.Name)
	}
	if slices.Contains(names, pkg.DefaultChannel) {
		return "", ""
	}
	lost = pkg.DefaultChannel
	pkg.DefaultChannel = slices.Max(names)
	return lost, pkg.DefaultChannel
}

// otherDefault warns that another default channel was chosen.
func otherDefault(template located, path []any, lost, chosen string) *findings.Finding {
	f := template.FaultAt(ruleTemplate, path, "no bundle of the default channel %q is for this version of OpenShift, so the default channel is %q", lost, chosen)
	f.Severity = findings.Warning
	return f
}

// introduce gives a checked package the description and icon of its default channel's head, which it returns.
func introduce(config *declcfg.DeclarativeConfig, bundles []*render.Bundle) (*render.Bundle, error) {
	pkg := &config.Packages[0]
	all, _ := fbc.Of(config, func(string, string) document.Span { return document.Span{} })
	checked := all.Find(pkg.Name)
	head := named(bundles, upgrade.Of(checked, checked.FindChannel(pkg.DefaultChannel)).Heads[0].Name)
	return head, head.Introduce(pkg)
}

// mediaTypes are the media types of icons that consoles show, by file extension.
var mediaTypes = map[string]string{
	".gif": "image/gif", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".png": "image/png", ".svg": "image/svg+xml"}

// icon returns the template's icon, or nil. It follows no link out of the icon's folder, so that no other file gets into the catalog.
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
	path := d.path(d.Icon)
	data, err := boundedyaml.ReadFileIn(filepath.Dir(path), filepath.Base(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.fault(at("icon"), "icon: there is no file %s; expected its path from the template's folder", d.Icon)
	case err != nil:
		d.fault(at("icon"), "icon: %v", err)
	}
	return &declcfg.Icon{Data: data, MediaType: mediaType}
}
