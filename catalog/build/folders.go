package build

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
)

// Graph says how upgrade edges are made. It has the values of updateGraph in the ci.yaml of operator repositories.
type Graph string

const (
	// ByReplaces takes the edges from the ClusterServiceVersions.
	ByReplaces Graph = "replaces-mode"
	// BySemver makes each version replace the previous one in its channel, and ignores replaces and skips of
	// ClusterServiceVersions. It keeps a skipRange.
	BySemver Graph = "semver-mode"
)

// Graphs lists all values.
var Graphs = []Graph{ByReplaces, BySemver}

// ruleFolders is the rule for folders of bundles, in addition to those for bundles and catalogs.
var ruleFolders = findings.Rule{ID: "bundle-folders", Severity: findings.Error,
	What: "All bundle folders of a catalog belong to one package, and no two bundles have the same name or version.",
	Why:  "No catalog can be built from them."}

// Folders builds the catalog of one package from the folders of its bundles, in any order, and returns all findings. The bundles'
// annotations name the channels and the default channel. against is the catalog that the new one replaces, or nil. It fails if a folder is
// not a bundle folder; the findings are then about the other folders.
func Folders(ctx context.Context, dirs []string, graph Graph, against *fbc.Catalog) (*Built, error) {
	bundles, found, err := readFolders(ctx, dirs)
	built := &Built{Found: found}
	if err == nil {
		built.assemble(bundles, graph, against)
	}
	findings.Sort(built.Found)
	return built, err
}

// assemble builds the catalog from bundles. Each step runs only if those before it found no error.
func (b *Built) assemble(bundles []*render.Bundle, graph Graph, against *fbc.Catalog) {
	failed := func(found []*findings.Finding) bool {
		b.Found = append(b.Found, found...)
		return findings.Count(b.Found, findings.Error) > 0
	}
	if failed(checkDistinct(bundles)) {
		return
	}
	channels, found := channelsOf(bundles, graph)
	if failed(found) {
		return
	}
	defaultChannel, found := defaultChannelOf(bundles, channels)
	if failed(found) {
		return
	}
	config := &declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: bundles[0].Package, DefaultChannel: defaultChannel}},
		Channels: channels,
	}
	found = nil
	for _, bundle := range bundles {
		rendered, err := bundle.In(render.Whole)
		found = append(found, about(bundle, err)...)
		config.Bundles = append(config.Bundles, rendered)
	}
	if failed(found) {
		return
	}
	if failed(checkFolders(config, bundles, against)) {
		b.Advice = unlinked(config, bundles)
		return
	}
	head, err := introduce(config, bundles)
	if failed(about(head, err)) {
		return
	}
	b.Catalogs = []*Catalog{{Config: config}}
}

// about returns the findings that say why a bundle cannot be in a catalog.
func about(b *render.Bundle, err error) []*findings.Finding {
	found, others := registryv1.Faults(err)
	for _, other := range others {
		found = append(found, registryv1.Format.Finding(b.CSV.File, "%v", other))
	}
	return found
}

// readFolders reads bundle folders and returns the bundles from the oldest version to the newest. The error is about folders that are not
// bundle folders.
func readFolders(ctx context.Context, dirs []string) (bundles []*render.Bundle, found []*findings.Finding, err error) {
	if len(dirs) == 0 {
		return nil, nil, errors.New("no bundle folder given; expected at least one")
	}
	var strangers []error
	var kept atomic.Int64
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err := room(&kept, dir); err != nil {
			return nil, found, err
		}
		b, err := render.Folder(dir)
		if err == nil {
			err = keep(b, dir, true, &kept, 0)
		}
		if err != nil {
			faults, others := registryv1.Faults(err)
			found, strangers = append(found, faults...), append(strangers, others...)
			continue
		}
		for _, f := range b.Found { // whoever builds a catalog from folders can correct them
			f.Severity = findings.Error
			found = append(found, f)
		}
		bundles = append(bundles, b)
	}
	slices.SortFunc(bundles, func(a, b *render.Bundle) int { return cmp.Or(a.Compare(b), cmp.Compare(a.CSV.File, b.CSV.File)) })
	return bundles, found, errors.Join(strangers...)
}

// checkDistinct rejects bundles of different packages, and bundles that share a name or a version.
func checkDistinct(bundles []*render.Bundle) (found []*findings.Finding) {
	taken := map[string]*render.Bundle{}
	for _, b := range bundles {
		first := bundles[0]
		if b.Package != first.Package {
			found = append(found, b.Metadata.FaultAt(ruleFolders, at("annotations", registryv1.PackageAnnotation), "the bundle is of package %s, but %s is of package %s; "+
				"build one package at a time, into the same output folder to make one catalog of several",
				b.Package, first.Metadata.File, first.Package))
			continue
		}
		for _, own := range identity(b) {
			if other, is := taken[own.text]; is {
				found = append(found, b.CSV.FaultAt(ruleFolders, own.path, "%s is also of %s, in package %s; expected every bundle to have its own",
					own.text, other.CSV.File, b.Package))
				break
			}
			taken[own.text] = b
		}
	}
	return found
}

// own is a value that no two bundles of a package may share, and its path in the ClusterServiceVersion.
type own struct {
	text string
	path []any
}

// identity returns the values that no two bundles of a package may share.
func identity(b *render.Bundle) []own {
	return []own{{"name " + b.Name, at("metadata", "name")}, {"version " + b.Number(), at("spec", "version")}}
}

// channelsOf returns the package's channels by name, each with its entries from the oldest to the newest.
func channelsOf(bundles []*render.Bundle, graph Graph) (channels []declcfg.Channel, found []*findings.Finding) {
	entries := map[string][]declcfg.ChannelEntry{}
	for _, b := range bundles {
		entry, err := b.Entry()
		names := b.Channels()
		found = append(found, about(b, err)...)
		if err == nil && len(names) == 0 {
			found = append(found, b.Metadata.Fault(registryv1.Format, "no annotation %s; expected the names of the package's channels that the bundle "+
				"is part of, with commas between them", registryv1.ChannelsAnnotation))
		}
		for _, channel := range names {
			if graph == BySemver {
				entry.Replaces, entry.Skips = lastOf(entries[channel]), nil
			}
			entries[channel] = append(entries[channel], entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		channels = append(channels, declcfg.Channel{
			Schema: declcfg.SchemaChannel, Package: bundles[0].Package, Name: name, Entries: entries[name]})
	}
	return channels, found
}

// lastOf returns the name of the last entry, or "" if there is none.
func lastOf(entries []declcfg.ChannelEntry) string {
	if len(entries) == 0 {
		return ""
	}
	return entries[len(entries)-1].Name
}

// defaultChannelOf returns the default channel from the newest bundle whose annotations name one, or else the only channel.
func defaultChannelOf(bundles []*render.Bundle, channels []declcfg.Channel) (string, []*findings.Finding) {
	var names []string
	for _, c := range channels {
		names = append(names, c.Name)
	}
	for _, b := range slices.Backward(bundles) {
		switch name := b.DefaultChannel(); {
		case name == "":
			continue
		case !slices.Contains(names, name):
			return "", []*findings.Finding{b.Metadata.FaultAt(registryv1.Format, at("annotations", registryv1.DefaultChannelAnnotation),
				"annotation %s is %q, but no bundle is part of that channel; expected one of %s", registryv1.DefaultChannelAnnotation, name, strings.Join(names, ", "))}
		default:
			return name, nil
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", []*findings.Finding{bundles[len(bundles)-1].Metadata.Fault(registryv1.Format, "no bundle of package %s has the annotation %s; expected one of the package's channels %s",
		bundles[0].Package, registryv1.DefaultChannelAnnotation, strings.Join(names, ", "))}
}

// checkFolders applies all rules for catalogs. Findings about an entry point to the ClusterServiceVersion of its bundle, findings about a
// channel to the newest ClusterServiceVersion.
func checkFolders(config *declcfg.DeclarativeConfig, bundles []*render.Bundle, against *fbc.Catalog) []*findings.Finding {
	newest := bundles[len(bundles)-1]
	entry := func(channel int) origin {
		return func(path []any) (document.Document, []any) {
			if len(path) < 2 {
				return newest.CSV, at("spec", "replaces")
			}
			name := config.Channels[channel].Entries[path[1].(int)].Name
			return named(bundles, name).CSV, inCSV(path[2:])
		}
	}
	return check(config, against, func(schema, name string) origin {
		switch schema {
		case declcfg.SchemaChannel:
			return entry(slices.IndexFunc(config.Channels, func(c declcfg.Channel) bool { return c.Name == name }))
		case declcfg.SchemaBundle:
			return func([]any) (document.Document, []any) { return named(bundles, name).CSV, nil }
		}
		return func([]any) (document.Document, []any) { return newest.Metadata.Document, at("annotations") }
	})
}

// unlinked returns advice for bundles without replaces, which are common where catalogs order bundles by version: a flag and a template,
// either of which makes each version replace the one before. The template's folders are relative to the working directory.
func unlinked(config *declcfg.DeclarativeConfig, bundles []*render.Bundle) error {
	linked := func(e declcfg.ChannelEntry) bool { return e.Replaces != "" || len(e.Skips) > 0 }
	for _, c := range config.Channels {
		if slices.ContainsFunc(c.Entries, linked) {
			return nil
		}
	}
	t := map[string]any{"schema": Schema, "package": bundles[0].Package, "defaultChannel": config.Packages[0].DefaultChannel}
	var folders, channels []any
	for _, b := range bundles {
		folders = append(folders, map[string]any{"folder": filepath.Dir(filepath.Dir(b.CSV.File))})
	}
	for _, c := range config.Channels {
		channel := map[string]any{"name": c.Name}
		if len(c.Entries) < len(bundles) {
			var entries []any
			for _, e := range c.Entries {
				entries = append(entries, map[string]any{"name": e.Name})
			}
			channel["entries"] = entries
		}
		channels = append(channels, channel)
	}
	t["bundles"], t["channels"] = folders, channels
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return errors.Join(fmt.Errorf("no bundle says what it replaces; with --update-graph=%s, each replaces the version before it. A template does the same: save the next line as %s.yaml in this folder, and build that instead of the folders", BySemver, bundles[0].Package),
		errors.New(string(text)))
}

func named(bundles []*render.Bundle, name string) *render.Bundle {
	return bundles[slices.IndexFunc(bundles, func(b *render.Bundle) bool { return b.Name == name })]
}

// inCSV returns the path in a ClusterServiceVersion that a value in a channel's entry comes from.
func inCSV(path []any) []any {
	switch {
	case len(path) == 0:
		return at("spec", "replaces")
	case path[0] == "name":
		return at("metadata", "name")
	case path[0] == "skipRange":
		return at("metadata", "annotations", "olm.skipRange")
	}
	return slices.Concat(at("spec"), path)
}
