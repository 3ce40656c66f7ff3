// Package graph draws the updates of packages: as Mermaid, DOT and SVG, and as one HTML page that needs
// nothing else, with all that a catalog says of its versions.
package graph

import (
	"cmp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Package is what is drawn of a package.
type Package struct {
	Name       string
	Deprecated string // the message
	Channels   []*Channel
	// Rows are the names of all versions, the latest first. Each has a row of its own, the same in all
	// channels.
	Rows []string

	source *fbc.Package
}

// Channel is a column.
type Channel struct {
	Name       string
	Default    bool
	Deprecated string
	Nodes      []*Node // in the order of rows
	Edges      []Edge  // by what they lead to, and then by where they come from
}

// Node is a version in a channel.
type Node struct {
	Name string
	// Version is what the name or the catalog says; it may be the name.
	Version string
	Row     int
	// Range is the skipRange, if it has one.
	Range      string
	Deprecated string
	Head       bool
	// Stranded tells that no update leads from here to the head.
	Stranded bool
	// Outside tells that the channel only refers to it.
	Outside bool
}

// Edge leads from a version to one that may take its place.
type Edge struct {
	From, To *Node
	Kind     upgrade.Edge
}

// Of returns what there is to draw of a package of a valid catalog. Channels are in order of their
// names, but the default one comes first.
func Of(p *fbc.Package) *Package {
	drawn := &Package{Name: p.Name, Deprecated: p.Deprecation(declcfg.SchemaPackage, ""), source: p}
	for _, c := range p.Channels {
		drawn.Channels = append(drawn.Channels, newChannel(p, c))
	}
	slices.SortFunc(drawn.Channels, func(a, b *Channel) int {
		if a.Default != b.Default {
			return map[bool]int{true: -1, false: 1}[a.Default]
		}
		return strings.Compare(a.Name, b.Name)
	})
	drawn.arrange()
	return drawn
}

func newChannel(p *fbc.Package, c *fbc.Channel) *Channel {
	g := upgrade.Of(p, c)
	drawn := &Channel{Name: c.Name, Default: c.Name == p.DefaultChannel, Deprecated: p.Deprecation(declcfg.SchemaChannel, c.Name)}
	byName := map[string]*Node{}
	add := func(n *Node) *Node {
		if byName[n.Name] == nil {
			n.Deprecated = p.Deprecation(declcfg.SchemaBundle, n.Name)
			byName[n.Name] = n
			drawn.Nodes = append(drawn.Nodes, n)
		}
		return byName[n.Name]
	}
	stranded := g.Stranded()
	for _, e := range g.Entries {
		add(&Node{Name: e.Name, Version: versionOf(p, e.Name), Range: e.SkipRange, Head: slices.Contains(g.Heads, e), Stranded: slices.Contains(stranded, e)})
	}
	outside := func(name string) *Node {
		return add(&Node{Name: name, Version: versionOf(p, name), Outside: true})
	}
	for _, e := range g.Entries {
		to := byName[e.Name]
		if e.Replaces != "" {
			drawn.Edges = append(drawn.Edges, Edge{outside(e.Replaces), to, upgrade.Replaces})
		}
		for _, name := range e.Skips {
			if name != e.Replaces {
				drawn.Edges = append(drawn.Edges, Edge{outside(name), to, upgrade.Skips})
			}
		}
	}
	for _, e := range g.Entries { // now that all nodes are there
		for _, n := range drawn.Nodes {
			number, err := semver.Parse(n.Version)
			if n.Name != e.Name && err == nil && e.Follows(upgrade.Version{Name: n.Name, Number: &number}) == upgrade.SkipRange {
				drawn.Edges = append(drawn.Edges, Edge{n, byName[e.Name], upgrade.SkipRange})
			}
		}
	}
	return drawn
}

// versionOf returns the version of a bundle, as the catalog says, or else as the name does.
func versionOf(p *fbc.Package, name string) string {
	if b := p.FindBundle(name); b != nil && b.Number() != nil {
		return b.Number().String()
	}
	for _, separator := range []string{".v", "."} {
		if _, behind, found := strings.Cut(name, separator); found {
			if number, err := semver.Parse(behind); err == nil {
				return number.String()
			}
		}
	}
	return name
}

// arrange gives every version its row.
func (p *Package) arrange() {
	versions := map[string]string{}
	for _, c := range p.Channels {
		for _, n := range c.Nodes {
			if versions[n.Name] == "" {
				p.Rows = append(p.Rows, n.Name)
			}
			versions[n.Name] = n.Version
		}
	}
	slices.SortFunc(p.Rows, func(a, b string) int {
		return cmp.Or(compareVersions(versions[b], versions[a]), strings.Compare(a, b))
	})
	for _, c := range p.Channels {
		for _, n := range c.Nodes {
			n.Row = slices.Index(p.Rows, n.Name)
		}
		slices.SortFunc(c.Nodes, func(a, b *Node) int { return a.Row - b.Row })
		slices.SortStableFunc(c.Edges, func(a, b Edge) int { return cmp.Or(a.To.Row-b.To.Row, a.From.Row-b.From.Row) })
	}
}

// compareVersions puts what is no version before all that are.
func compareVersions(a, b string) int {
	first, errFirst := semver.Parse(a)
	second, errSecond := semver.Parse(b)
	switch {
	case errFirst == nil && errSecond == nil:
		return first.Compare(second)
	case errFirst == nil:
		return 1
	case errSecond == nil:
		return -1
	}
	return strings.Compare(a, b)
}
