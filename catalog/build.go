package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// Build makes the catalog of one package from the folders of its bundles, in any order.
//
// Bundles carry all their objects and name no image, so that OLM installs them from the catalog
// alone. Channels and the default channel are those that the bundles' annotations name, and how
// versions update each other is what their ClusterServiceVersions say. The same folders always give
// the same catalog.
func Build(ctx context.Context, bundleDirs []string) (*declcfg.DeclarativeConfig, error) {
	releases, err := readReleases(ctx, bundleDirs)
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
	if err := introduce(config, releases); err != nil {
		return nil, err
	}
	return config, nil
}

// readReleases reads bundle folders, and returns them from the oldest version to the newest.
func readReleases(ctx context.Context, dirs []string) ([]*Release, error) {
	if len(dirs) == 0 {
		return nil, errors.New("no bundle folder given; expected at least one")
	}
	var releases []*Release
	var faults []error
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := ReadRelease(dir)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		releases = append(releases, r)
	}
	slices.SortFunc(releases, func(a, b *Release) int {
		return cmp.Or(a.Compare(b), cmp.Compare(a.bundle.dir, b.bundle.dir))
	})
	return releases, errors.Join(faults...)
}

// checkDistinct refuses bundles that cannot stand side by side in one package.
func checkDistinct(releases []*Release) error {
	var faults []error
	taken := map[string]*Release{}
	for _, r := range releases {
		first := releases[0]
		if r.Rendered.Package != first.Rendered.Package {
			faults = append(faults, fmt.Errorf("%s is of package %s, but %s is of package %s; "+
				"build one package at a time, several into the same output folder if they are to be one catalog",
				r.bundle.annotationsFile, r.Rendered.Package, first.bundle.annotationsFile, first.Rendered.Package))
			continue
		}
		for _, claim := range []string{"version " + r.Number(), "the name " + r.Rendered.Name} {
			if other, found := taken[claim]; found {
				faults = append(faults, fmt.Errorf("%s and %s both claim %s of package %s; expected every bundle to have its own",
					other.bundle.csvFile, r.bundle.csvFile, claim, r.Rendered.Package))
				break
			}
			taken[claim] = r
		}
	}
	return errors.Join(faults...)
}

// channelsOf returns the package's channels, sorted by name, each with its entries from the oldest to
// the newest.
func channelsOf(releases []*Release) ([]declcfg.Channel, error) {
	entries := map[string][]declcfg.ChannelEntry{}
	var faults []error
	for _, r := range releases {
		entry, malformed := r.Entry()
		names, none := r.bundle.channels()
		faults = append(faults, malformed, none)
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
func defaultChannelOf(releases []*Release, channels []declcfg.Channel) (string, error) {
	var names []string
	for _, c := range channels {
		names = append(names, c.Name)
	}
	for _, r := range slices.Backward(releases) {
		switch name := r.bundle.Annotations.DefaultChannelName; {
		case name == "":
			continue
		case !slices.Contains(names, name):
			return "", bundleFolder.Finding(r.bundle.annotationsFile, "annotation %s is %q, but no bundle is part of that channel; expected one of %s",
				annotationDefault, name, strings.Join(names, ", "))
		default:
			return name, nil
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", bundleFolder.Finding(releases[len(releases)-1].bundle.annotationsFile,
		"no annotation %s, in no bundle of package %s; expected one of its channels %s", annotationDefault, releases[0].Rendered.Package, strings.Join(names, ", "))
}

// introduce checks the catalog of a package, and gives the package the icon and the description of
// the bundle that the default channel leads to.
func introduce(config *declcfg.DeclarativeConfig, releases []*Release) error {
	pkg := &config.Packages[0]
	model, err := declcfg.ConvertToModel(*config)
	if err != nil {
		return fmt.Errorf("the bundles make no valid package; see spec.replaces, spec.skips and the annotation olm.skipRange of their ClusterServiceVersions: %w", err)
	}
	head, err := model[pkg.Name].DefaultChannel.Head()
	if err != nil {
		return err
	}
	newest := releases[slices.IndexFunc(releases, func(r *Release) bool { return r.Rendered.Name == head.Name })]
	return newest.Introduce(pkg)
}
