package build

import (
	"fmt"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/openshift"
)

// formatFor returns the format of bundles in the catalogs of a version of OpenShift.
func formatFor(v openshift.Version) render.Format {
	if v.DescribesBundles() {
		return render.Described
	}
	return render.Whole
}

// offers reports whether openshift.VersionsAnnotation with this value includes a version.
func offers(value string, v openshift.Version) (bool, error) {
	r, err := openshift.ParseRange(value)
	if err != nil {
		return false, fmt.Errorf("its annotation %s %w", openshift.VersionsAnnotation, err)
	}
	return r.Includes(v), nil
}

// restricted returns the catalog of one package with only the kept bundles. An entry that replaces a dropped bundle skips it, and
// replaces the nearest kept one before it, so that the edges between kept bundles stay. Channels without a bundle are dropped, and
// so are deprecations of dropped channels and bundles.
func restricted(config *declcfg.DeclarativeConfig, keep func(name string) bool) *declcfg.DeclarativeConfig {
	of := &declcfg.DeclarativeConfig{Packages: slices.Clone(config.Packages), Others: config.Others}
	left, gone := map[string]bool{}, map[string]bool{} // the bundles and channels that are dropped
	for _, c := range config.Channels {
		if c.Entries = keptEntries(c.Entries, keep); len(c.Entries) > 0 {
			of.Channels = append(of.Channels, c)
		} else {
			gone[c.Name] = true
		}
	}
	for _, b := range config.Bundles {
		if keep(b.Name) {
			of.Bundles = append(of.Bundles, b)
		} else {
			left[b.Name] = true
		}
	}
	for _, d := range config.Deprecations {
		d.Entries = slices.DeleteFunc(slices.Clone(d.Entries), func(e declcfg.DeprecationEntry) bool {
			return e.Reference.Schema == declcfg.SchemaBundle && left[e.Reference.Name] || e.Reference.Schema == declcfg.SchemaChannel && gone[e.Reference.Name]
		})
		if len(d.Entries) > 0 {
			of.Deprecations = append(of.Deprecations, d)
		}
	}
	return of
}

// keptEntries returns the entries of a channel that are kept.
func keptEntries(entries []declcfg.ChannelEntry, keep func(name string) bool) (kept []declcfg.ChannelEntry) {
	byName := map[string]declcfg.ChannelEntry{}
	for _, e := range entries {
		byName[e.Name] = e
	}
	for _, e := range entries {
		if !keep(e.Name) {
			continue
		}
		said := e.Replaces
		var between []string
		for steps := 0; steps < len(entries); steps++ { // more would be a cycle
			before, is := byName[e.Replaces]
			if !is || keep(e.Replaces) {
				break
			}
			between, e.Replaces = append(between, e.Replaces), before.Replaces
		}
		switch {
		case len(between) == 0:
		case e.Replaces == "": // no entry is left before it
			e.Replaces = said
		default:
			e.Skips = slices.Clone(e.Skips)
			for _, name := range between {
				if !slices.Contains(e.Skips, name) {
					e.Skips = append(e.Skips, name)
				}
			}
		}
		kept = append(kept, e)
	}
	return kept
}
