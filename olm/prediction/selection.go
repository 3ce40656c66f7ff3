package prediction

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	masterminds "github.com/Masterminds/semver/v3"
	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// selection is what OLM v1 chooses from.
type selection struct {
	extension *Extension
	pkg       *fbc.Package
	graphs    []*upgrade.Graph // of all channels
	wanted    []*candidate     // in the wanted channels and versions
}

// candidate is a bundle that OLM v1 may install.
type candidate struct {
	*fbc.Bundle
	release    *declcfg.VersionRelease // nil if the bundle has no valid version
	deprecated bool
}

// selectFrom returns what OLM chooses from in a package. It fails if the range of versions is invalid.
func (e *Extension) selectFrom(pkg *fbc.Package) (*selection, error) {
	sel := &selection{extension: e, pkg: pkg}
	var versions *masterminds.Constraints
	if e.Versions != "" {
		var err error
		if versions, err = masterminds.NewConstraint(e.Versions); err != nil {
			return nil, fmt.Errorf("ClusterExtension %s: spec.source.catalog.version is %q, want a range of versions such as %q: %w", e.Name, e.Versions, ">=1.0.0 <2.0.0", err)
		}
	}
	inChannels := map[string]bool{}
	for _, channel := range pkg.Channels {
		sel.graphs = append(sel.graphs, upgrade.Of(pkg, channel))
		for _, entry := range channel.Entries {
			inChannels[entry.Name] = inChannels[entry.Name] || slices.Contains(e.Channels, channel.Name)
		}
	}
	for _, b := range pkg.Bundles {
		c := &candidate{Bundle: b, release: releaseOf(b), deprecated: pkg.Deprecation(declcfg.SchemaBundle, b.Name) != ""}
		if len(e.Channels) > 0 && !inChannels[b.Name] || versions != nil && !c.isIn(versions) {
			continue
		}
		sel.wanted = append(sel.wanted, c)
	}
	return sel, nil
}

func (c *candidate) isIn(versions *masterminds.Constraints) bool {
	if c.release == nil {
		return false
	}
	version, err := masterminds.NewVersion(c.release.Version.String())
	return err == nil && versions.Check(version)
}

// is reports whether a bundle has exactly an installed version. OLM v1 does not compare names.
func (c *candidate) is(installed upgrade.Version) bool {
	return c.release != nil && installed.Number != nil && c.release.Compare(newRelease(*installed.Number)) == 0
}

// compare orders bundles as OLM v1 does: those that are not deprecated first, and later ones before earlier ones.
func compare(a, b *candidate) int {
	switch {
	case a.deprecated != b.deprecated && a.deprecated:
		return 1
	case a.deprecated != b.deprecated:
		return -1
	case a.release == nil && b.release == nil:
		return 0
	case a.release == nil:
		return 1
	case b.release == nil:
		return -1
	}
	return b.release.Compare(a.release)
}

// choose returns the bundle that OLM installs if another one, or none, is installed. It returns nil if there is none.
func (sel *selection) choose(installed upgrade.Version) (chosen *candidate) {
	successors := sel.successors(installed)
	for _, c := range sel.wanted {
		if installed.Name != "" && !sel.extension.SelfCertified && successors[c.Name] == nil && !c.is(installed) {
			continue
		}
		if chosen == nil || compare(c, chosen) < 0 {
			chosen = c
		}
	}
	return chosen
}

// later returns the latest bundle that is later than an installed one and not deprecated, or nil.
func (sel *selection) later(installed upgrade.Version) (latest *candidate) {
	for _, c := range sel.wanted {
		if c.deprecated || c.release == nil || installed.Number != nil && c.release.Compare(newRelease(*installed.Number)) <= 0 {
			continue
		}
		if latest == nil || compare(c, latest) < 0 {
			latest = c
		}
	}
	return latest
}

// successors returns the entries to which an edge leads from an installed version, by their names. OLM v1 uses the edges of all
// channels, also of those that it takes no bundle from.
func (sel *selection) successors(installed upgrade.Version) map[string]*upgrade.Entry {
	found := map[string]*upgrade.Entry{}
	for _, graph := range sel.graphs {
		for _, entry := range graph.Entries {
			if found[entry.Name] == nil && entry.Follows(installed) != "" {
				found[entry.Name] = entry
			}
		}
	}
	return found
}

// update describes an update.
func (sel *selection) update(installed upgrade.Version, to *candidate) *Update {
	u := &Update{Name: to.Name}
	if to.Number() != nil {
		u.Version = to.Number().String()
	}
	if entry := sel.successors(installed)[to.Name]; installed.Name != "" && entry != nil {
		if u.Edge = entry.Follows(installed); u.Edge == upgrade.SkipRange {
			u.Range = entry.SkipRange
		}
	}
	return u
}

// follow returns the updates after a bundle, and whether nothing later is wanted then.
func (sel *selection) follow(c *candidate) (updates []Update, reachesHead bool) {
	seen := map[string]bool{c.Name: true}
	for {
		installed := upgrade.Version{Name: c.Name, Number: c.Number()}
		next := sel.choose(installed)
		if next == nil || seen[next.Name] {
			return updates, sel.later(installed) == nil
		}
		seen[next.Name] = true
		updates = append(updates, *sel.update(installed, next))
		c = next
	}
}

// explain says why there is nothing that OLM may install.
func (sel *selection) explain(p *Prediction) {
	e := sel.extension
	for _, name := range e.Channels {
		if sel.pkg.FindChannel(name) == nil {
			p.refuse(ChannelAbsent, "set spec.source.catalog.channels to channels of the package", "package %s has no channel %s", e.Package, name)
		}
	}
	switch {
	case len(p.Why) > 0:
	case len(sel.wanted) == 0:
		p.refuse(NoBundle, "change spec.source.catalog.version, or the channels", "no bundle of package %s has a version in the range %q%s", e.Package, e.Versions, inChannels(e.Channels))
	default:
		p.refuse(NoEdge, "add an upgrade edge to a channel, or keep the installed version in the catalog",
			"the catalog does not have %s as one of the wanted versions, and no upgrade edge leads from it to one of them", e.Installed.Name)
	}
	p.Message = e.failure()
}

// failure is what OLM writes into the condition Progressing.
func (e *Extension) failure() string {
	message := &strings.Builder{}
	if e.Installed.Name != "" {
		fmt.Fprintf(message, "error upgrading from currently installed version %q: ", e.Installed.Number)
	}
	fmt.Fprintf(message, "no bundles found for package %q", e.Package)
	if e.Versions != "" {
		fmt.Fprintf(message, " matching version %q", e.Versions)
	}
	message.WriteString(inChannels(e.Channels))
	return message.String()
}

func inChannels(channels []string) string {
	if len(channels) == 0 {
		return ""
	}
	return fmt.Sprintf(" in channels %v", channels)
}

// dependencies are the properties of bundles that OLM v1 refuses.
var dependencies = []string{property.TypePackageRequired, property.TypeGVKRequired, property.TypeConstraint}

// uninstallable says why OLM v1 cannot install a bundle.
func uninstallable(b *fbc.Bundle) (reasons []Reason, err error) {
	for _, p := range b.Properties {
		if slices.Contains(dependencies, p.Type) {
			reasons = append(reasons, Reason{DependencyUnsupported, fmt.Sprintf("%s has the property %s: OLM v1 installs nothing that depends on other packages or APIs", b.Name, p.Type),
				"install what it needs yourself, and use a bundle without that property"})
			break
		}
	}
	if b.Image == "" {
		reasons = append(reasons, Reason{ImageMissing, fmt.Sprintf("%s has no image in the catalog, and OLM v1 unpacks only images", b.Name),
			"push the bundle with `berth bundle image`, and build the catalog from the image"})
	}
	details, err := b.Details()
	if err != nil || details.CSV == nil {
		return reasons, err
	}
	modes := details.CSV.Spec.InstallModes
	if !slices.ContainsFunc(modes, func(m v1alpha1.InstallMode) bool {
		return m.Type == v1alpha1.InstallModeTypeAllNamespaces && m.Supported
	}) {
		reasons = append(reasons, Reason{InstallModeUnsupported, fmt.Sprintf("%s does not support the install mode %s, the only one that OLM v1 uses unless its feature gate SingleOwnNamespaceInstallSupport is enabled", b.Name, v1alpha1.InstallModeTypeAllNamespaces),
			"install it with OLM v0; or choose a version that supports " + string(v1alpha1.InstallModeTypeAllNamespaces)})
	}
	return reasons, nil
}

// warn adds the risks of a chosen bundle.
func (sel *selection) warn(p *Prediction, chosen *candidate) {
	e := sel.extension
	if number := chosen.Number(); e.Installed.Number != nil && number != nil && number.LT(*e.Installed.Number) {
		p.risk(Downgrade, "set spec.source.catalog.version to the installed version or later ones", "%s is earlier than %s, which is installed", chosen.Name, e.Installed.Name)
	}
	for _, deprecated := range []struct{ schema, name, title string }{
		{declcfg.SchemaPackage, "", "package " + e.Package}, {declcfg.SchemaBundle, chosen.Name, chosen.Name},
	} {
		if message := sel.pkg.Deprecation(deprecated.schema, deprecated.name); message != "" {
			p.risk(Deprecated, "", "%s is deprecated: %s", deprecated.title, message)
		}
	}
	for _, name := range e.Channels {
		if message := sel.pkg.Deprecation(declcfg.SchemaChannel, name); message != "" {
			p.risk(Deprecated, "", "channel %s is deprecated: %s", name, message)
		}
	}
}

// releaseOf returns the version of a bundle, with its release, or nil if it has no valid one.
func releaseOf(b *fbc.Bundle) *declcfg.VersionRelease {
	for _, p := range b.Properties {
		if p.Type != property.TypePackage {
			continue
		}
		var said property.Package
		if json.Unmarshal(p.Value, &said) != nil {
			return nil
		}
		number, err := semver.Parse(said.Version)
		if err != nil {
			return nil
		}
		return newRelease(number)
	}
	return nil
}

// newRelease takes the build metadata of a version for its release, if it is a valid one, so that versions are ordered by it, too.
func newRelease(number semver.Version) *declcfg.VersionRelease {
	if release, err := declcfg.NewRelease(strings.Join(number.Build, ".")); err == nil && len(release) > 0 {
		number.Build = nil
		return &declcfg.VersionRelease{Version: number, Release: release}
	}
	return &declcfg.VersionRelease{Version: number}
}
