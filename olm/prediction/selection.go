package prediction

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// selection is what OLM v1 chooses from.
type selection struct {
	extension *Extension
	pkg       *fbc.Package
	wanted    []*fbc.Bundle
}

// choose returns the bundle that OLM installs if another one is installed, or nil if there is none.
func (r *selection) choose(installed upgrade.Version) *fbc.Bundle {
	candidates := r.wanted
	if installed.Name != "" && !r.extension.SelfCertified {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(b *fbc.Bundle) bool { return !same(b, installed) && r.edge(installed, b) == nil })
	}
	return first(candidates, func(a, b *fbc.Bundle) int {
		return cmp.Or(cmp.Compare(r.deprecated(a), r.deprecated(b)), compareReleases(b, a))
	})
}

func latest(bundles []*fbc.Bundle) *fbc.Bundle {
	return first(bundles, func(a, b *fbc.Bundle) int { return compareReleases(b, a) })
}

// first returns the first bundle in an order, or nil if there is none.
func first(bundles []*fbc.Bundle, order func(a, b *fbc.Bundle) int) *fbc.Bundle {
	if len(bundles) == 0 {
		return nil
	}
	return slices.MinFunc(bundles, order)
}

// edge returns an entry of any channel that leads from an installed version to a bundle, or nil. OLM v1 uses the edges of all
// channels, also of those that it takes no bundle from.
func (r *selection) edge(installed upgrade.Version, b *fbc.Bundle) *upgrade.Entry {
	for _, channel := range r.pkg.Channels {
		for _, entry := range upgrade.Of(r.pkg, channel).Entries {
			if entry.Name == b.Name && entry.Follows(installed) != "" {
				return entry
			}
		}
	}
	return nil
}

// update describes an update.
func (r *selection) update(installed upgrade.Version, b *fbc.Bundle) *Update {
	u := &Update{Name: b.Name}
	if b.Number() != nil {
		u.Version = b.Number().String()
	}
	if entry := r.edge(installed, b); installed.Name != "" && entry != nil {
		if u.Edge = entry.Follows(installed); u.Edge == upgrade.SkipRange {
			u.Range = entry.SkipRange
		}
	}
	return u
}

// follow returns the updates after a bundle, and whether they end at the latest one.
func (r *selection) follow(b, latest *fbc.Bundle) (updates []Update, reaches bool) {
	seen := map[string]bool{b.Name: true}
	for {
		installed := upgrade.Version{Name: b.Name, Number: b.Number()}
		next := r.choose(installed)
		if next == nil || seen[next.Name] {
			return updates, b == latest
		}
		seen[next.Name] = true
		updates = append(updates, *r.update(installed, next))
		b = next
	}
}

// explain says why there is nothing that OLM may install.
func (r *selection) explain(p *Prediction) {
	e := r.extension
	for _, name := range e.Channels {
		if r.pkg.FindChannel(name) == nil {
			p.refuse(ChannelAbsent, "set spec.source.catalog.channels to channels of the package", "package %s has no channel %s", e.Package, name)
		}
	}
	switch {
	case len(p.Why) > 0:
	case len(r.wanted) == 0:
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
func uninstallable(b *fbc.Bundle) (reasons []Reason) {
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
	return reasons
}

// warn adds the risks of a chosen bundle.
func (r *selection) warn(p *Prediction, chosen *fbc.Bundle) {
	e := r.extension
	if number := chosen.Number(); e.Installed.Number != nil && number != nil && number.LT(*e.Installed.Number) {
		p.risk(Downgrade, "set spec.source.catalog.version to the installed version or later ones", "%s is earlier than %s, which is installed", chosen.Name, e.Installed.Name)
	}
	for _, deprecated := range []struct{ schema, name, title string }{
		{declcfg.SchemaPackage, "", "package " + e.Package}, {declcfg.SchemaBundle, chosen.Name, chosen.Name},
	} {
		if message := r.pkg.Deprecation(deprecated.schema, deprecated.name); message != "" {
			p.risk(Deprecated, "", "%s is deprecated: %s", deprecated.title, message)
		}
	}
	for _, name := range e.Channels {
		if message := r.pkg.Deprecation(declcfg.SchemaChannel, name); message != "" {
			p.risk(Deprecated, "", "channel %s is deprecated: %s", name, message)
		}
	}
}

// deprecated is 1 for a deprecated bundle, and 0 for others.
func (r *selection) deprecated(b *fbc.Bundle) int {
	if r.pkg.Deprecation(declcfg.SchemaBundle, b.Name) != "" {
		return 1
	}
	return 0
}

// same reports whether a bundle has exactly an installed version. OLM v1 does not compare names.
func same(b *fbc.Bundle, installed upgrade.Version) bool {
	v := releaseOf(b)
	return v != nil && installed.Number != nil && v.Compare(newRelease(*installed.Number)) == 0
}

func compareReleases(a, b *fbc.Bundle) int {
	switch x, y := releaseOf(a), releaseOf(b); {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return -1
	case y == nil:
		return 1
	default:
		return x.Compare(y)
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
