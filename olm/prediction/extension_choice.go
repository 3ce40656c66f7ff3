package prediction

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	masterminds "github.com/Masterminds/semver/v3"
	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/upgrade"
)

// selection holds the candidates of OLM v1 in a catalog, and its choice.
type selection struct {
	extension *Extension
	catalog   *ClusterCatalog
	pkg       *fbc.Package
	edges     *upgrade.Edges // of all channels: OLM v1 even uses the edges of channels that spec excludes
	wanted    []*candidate   // in the wanted channels and versions
	named     map[string]*candidate
	released  map[string][]*candidate // by releaseKey
	latest    *candidate              // the latest of wanted that is not deprecated, or nil
	chosen    *candidate              // nil if OLM may install none of the candidates
}

// installation is the installed bundle.
type installation struct {
	upgrade.Version
	release *declcfg.VersionRelease // nil if nothing is installed
}

// candidate is a bundle that OLM v1 may install.
type candidate struct {
	*fbc.Bundle
	release    *declcfg.VersionRelease // nil if the bundle has no valid version
	deprecated bool
	at         int // its place among the wanted ones
}

// search returns the candidates in the catalog that OLM chooses from, with OLM's choice. If it returns nil, it has added the reason to p.
// It fails if the range of versions is invalid.
func (e *Extension) search(p *Prediction, catalogs []*ClusterCatalog, shared *Shared) (*selection, error) {
	var versions *masterminds.Constraints
	if e.Versions != "" {
		var err error
		if versions, err = masterminds.NewConstraint(e.Versions); err != nil {
			return nil, fmt.Errorf("ClusterExtension %s: spec.source.catalog.version is %q, want a range of versions such as %q: %w", e.Name, e.Versions, ">=1.0.0 <2.0.0", err)
		}
	}
	var all, having []*selection
	var searched []string
	for _, c := range catalogs {
		if c.Disabled || e.Catalogs != nil && !e.Catalogs.Matches(labels.Set(c.Labels)) {
			continue
		}
		searched = append(searched, c.Name)
		if c.Content == nil {
			p.refuse(SourceUnreachable, "see why with `oc describe clustercatalog`; repair it, or set spec.availabilityMode to Unavailable",
				"ClusterCatalog %s cannot be read, and OLM resolves nothing from any other until it can: %v", c.Name, c.Fault)
			return nil, nil
		}
		pkg := c.Content.Find(e.Package)
		if pkg == nil {
			continue
		}
		sel := shared.selection(pkg, func() *selection { return e.selectFrom(pkg, versions) })
		sel.extension, sel.catalog = e, c
		if err := shared.spendRanges(sel.edges.Ranges()); err != nil {
			return nil, err
		}
		sel.chosen = sel.choose(sel.installed())
		all = append(all, sel)
		if sel.chosen == nil {
			continue
		}
		if n := len(having); n > 0 { // bundles that are not deprecated come first, regardless of priorities
			before := having[n-1].chosen
			if sel.chosen.deprecated && !before.deprecated {
				continue
			}
			if !sel.chosen.deprecated && before.deprecated {
				having = nil
			}
		}
		having = append(having, sel)
	}
	slices.SortStableFunc(having, func(a, b *selection) int { return cmp.Compare(b.catalog.Priority, a.catalog.Priority) })
	switch {
	case len(all) == 0:
		what := "no catalog is selected"
		if len(searched) > 0 {
			what = fmt.Sprintf("%s has no package %s", strings.Join(searched, ", "), e.Package)
		}
		p.refuse(PackageAbsent, "add the package to the catalog, or delete the ClusterExtension: see "+findings.Page("move/olm-v1.md#remove-the-operator"), "%s", what)
		p.Message = e.failure(nil)
		return nil, nil
	case len(having) == 0:
		return all[0], nil
	case len(having) > 1 && having[0].catalog.Priority == having[1].catalog.Priority:
		var rivals []string
		for _, sel := range having {
			rivals = append(rivals, sel.catalog.Name)
		}
		slices.Sort(rivals)
		p.refuse(CatalogsAmbiguous, "set spec.priority of one ClusterCatalog higher than that of the others, or spec.source.catalog.selector of the ClusterExtension",
			"the catalogs %s have it with the same priority, and OLM does not choose between them", strings.Join(rivals, ", "))
		p.Message = e.failure(rivals)
		return nil, nil
	}
	return having[0], nil
}

// selectFrom returns OLM's candidates in a package, and its choice.
func (e *Extension) selectFrom(pkg *fbc.Package, versions *masterminds.Constraints) *selection {
	sel := &selection{extension: e, pkg: pkg, named: map[string]*candidate{}, released: map[string][]*candidate{}}
	inChannels := map[string]bool{}
	var graphs []*upgrade.Graph
	for _, channel := range pkg.Channels {
		graphs = append(graphs, upgrade.Of(pkg, channel))
		for _, entry := range channel.Entries {
			inChannels[entry.Name] = inChannels[entry.Name] || slices.Contains(e.Channels, channel.Name)
		}
	}
	sel.edges = upgrade.NewEdges(graphs...)
	for _, b := range pkg.Bundles {
		c := &candidate{b, releaseOf(b, e.Gates), pkg.Deprecation(declcfg.SchemaBundle, b.Name) != "", len(sel.wanted)}
		if len(e.Channels) > 0 && !inChannels[b.Name] || versions != nil && !c.isIn(versions) {
			continue
		}
		sel.wanted, sel.named[c.Name] = append(sel.wanted, c), c
		if c.release == nil {
			continue
		}
		key := releaseKey(c.release)
		sel.released[key] = append(sel.released[key], c)
		if !c.deprecated && (sel.latest == nil || compare(c, sel.latest) < 0) {
			sel.latest = c
		}
	}
	return sel
}

// releaseKey returns the same text for all versions that are equal to OLM v1.
func releaseKey(r *declcfg.VersionRelease) string {
	number := r.Version
	number.Build = nil
	return number.String() + "+" + r.Release.String()
}

// installed returns the installed bundle.
func (sel *selection) installed() installation {
	e := sel.extension
	installed := installation{Version: e.Installed}
	switch {
	case e.Installed.Number == nil:
	case e.Release != nil:
		installed.release, _ = explicitRelease(*e.Installed.Number, *e.Release)
	default:
		installed.release = newRelease(*e.Installed.Number)
		if b := sel.pkg.FindBundle(e.Installed.Name); e.Name == "" && b != nil {
			installed.release = releaseOf(b, e.Gates)
		}
	}
	return installed
}

func (c *candidate) isIn(versions *masterminds.Constraints) bool {
	if c.release == nil {
		return false
	}
	version, err := masterminds.NewVersion(c.release.Version.String())
	return err == nil && versions.Check(version)
}

// is reports whether the candidate has exactly the installed version. OLM v1 does not compare names.
func (c *candidate) is(installed installation) bool {
	return c.release != nil && installed.release != nil && c.release.Compare(installed.release) == 0
}

// compare orders bundles like OLM v1: deprecated ones last, and later versions before earlier ones.
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

// choose returns the bundle that OLM chooses if the given one, or nothing, is installed. It returns nil if OLM may install none.
func (sel *selection) choose(installed installation) (chosen *candidate) {
	for _, c := range sel.eligible(installed) {
		if chosen == nil || compare(c, chosen) < 0 {
			chosen = c
		}
	}
	return chosen
}

// eligible returns the bundles that OLM v1 chooses from: all wanted ones, or the installed one and its successors.
func (sel *selection) eligible(installed installation) []*candidate {
	if installed.Name == "" || sel.extension.SelfCertified {
		return sel.wanted
	}
	var all []*candidate
	for _, entry := range sel.edges.From(installed.Version) {
		if c := sel.named[entry.Name]; c != nil {
			all = append(all, c)
		}
	}
	if installed.release != nil {
		all = append(all, sel.released[releaseKey(installed.release)]...)
	}
	slices.SortFunc(all, func(a, b *candidate) int { return cmp.Compare(a.at, b.at) })
	return slices.Compact(all)
}

// rivals returns the names of the bundles that OLM v1 may choose instead of the chosen one: it reads the files of a package in parallel,
// and sorts the bundles by version alone.
func (sel *selection) rivals(chosen *candidate) (names []string) {
	installed := sel.installed()
	if chosen.is(installed) {
		return nil
	}
	for _, c := range sel.eligible(installed) {
		if c != chosen && compare(c, chosen) == 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

// later returns the latest bundle that is later than an installed one and not deprecated, or nil.
func (sel *selection) later(installed installation) *candidate {
	if sel.latest != nil && installed.release != nil && sel.latest.release.Compare(installed.release) <= 0 {
		return nil
	}
	return sel.latest
}

// successors returns the entries to which an edge leads from an installed version, by their names.
func (sel *selection) successors(installed upgrade.Version) map[string]*upgrade.Entry {
	found := map[string]*upgrade.Entry{}
	for _, entry := range sel.edges.From(installed) {
		found[entry.Name] = entry
	}
	return found
}

// update describes the update from an installed version to a candidate.
func (sel *selection) update(installed upgrade.Version, to *candidate) *Update {
	u := &Update{Name: to.Name}
	if to.Number() != nil {
		u.Version = to.Number().String()
	}
	if installed.Name == "" {
		return u
	}
	for _, entry := range sel.edges.From(installed) {
		if entry.Name != to.Name {
			continue
		}
		if u.Edge = entry.Follows(installed); u.Edge == upgrade.SkipRange {
			u.Range = entry.SkipRange
		}
		break
	}
	return u
}

// follow returns the updates after a bundle, and whether they reach the latest wanted version.
func (sel *selection) follow(c *candidate) (updates []Update, reachesHead bool) {
	seen := map[string]bool{c.Name: true}
	for {
		installed := installation{upgrade.Version{Name: c.Name, Number: c.Number()}, c.release}
		next := sel.choose(installed)
		if next == nil || seen[next.Name] {
			return updates, sel.later(installed) == nil
		}
		seen[next.Name] = true
		updates = append(updates, *sel.update(installed.Version, next))
		c = next
	}
}

// explain says why OLM may install none of the candidates.
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
	p.Message = e.failure(nil)
}

// failure returns the message that OLM writes into condition Progressing if it finds no bundle, or cannot choose between catalogs.
func (e *Extension) failure(rivals []string) string {
	message := &strings.Builder{}
	if e.Installed.Name != "" {
		fmt.Fprintf(message, "error upgrading from currently installed version %q: ", e.Installed.Number)
	}
	found := "no bundles found"
	if len(rivals) > 0 {
		found = "found bundles"
	}
	fmt.Fprintf(message, "%s for package %q", found, e.Package)
	if e.Versions != "" {
		fmt.Fprintf(message, " matching version %q", e.Versions)
	}
	message.WriteString(inChannels(e.Channels))
	if len(rivals) > 0 {
		fmt.Fprintf(message, " in multiple catalogs with the same priority %v", rivals)
	}
	return message.String()
}

func inChannels(channels []string) string {
	if len(channels) == 0 {
		return ""
	}
	return fmt.Sprintf(" in channels %v", channels)
}

// warn adds the risks of a chosen bundle.
func (sel *selection) warn(p *Prediction, chosen *candidate) {
	e := sel.extension
	if number := chosen.Number(); e.Installed.Number != nil && number != nil && fbc.CompareVersions(*number, *e.Installed.Number) < 0 {
		p.risk(Downgrade, "set spec.source.catalog.version to the installed version or later ones", "%s is earlier than %s, which is installed", chosen.Name, e.Installed.Name)
	}
	if same := sel.rivals(chosen); len(same) > 0 {
		p.risk(VersionAmbiguous, "give each bundle a version of its own", "%s and %s are the same version to OLM v1: it takes the one that it happens to read first",
			chosen.Name, strings.Join(same, ", "))
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

// warnAboutDeprecatedSuccessors adds a risk for each deprecated bundle to which OLM does not update although an edge leads to it.
func (sel *selection) warnAboutDeprecatedSuccessors(p *Prediction) {
	if p.Installed == "" || !slices.ContainsFunc(sel.wanted, func(c *candidate) bool { return c.deprecated }) {
		return
	}
	installed := sel.installed()
	successors := sel.successors(installed.Version)
	for _, c := range sel.wanted {
		entry := successors[c.Name]
		if entry == nil || !c.deprecated || c.is(installed) {
			continue
		}
		leads := string(entry.Follows(installed.Version)) + " it"
		if entry.Follows(installed.Version) == upgrade.SkipRange {
			leads = "has it in its skipRange"
		}
		do := "wait for a version that is not deprecated"
		if c.Number() != nil {
			do += "; or set spec.source.catalog.version to " + c.Number().String()
		}
		p.risk(Deprecated, do,
			"%s %s and is deprecated: OLM v1 keeps a bundle that is not deprecated rather than update to this one", c.Name, leads)
	}
}

// releaseOf returns the version and the release of a bundle, or nil if they are not valid.
func releaseOf(b *fbc.Bundle, on featuregates.Set) *declcfg.VersionRelease {
	for _, p := range b.Properties {
		if p.Type != property.TypePackage {
			continue
		}
		var said struct {
			Version string  `json:"version"`
			Release *string `json:"release"`
		}
		if json.Unmarshal(p.Value, &said) != nil {
			return nil
		}
		number, err := semver.Parse(said.Version)
		if err != nil {
			return nil
		}
		if on[featuregates.BundleRelease] && said.Release != nil {
			release, err := explicitRelease(number, *said.Release)
			if err != nil {
				return nil
			}
			return release
		}
		return newRelease(number)
	}
	return nil
}

// explicitRelease returns a version with the release that is stated beside it. The version's build metadata is then not a release.
func explicitRelease(number semver.Version, stated string) (*declcfg.VersionRelease, error) {
	if stated == "" {
		return &declcfg.VersionRelease{Version: number, Release: declcfg.Release{}}, nil
	}
	release, err := declcfg.NewRelease(stated)
	return &declcfg.VersionRelease{Version: number, Release: release}, err
}

// newRelease returns a version whose build metadata is its release, if that is a valid release, so that it counts in the order of versions.
func newRelease(number semver.Version) *declcfg.VersionRelease {
	if release, err := declcfg.NewRelease(strings.Join(number.Build, ".")); err == nil && len(release) > 0 {
		number.Build = nil
		return &declcfg.VersionRelease{Version: number, Release: release}
	}
	return &declcfg.VersionRelease{Version: number}
}
