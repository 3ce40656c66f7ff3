// Package graph draws the upgrade graphs of packages: as Mermaid, DOT and SVG, and as one HTML page that loads nothing
// else, with everything that a catalog says about its versions.
package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Package is the drawing of a package.
type Package struct {
	Name       string
	Deprecated string     // the message
	Channels   []*Channel // the default one first, then by name

	source *fbc.Package
}

// Channel is a column. Its rows are its own, so that each column has its head at the top however many versions of
// other channels are later.
type Channel struct {
	Name       string
	Default    bool
	Deprecated string
	// Broken says why OLM resolves nothing from the channel; it is empty for a valid one.
	Broken string
	Nodes  []*Node // in the order of rows
	Edges  []Edge  // by what they lead to, and then by where they come from
	// Unranged says that skipRanges lead from more versions than are drawn. Versions show their skipRange all the same.
	Unranged bool
}

// Limits of what skipRanges add to a channel: pairs of an entry and a version that are compared, and edges.
const (
	maxPairs      = 4_000_000
	maxRangeEdges = 20_000
)

// Node is a version in a channel.
type Node struct {
	Name string
	// Version is that of the bundle or, without one, what the name says; it may be the name.
	Version string
	// Row counts from the top: first the head, then the latest version.
	Row int
	// Range is the skipRange, if it has one.
	Range      string
	Deprecated string
	Head       bool
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

// Edge leads from a version to one that may take its place. OLM never takes it if To is passed.
type Edge struct {
	From, To *Node
	Kind     upgrade.Edge
}

// Of returns the drawing of a package of a valid catalog.
func Of(p *fbc.Package) *Package {
	drawn := &Package{Name: p.Name, Deprecated: p.Deprecation(declcfg.SchemaPackage, ""), source: p}
	for _, c := range p.Channels {
		drawn.Channels = append(drawn.Channels, newChannel(p, c))
	}
	slices.SortFunc(drawn.Channels, func(a, b *Channel) int {
		return cmp.Or(falseFirst(!a.Default, !b.Default), strings.Compare(a.Name, b.Name))
	})
	return drawn
}

// falseFirst orders false before true.
func falseFirst(a, b bool) int {
	rank := map[bool]int{true: 1}
	return rank[a] - rank[b]
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
	switch {
	case len(g.Heads) > 1:
		drawn.Broken = fmt.Sprintf("%d heads", len(g.Heads))
	case len(g.Cycle) > 0:
		drawn.Broken = "a cycle"
	}
	stranded, heads, chain := setOf(g.Stranded()), setOf(g.Heads), setOf(g.Chain)
	for _, e := range g.Entries {
		add(&Node{Name: e.Name, Version: versionOf(p, e.Name), Range: e.SkipRange, Head: heads[e], Stranded: stranded[e], Passed: !chain[e]})
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
			outside(name).SkippedBy = to.Version
			if name != e.Replaces {
				drawn.Edges = append(drawn.Edges, Edge{outside(name), to, upgrade.Skips})
			}
		}
	}
	ranged := rangeEdges(g, drawn.Nodes, byName) // now that all nodes are there
	drawn.Edges, drawn.Unranged = append(drawn.Edges, ranged...), ranged == nil
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

// rangeEdges returns the edges of skipRanges, or nothing if there are too many: each entry may have all others in its skipRange.
func rangeEdges(g *upgrade.Graph, nodes []*Node, byName map[string]*Node) []Edge {
	var ranged []*upgrade.Entry
	for _, e := range g.Entries {
		if e.SkipRange != "" {
			ranged = append(ranged, e)
		}
	}
	if len(ranged)*len(nodes) > maxPairs {
		return nil
	}
	edges := []Edge{}
	for _, n := range nodes {
		number, err := semver.Parse(n.Version)
		if err != nil {
			continue
		}
		for _, e := range ranged {
			if n.Name != e.Name && e.Follows(upgrade.Version{Name: n.Name, Number: &number}) == upgrade.SkipRange {
				edges = append(edges, Edge{n, byName[e.Name], upgrade.SkipRange})
			}
		}
		if len(edges) > maxRangeEdges {
			return nil
		}
	}
	return edges
}

// versionOf returns the version of a bundle from the catalog or, without one, from the name.
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
func (c *Channel) arrange() {
	slices.SortFunc(c.Nodes, func(a, b *Node) int {
		return cmp.Or(falseFirst(!a.Head, !b.Head), compareVersions(b.Version, a.Version), strings.Compare(a.Name, b.Name))
	})
	for i, n := range c.Nodes {
		n.Row = i
	}
	slices.SortStableFunc(c.Edges, func(a, b Edge) int { return cmp.Or(a.To.Row-b.To.Row, a.From.Row-b.From.Row) })
}

// compareVersions orders versions, with texts that are no version before all others.
func compareVersions(a, b string) int {
	first, errFirst := semver.Parse(a)
	second, errSecond := semver.Parse(b)
	switch {
	case errFirst == nil && errSecond == nil:
		return fbc.CompareVersions(first, second)
	case errFirst == nil:
		return 1
	case errSecond == nil:
		return -1
	}
	return strings.Compare(a, b)
}
