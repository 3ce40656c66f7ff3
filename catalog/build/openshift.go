package build

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/render"
)

// Version is a minor version of OpenShift, such as 4.16.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Folder is the folder of the version's catalogs, as operator repositories name it: v4.16.
func (v Version) Folder() string { return "v" + v.String() }

func (v Version) compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor))
}

// described is the first version whose catalogs describe bundles.
var described = Version{4, 17}

// Format is the format of bundles in the version's catalogs.
func (v Version) Format() render.Format {
	if v.compare(described) < 0 {
		return render.Whole
	}
	return render.Described
}

// versionText is a version as people write it.
var versionText = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})$`)

// ParseVersion parses a version of OpenShift: 4.16 or v4.16.
func ParseVersion(text string) (Version, error) {
	found := versionText.FindStringSubmatch(text)
	if found == nil {
		return Version{}, fmt.Errorf("%q is not a version of OpenShift; expected one such as 4.16", text)
	}
	major, _ := strconv.Atoi(found[1]) // of at most four digits
	minor, _ := strconv.Atoi(found[2])
	return Version{major, minor}, nil
}

// VersionsAnnotation is the annotation of a bundle with the versions of OpenShift whose catalogs offer it.
const VersionsAnnotation = "com.redhat.openshift.versions"

// versionRange is the value of the annotation: from a version on, only one version, or from one to another.
var versionRange = regexp.MustCompile(`^(=?)(v?\d+\.\d+)(?:-(v?\d+\.\d+))?$`)

// offers reports whether a bundle with a value of VersionsAnnotation is for a version: v4.12 is for that and all later ones, =v4.12
// for that alone, v4.12-v4.15 for these and those between. Without a value it is for all.
// Source: https://redhat-connect.gitbook.io/certified-operator-guide/ocp-deployment/operator-metadata/bundle-directory/managing-openshift-versions
func offers(value string, v Version) (bool, error) {
	switch value {
	case "":
		return true, nil
	case "v4.5,v4.6", "v4.6,v4.5": // allowed for historical reasons
		value = "v4.5"
	}
	found := versionRange.FindStringSubmatch(value)
	if found == nil || found[1] != "" && found[3] != "" {
		return false, fmt.Errorf("its annotation %s is %q, so no version of OpenShift offers it; expected v4.12 (that and later versions), =v4.12 or v4.12-v4.15", VersionsAnnotation, value)
	}
	first, err := ParseVersion(found[2])
	if err != nil {
		return false, err
	}
	last := v
	switch {
	case found[1] != "":
		last = first
	case found[3] != "":
		if last, err = ParseVersion(found[3]); err != nil {
			return false, err
		}
	}
	return first.compare(v) <= 0 && v.compare(last) <= 0, nil
}

// restricted returns the catalog of one package with those of its bundles that are kept. An entry that replaces a bundle that is left
// out replaces the next one before it instead, and skips it, so that the edges between the others stay. Channels without a bundle
// are left out, and what is deprecated of that.
func restricted(config *declcfg.DeclarativeConfig, keep func(name string) bool) *declcfg.DeclarativeConfig {
	of := &declcfg.DeclarativeConfig{Packages: slices.Clone(config.Packages), Others: config.Others}
	for _, c := range config.Channels {
		if c.Entries = keptEntries(c.Entries, keep); len(c.Entries) > 0 {
			of.Channels = append(of.Channels, c)
		}
	}
	left := map[string]bool{}
	for _, b := range config.Bundles {
		if keep(b.Name) {
			of.Bundles = append(of.Bundles, b)
		} else {
			left[b.Name] = true
		}
	}
	for _, d := range config.Deprecations {
		d.Entries = slices.DeleteFunc(slices.Clone(d.Entries), func(e declcfg.DeprecationEntry) bool {
			gone := func(channels []declcfg.Channel) bool {
				return !slices.ContainsFunc(channels, func(c declcfg.Channel) bool { return c.Name == e.Reference.Name })
			}
			return e.Reference.Schema == declcfg.SchemaBundle && left[e.Reference.Name] ||
				e.Reference.Schema == declcfg.SchemaChannel && gone(of.Channels) && !gone(config.Channels)
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
		case e.Replaces == "": // there is none before it any more
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
