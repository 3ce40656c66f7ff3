// Package graph draws the upgrade graphs of packages: as Mermaid, DOT and SVG, and as a self-contained HTML page with all details
// of each version.
package graph

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Package is the drawing of a package.
type Package struct {
	Name       string
	Deprecated string     // the message
	Channels   []*Channel // the default one first, then the newest

	source *fbc.Package
	// deprecations holds all deprecation messages, and versions the version of each bundle by name. Each version is parsed once: a
	// hostile catalog can put a bundle with a very long version into many channels.
	deprecations map[declcfg.PackageScopedReference]string
	versions     map[string]string
}

// Channel is a column of a drawing. Each column has its own rows, so that its head is at the top even if other channels have later
// versions.
type Channel struct {
	Name       string
	Default    bool
	Deprecated string
	// Broken says why OLM resolves nothing from the channel; it is empty for a valid one.
	Broken string
	Nodes  []*Node // in the order of rows
	Edges  []Edge  // by the version that they lead to, then by the one they come from
	// Unranged says that not all edges of skipRanges are drawn. Versions still show their skipRange.
	Unranged bool
	// Unskipped says that not all edges of skips are drawn, nor all versions that the channel only skips.
	Unskipped bool

	newest *semver.Version // the version of the head or, without a head, the latest one of all entries; nil if it is unknown
}

// budget limits the cost of skipRanges and skips: comparisons of a skipRange with a version, edges of skipRanges, and skipped names.
// Without a limit, the comparisons and edges grow with the square of the catalog's size, because each skipRange may contain all versions
// of a channel, and a skipped name of a few bytes takes kilobytes of memory.
type budget struct{ comparisons, edges, skips int }

// The budgets for one channel, and for all channels of a drawing.
var (
	channelBudget = budget{4_000_000, 20_000, 20_000}
	wholeBudget   = budget{20_000_000, 300_000, 300_000}
)

// rangeUnit is the length of a skipRange that takes one comparison.
const rangeUnit = 32

// Node is a version in a channel.
type Node struct {
	Name string
	// Version is the bundle's version or, if the bundle is missing, the version in its name, or the name itself.
	Version string
	number  *semver.Version // nil if Version is the name
	// Row counts from the top: first the head, then the latest version.
	Row int
	// Range is the skipRange, if it has one.
	Range      string
	Deprecated string
	Head       bool
	// New says that MarkNew was called for it.
	New bool
	// Stranded says that no update leads from here to the head.
	Stranded bool
	// Outside says that the channel only refers to it.
	Outside bool
	// Passed says that OLM never updates to this version: another one skips it, or the chain of replaces from the head
	// does not lead to it.
	Passed bool
	// SkippedBy is the version that skips this one by name, if one does.
	SkippedBy string
}

// MarkNew marks versions in all channels. Mermaid and DOT say that they are new.
func (p *Package) MarkNew(names map[string]bool) {
	for _, c := range p.Channels {
		for _, n := range c.Nodes {
			n.New = names[n.Name]
		}
	}
}

// Edge leads from a version to one that may take its place. OLM never takes the edge if To.Passed is true.
type Edge struct {
	From, To *Node
	Kind     upgrade.Edge
}

// Of returns the drawings of packages whose documents could be read.
func Of(packages ...*fbc.Package) (all []*Package) {
	left := wholeBudget
	for _, p := range packages {
		all = append(all, newPackage(p, &left))
	}
	return all
}

func newPackage(p *fbc.Package, left *budget) *Package {
	drawn := &Package{Name: p.Name, source: p, deprecations: map[declcfg.PackageScopedReference]string{}, versions: map[string]string{}}
	for _, d := range p.Deprecations {
		for _, e := range d.Entries {
			if _, repeated := drawn.deprecations[e.Reference]; !repeated {
				drawn.deprecations[e.Reference] = e.Message
			}
		}
	}
	drawn.Deprecated = drawn.deprecation(declcfg.SchemaPackage, "")
	for _, c := range p.Channels {
		drawn.Channels = append(drawn.Channels, drawn.newChannel(c, left))
	}
	slices.SortFunc(drawn.Channels, func(a, b *Channel) int { return cmp.Or(falseFirst(!a.Default, !b.Default), newestFirst(a, b)) })
	return drawn
}

// deprecation returns the deprecation message of the package, a channel or a bundle, or "" if it is not deprecated.
func (p *Package) deprecation(schema, name string) string {
	return p.deprecations[declcfg.PackageScopedReference{Schema: schema, Name: name}]
}

// newestFirst orders channels by the versions of their heads. Among channels with the same head version, the default channel comes
// first, then channels with later versions in their names, such as stable-v1.10 before stable-v1.9.
func newestFirst(a, b *Channel) int {
	return cmp.Or(laterFirst(a.newest, b.newest), falseFirst(!a.Default, !b.Default), laterFirst(versionIn(a.Name), versionIn(b.Name)), strings.Compare(a.Name, b.Name))
}

// laterFirst orders versions, with unknown ones at the end.
func laterFirst(a, b *semver.Version) int {
	if a == nil || b == nil {
		return falseFirst(a == nil, b == nil)
	}
	return fbc.CompareVersions(*b, *a)
}

var someVersion = regexp.MustCompile(`\d+(\.\d+){0,2}`)

// versionIn returns the first version in the name of a channel, or nil. The version in the name may have fewer than three numbers.
func versionIn(name string) *semver.Version {
	number, err := semver.ParseTolerant(someVersion.FindString(name))
	if err != nil {
		return nil
	}
	return &number
}

// falseFirst orders false before true.
func falseFirst(a, b bool) int {
	rank := map[bool]int{true: 1}
	return rank[a] - rank[b]
}

func (p *Package) newChannel(c *fbc.Channel, left *budget) *Channel {
	g := upgrade.Of(p.source, c)
	drawn := &Channel{Name: c.Name, Default: c.Name == p.source.DefaultChannel, Deprecated: p.deprecation(declcfg.SchemaChannel, c.Name)}
	byName := map[string]*Node{}
	add := func(n *Node) *Node {
		if byName[n.Name] == nil {
			n.Deprecated = p.deprecation(declcfg.SchemaBundle, n.Name)
			n.Version, n.number = p.version(n.Name)
			byName[n.Name] = n
			drawn.Nodes = append(drawn.Nodes, n)
		}
		return byName[n.Name]
	}
	switch {
	case len(g.Heads) > 1:
		drawn.Broken = fmt.Sprintf("%d heads", len(g.Heads))
	case len(g.Cycle) > 0:
		drawn.Broken = "a cycle"
	}
	stranded, heads, chain := setOf(g.Stranded()), setOf(g.Heads), setOf(g.Chain)
	for _, e := range g.Entries {
		add(&Node{Name: e.Name, Range: e.SkipRange, Head: heads[e], Stranded: stranded[e], Passed: !chain[e]})
	}
	outside := func(name string) *Node {
		return add(&Node{Name: name, Outside: true})
	}
	skips := min(channelBudget.skips, left.skips)
	for _, e := range g.Entries {
		to := byName[e.Name]
		if e.Replaces != "" {
			drawn.Edges = append(drawn.Edges, Edge{outside(e.Replaces), to, upgrade.Replaces})
		}
		for _, name := range e.Skips {
			if skips == 0 {
				drawn.Unskipped = true
				if n := byName[name]; n != nil {
					n.SkippedBy = to.Version
				}
				continue
			}
			skips--
			left.skips--
			outside(name).SkippedBy = to.Version
			if name != e.Replaces {
				drawn.Edges = append(drawn.Edges, Edge{outside(name), to, upgrade.Skips})
			}
		}
	}
	drawn.addRangeEdges(g, byName, left) // now that all nodes are there
	drawn.arrange()
	return drawn
}

func setOf(entries []*upgrade.Entry) map[*upgrade.Entry]bool {
	set := map[*upgrade.Entry]bool{}
	for _, e := range entries {
		set[e] = true
	}
	return set
}

// addRangeEdges adds the edges of skipRanges, unless they are more than the budgets of the channel and of all channels together.
func (c *Channel) addRangeEdges(g *upgrade.Graph, byName map[string]*Node, left *budget) {
	var ranged []*upgrade.Entry
	comparisons := 0 // of each version
	for _, e := range g.Entries {
		if e.SkipRange != "" {
			ranged = append(ranged, e)
			comparisons += 1 + len(e.SkipRange)/rangeUnit
		}
	}
	if comparisons *= len(c.Nodes); comparisons > min(channelBudget.comparisons, left.comparisons) {
		c.Unranged = true
		return
	}
	left.comparisons -= comparisons
	direct := map[[2]*Node]bool{}
	for _, e := range c.Edges {
		direct[[2]*Node{e.From, e.To}] = true
	}
	var edges []Edge
	for _, n := range c.Nodes {
		for _, e := range ranged {
			if to := byName[e.Name]; n != to && n.number != nil && e.HasInRange(*n.number) && !direct[[2]*Node{n, to}] {
				edges = append(edges, Edge{n, to, upgrade.SkipRange})
			}
		}
		if len(edges) > min(channelBudget.edges, left.edges) {
			c.Unranged = true
			return
		}
	}
	left.edges -= len(edges)
	c.Edges = append(c.Edges, edges...)
}

// version returns the version of a bundle from the catalog or, if that lacks the bundle, from its name. If the name contains no
// version, it returns the name.
func (p *Package) version(name string) (string, *semver.Version) {
	if b := p.source.FindBundle(name); b != nil && b.Number() != nil {
		if p.versions[name] == "" {
			p.versions[name] = b.Number().String()
		}
		return p.versions[name], b.Number()
	}
	for _, separator := range []string{".v", "."} {
		if _, behind, found := strings.Cut(name, separator); found {
			if number, err := semver.Parse(behind); err == nil {
				return number.String(), &number
			}
		}
	}
	return name, nil
}

// arrange gives every version its row. Names that say no version come before all versions.
func (c *Channel) arrange() {
	slices.SortFunc(c.Nodes, func(a, b *Node) int {
		return cmp.Or(falseFirst(!a.Head, !b.Head), falseFirst(a.number != nil, b.number != nil), laterFirst(a.number, b.number), strings.Compare(b.Version, a.Version), strings.Compare(a.Name, b.Name))
	})
	for i, n := range c.Nodes {
		n.Row = i
	}
	if first := slices.IndexFunc(c.Nodes, func(n *Node) bool { return !n.Outside && n.number != nil }); first >= 0 {
		c.newest = c.Nodes[first].number
	}
	slices.SortStableFunc(c.Edges, func(a, b Edge) int { return cmp.Or(a.To.Row-b.To.Row, a.From.Row-b.From.Row) })
}
