package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/fbc/document"
	"github.com/berth-csi/berth/findings"
)

// Folders makes the catalog of one package from the folders of its bundles, in any order. Channels and the default
// channel are those that the bundles' annotations name, and how versions update each other is what their
// ClusterServiceVersions say. The error is all that is wrong, with where it stands.
func Folders(ctx context.Context, dirs []string) (*declcfg.DeclarativeConfig, error) {
	releases, err := readFolders(ctx, dirs)
	if err != nil {
		return nil, err
	}
	if err := checkDistinct(releases); err != nil {
		return nil, err
	}
	channels, err := channelsOf(releases)
	if err != nil {
		return nil, err
	}
	defaultChannel, err := defaultChannelOf(releases, channels)
	if err != nil {
		return nil, err
	}
	config := &declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: releases[0].Rendered.Package, DefaultChannel: defaultChannel}},
		Channels: channels,
	}
	for _, r := range releases {
		config.Bundles = append(config.Bundles, r.Rendered)
	}
	if err := checkFolders(config, releases); err != nil {
		return nil, err
	}
	return config, introduce(config, releases)
}

// readFolders reads bundle folders, and returns them from the oldest version to the newest.
func readFolders(ctx context.Context, dirs []string) ([]*fbc.Release, error) {
	if len(dirs) == 0 {
		return nil, errors.New("no bundle folder given; expected at least one")
	}
	var releases []*fbc.Release
	var faults []error
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := fbc.ReadRelease(dir)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		releases = append(releases, r)
	}
	slices.SortFunc(releases, func(a, b *fbc.Release) int { return cmp.Or(a.Compare(b), cmp.Compare(a.CSV.File, b.CSV.File)) })
	return releases, errors.Join(faults...)
}

// checkDistinct refuses bundles that cannot stand side by side in one package.
func checkDistinct(releases []*fbc.Release) error {
	var faults []error
	taken := map[string]*fbc.Release{}
	for _, r := range releases {
		first := releases[0]
		if r.Rendered.Package != first.Rendered.Package {
			faults = append(faults, fmt.Errorf("%s is of package %s, but %s is of package %s; "+
				"build one package at a time, several into the same output folder if they are to be one catalog",
				r.Annotations.File, r.Rendered.Package, first.Annotations.File, first.Rendered.Package))
			continue
		}
		for _, claim := range claims(r) {
			if other, found := taken[claim]; found {
				faults = append(faults, fmt.Errorf("%s and %s both claim the %s of package %s; expected every bundle to have its own",
					other.CSV.File, r.CSV.File, claim, r.Rendered.Package))
				break
			}
			taken[claim] = r
		}
	}
	return errors.Join(faults...)
}

// claims are what two bundles of a package cannot both have.
func claims(r *fbc.Release) []string {
	return []string{"name " + r.Rendered.Name, "version " + r.Number()}
}

// channelsOf returns the package's channels, sorted by name, each with its entries from the oldest to
// the newest.
func channelsOf(releases []*fbc.Release) ([]declcfg.Channel, error) {
	entries := map[string][]declcfg.ChannelEntry{}
	var faults []error
	for _, r := range releases {
		entry, err := r.Entry()
		names := r.Channels()
		if err == nil && len(names) == 0 {
			err = r.Annotations.Fault(fbc.BundleFormat, "no annotation %s; expected the names of the package's channels that the bundle "+
				"is part of, with commas between them", fbc.ChannelsAnnotation)
		}
		faults = append(faults, err)
		for _, channel := range names {
			entries[channel] = append(entries[channel], entry)
		}
	}
	var channels []declcfg.Channel
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		channels = append(channels, declcfg.Channel{
			Schema: declcfg.SchemaChannel, Package: releases[0].Rendered.Package, Name: name, Entries: entries[name]})
	}
	return channels, errors.Join(faults...)
}

// defaultChannelOf returns what the newest release that has an opinion says is the default channel.
func defaultChannelOf(releases []*fbc.Release, channels []declcfg.Channel) (string, error) {
	var names []string
	for _, c := range channels {
		names = append(names, c.Name)
	}
	for _, r := range slices.Backward(releases) {
		switch name := r.DefaultChannel(); {
		case name == "":
			continue
		case !slices.Contains(names, name):
			return "", r.Annotations.FaultAt(fbc.BundleFormat, at("annotations", fbc.DefaultChannelAnnotation),
				"annotation %s is %q, but no bundle is part of that channel; expected one of %s", fbc.DefaultChannelAnnotation, name, strings.Join(names, ", "))
		default:
			return name, nil
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", releases[len(releases)-1].Annotations.Fault(fbc.BundleFormat, "no annotation %s, in no bundle of package %s; expected one of its channels %s",
		fbc.DefaultChannelAnnotation, releases[0].Rendered.Package, strings.Join(names, ", "))
}

// checkFolders asks all rules for catalogs of this one. What they find is about the ClusterServiceVersion that says
// how a bundle updates others, or the newest one where it is about a channel as a whole.
func checkFolders(config *declcfg.DeclarativeConfig, releases []*fbc.Release) error {
	newest := releases[len(releases)-1]
	entry := func(channel int) origin {
		return func(path []any) (document.Document, []any) {
			if len(path) < 2 {
				return newest.CSV, at("spec", "replaces")
			}
			name := config.Channels[channel].Entries[path[1].(int)].Name
			return named(releases, name).CSV, inCSV(path[2:])
		}
	}
	found := check(config, func(schema, name string) origin {
		switch schema {
		case declcfg.SchemaChannel:
			return entry(slices.IndexFunc(config.Channels, func(c declcfg.Channel) bool { return c.Name == name }))
		case declcfg.SchemaBundle:
			return func([]any) (document.Document, []any) { return named(releases, name).CSV, nil }
		}
		return func([]any) (document.Document, []any) { return newest.Annotations, at("annotations") }
	})
	var faults []error
	for _, f := range found {
		if f.Severity == findings.Error {
			faults = append(faults, f)
		}
	}
	return errors.Join(faults...)
}

func named(releases []*fbc.Release, name string) *fbc.Release {
	return releases[slices.IndexFunc(releases, func(r *fbc.Release) bool { return r.Rendered.Name == name })]
}

// inCSV returns the path in a ClusterServiceVersion of what a value in a channel's entry comes from.
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
