// Package upgrade tells how OLM gets from one version of a package to the next: which entries of a
// channel it considers, in which order, and which of them it takes.
//
// OLM orders the entries of a channel by replaces and skips, from the head down. From there on, an
// entry can follow the installed version if it replaces or skips that by name, or if its skipRange
// holds the installed version; of several, OLM takes the one that is nearest to the head. A skipRange
// has no part in the order.
package upgrade

import (
	"slices"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/fbc"
)

// Edge is what leads from one version to another.
type Edge string

// The fields of a channel's entry that an edge may come of.
const (
	Replaces  Edge = "replaces"
	Skips     Edge = "skips"
	SkipRange Edge = "skipRange"
)

// Version is a version of a package as it may be installed: whether the catalog knows it or not.
type Version struct {
	// Name is that of the ClusterServiceVersion.
	Name string
	// Number is nil where it is not known; then no skipRange holds it.
	Number *semver.Version
}

// Entry is an entry of a channel.
type Entry struct {
	declcfg.ChannelEntry
	// Number is the version of the entry's bundle, nil if there is none that can be parsed.
	Number *semver.Version
	// Index is the entry's place in the channel's document.
	Index int

	skipped semver.Range
}

// Version is the version that the entry stands for.
func (e *Entry) Version() Version { return Version{e.Name, e.Number} }

// Follows returns what leads from an installed version to the entry, or "".
func (e *Entry) Follows(installed Version) Edge {
	switch {
	case e.Replaces == installed.Name:
		return Replaces
	case slices.Contains(e.Skips, installed.Name):
		return Skips
	case e.skipped != nil && installed.Number != nil && e.skipped(*installed.Number):
		return SkipRange
	}
	return ""
}

// Graph is what a channel says of its entries.
type Graph struct {
	// Entries are those of the channel, as its document has them. Of those with one name, the first
	// counts; those without are left out.
	Entries []*Entry
	// Heads are the entries that no other one replaces or skips. OLM resolves nothing from a channel
	// unless it has one head.
	Heads []*Entry
	// Cycle are the names of entries that replace or skip each other in a circle, and keep OLM from
	// finding one head, or the end of the chain below it. The last is the first again. It is empty
	// where there is none.
	Cycle []string
	// Chain is what OLM may install of the channel, from the head down. It is empty where OLM cannot
	// tell.
	Chain []*Entry

	byName map[string]*Entry
}

// Of returns the graph of a channel of a package.
func Of(p *fbc.Package, c *fbc.Channel) *Graph {
	g := &Graph{byName: map[string]*Entry{}}
	for i, declared := range c.Entries {
		e := &Entry{ChannelEntry: declared, Index: i}
		if b := p.FindBundle(e.Name); b != nil {
			e.Number = b.Number()
		}
		if e.SkipRange != "" {
			e.skipped, _ = semver.ParseRange(e.SkipRange) // OLM, too, takes one that it cannot read for none
		}
		if e.Name != "" && g.byName[e.Name] == nil {
			g.Entries = append(g.Entries, e)
			g.byName[e.Name] = e
		}
	}
	g.order()
	return g
}

// Find returns the entry of a name, or nil.
func (g *Graph) Find(name string) *Entry { return g.byName[name] }

// order works out the heads and the chain.
func (g *Graph) order() {
	followed, skipped := map[string]bool{}, map[string]bool{}
	for _, e := range g.Entries {
		if e.Replaces != "" {
			followed[e.Replaces] = true
		}
		for _, name := range e.Skips {
			followed[name], skipped[name] = true, true
		}
	}
	for _, e := range g.Entries {
		if !followed[e.Name] {
			g.Heads = append(g.Heads, e)
		}
	}
	if len(g.Heads) == 0 {
		g.Cycle = g.cycle()
	}
	if len(g.Heads) != 1 {
		return
	}
	var chain []*Entry
	visited := map[*Entry]bool{}
	for e := g.Heads[0]; e != nil; e = g.byName[e.Replaces] {
		if visited[e] {
			g.Cycle = g.cycleFrom(e)
			return
		}
		visited[e] = true
		if !skipped[e.Name] {
			chain = append(chain, e)
		}
	}
	g.Chain = chain
}

// circleFrom follows replaces from an entry until it comes back to it.
func (g *Graph) cycleFrom(first *Entry) []string {
	circle := []string{first.Name}
	for e := g.byName[first.Replaces]; e != first; e = g.byName[e.Replaces] {
		circle = append(circle, e.Name)
	}
	return append(circle, first.Name)
}

// circle finds entries that replace or skip each other in a circle, where every entry is replaced or
// skipped: going back from one to what follows it must come to one again.
func (g *Graph) cycle() []string {
	if len(g.Entries) == 0 {
		return nil
	}
	names := []string{g.Entries[0].Name}
	for {
		last := names[len(names)-1]
		follower := g.Entries[slices.IndexFunc(g.Entries, func(e *Entry) bool {
			return e.Replaces == last || slices.Contains(e.Skips, last)
		})]
		if first := slices.Index(names, follower.Name); first >= 0 {
			circle := append(names[first:], follower.Name)
			slices.Reverse(circle)
			return circle
		}
		names = append(names, follower.Name)
	}
}

// Step is an update that OLM makes.
type Update struct {
	Entry *Entry
	Edge  Edge
}

// Next returns the update that OLM makes from an installed version, or nil if it makes none: because
// nothing follows, or because the entry that it would take is the installed one.
func (g *Graph) Next(installed Version) *Update {
	for _, e := range g.Chain {
		if edge := e.Follows(installed); edge != "" {
			if e.Name == installed.Name {
				return nil
			}
			return &Update{e, edge}
		}
	}
	return nil
}

// Stranded returns the entries from which updates do not lead to the head, in the order of Entries.
// Where OLM finds no order, there is nothing to say: then it is none.
func (g *Graph) Stranded() (all []*Entry) {
	if len(g.Chain) == 0 {
		return nil
	}
	const unknown, visiting, arrives, strands = 0, 1, 2, 3
	state := map[*Entry]int{g.Heads[0]: arrives}
	var visit func(e *Entry) int
	visit = func(e *Entry) int {
		if state[e] != unknown {
			return state[e]
		}
		state[e] = visiting
		outcome := strands
		if next := g.Next(e.Version()); next != nil && visit(next.Entry) == arrives {
			outcome = arrives
		}
		state[e] = outcome
		return outcome
	}
	for _, e := range g.Entries {
		if visit(e) != arrives {
			all = append(all, e)
		}
	}
	return all
}

// Path returns the updates that OLM makes from an installed version, one after the other, and whether
// they end at the head.
func (g *Graph) Path(installed Version) (steps []Update, arrives bool) {
	if len(g.Chain) == 0 {
		return nil, false
	}
	seen := map[string]bool{}
	for installed.Name != g.Heads[0].Name && !seen[installed.Name] {
		seen[installed.Name] = true
		next := g.Next(installed)
		if next == nil {
			return steps, false
		}
		steps = append(steps, *next)
		installed = next.Entry.Version()
	}
	return steps, installed.Name == g.Heads[0].Name
}
