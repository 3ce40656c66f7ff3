// Package upgrade models the upgrade graph of a channel: from which version OLM updates to which.
//
// OLM orders the entries of a channel by replaces and skips, from the head down. An entry has an upgrade
// edge from the installed version if it replaces or skips that version by name, or if its skipRange
// includes it. Of several such entries, OLM takes the one nearest to the head. A skipRange does not
// affect the order.
package upgrade

import (
	"iter"
	"slices"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
)

// Edge is the kind of an upgrade edge.
type Edge string

// The edges, named after the field of the channel's entry that declares them.
const (
	Replaces  Edge = "replaces"
	Skips     Edge = "skips"
	SkipRange Edge = "skipRange"
)

// Version is a version of a package that may be installed. The catalog need not have it.
type Version struct {
	// Name is the name of the ClusterServiceVersion.
	Name string
	// Number is nil if it is unknown; then no skipRange includes it.
	Number *semver.Version
}

// Entry is an entry of a channel.
type Entry struct {
	declcfg.ChannelEntry
	// Number is the version of the entry's bundle, or nil if it is missing or invalid.
	Number *semver.Version
	// Index is the entry's place in the channel's document.
	Index int

	skipped semver.Range
	// skips are the names in Skips, sorted for a binary search, because there may be many.
	skips []string
}

// Version returns the version of the entry.
func (e *Entry) Version() Version { return Version{e.Name, e.Number} }

// Follows returns the edge from an installed version to the entry, or "" if there is none.
func (e *Entry) Follows(installed Version) Edge {
	switch {
	case e.Replaces == installed.Name:
		return Replaces
	case e.hasSkipped(installed.Name):
		return Skips
	case installed.Number != nil && e.HasInRange(*installed.Number):
		return SkipRange
	}
	return ""
}

func (e *Entry) hasSkipped(name string) bool {
	_, has := slices.BinarySearch(e.skips, name)
	return has
}

// HasInRange reports whether the skipRange of the entry contains a version.
func (e *Entry) HasInRange(number semver.Version) bool { return e.skipped != nil && e.skipped(number) }

// Graph is the upgrade graph of a channel.
type Graph struct {
	// Entries are the entries of the channel, in the order of its document, without entries that have no name, or the same name as an earlier
	// entry.
	Entries []*Entry
	// Heads are the entries that no other one replaces or skips. OLM resolves nothing from a channel
	// unless it has one head.
	Heads []*Entry
	// Cycle are the names of entries that replace or skip each other in a cycle, which keeps OLM from
	// finding a head, or the end of the chain. The first name is repeated at the end. It is empty if there
	// is no such cycle.
	Cycle []string
	// Chain are the entries that OLM may install, from the head down. It is empty if OLM cannot order the
	// channel.
	Chain []*Entry
	// Unread are entries whose skipRange is not compared with versions, because it would exceed MaxRanges together with earlier skipRanges.
	// OLM compares all.
	Unread []*Entry

	byName map[string]*Entry
	// byEdge holds the position in Chain of the first entry that replaces or skips a name; ranged holds the positions of entries with a
	// skipRange that no earlier entry has.
	byEdge map[string]int
	ranged []int
	// outcome caches the outcomes of entries.
	outcome map[*Entry]outcome
}

// outcome says whether updates lead from an entry to the head.
type outcome int

const (
	unknown outcome = iota
	visiting
	reachesHead
	stranded
)

// MaxRanges is the maximum total size, in bytes, of the different skipRanges that are read from a channel. There is a limit because the
// version of each entry is compared with each of them.
const MaxRanges = 64 << 10

// Of returns the graph of a channel of a package.
func Of(p *fbc.Package, c *fbc.Channel) *Graph {
	g := &Graph{byName: map[string]*Entry{}}
	ranges, size := map[string]semver.Range{}, 0 // of all skipRanges
	for i, declared := range c.Entries {
		e := &Entry{ChannelEntry: declared, Index: i, skips: slices.Sorted(slices.Values(declared.Skips))}
		if b := p.FindBundle(e.Name); b != nil {
			e.Number = b.Number()
		}
		parsed, known := ranges[e.SkipRange]
		switch {
		case e.SkipRange == "" || known:
		case size+len(e.SkipRange) > MaxRanges:
			g.Unread = append(g.Unread, e)
		default:
			parsed, _ = fbc.ParseRange(e.SkipRange) // OLM also ignores an invalid one
			ranges[e.SkipRange] = parsed
			size += len(e.SkipRange)
		}
		e.skipped = parsed
		if e.Name != "" && g.byName[e.Name] == nil {
			g.Entries = append(g.Entries, e)
			g.byName[e.Name] = e
		}
	}
	g.order()
	return g
}

// Find returns an entry by name, or nil.
func (g *Graph) Find(name string) *Entry { return g.byName[name] }

// order sets Heads, Chain and Cycle.
func (g *Graph) order() {
	hasSuccessor, skipped := map[string]bool{}, map[string]bool{}
	for _, e := range g.Entries {
		if e.Replaces != "" {
			hasSuccessor[e.Replaces] = true
		}
		for _, name := range e.Skips {
			hasSuccessor[name], skipped[name] = true, true
		}
	}
	for _, e := range g.Entries {
		if !hasSuccessor[e.Name] {
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
	g.byEdge, g.outcome = map[string]int{}, map[*Entry]outcome{g.Heads[0]: reachesHead}
	ranges := map[string]bool{}
	for i, e := range chain {
		for _, name := range append([]string{e.Replaces}, e.Skips...) {
			if _, known := g.byEdge[name]; !known && name != "" {
				g.byEdge[name] = i
			}
		}
		if e.skipped != nil && !ranges[e.SkipRange] {
			ranges[e.SkipRange] = true
			g.ranged = append(g.ranged, i)
		}
	}
}

// cycleFrom follows replaces from an entry until it returns to that entry.
func (g *Graph) cycleFrom(first *Entry) []string {
	cycle := []string{first.Name}
	for e := g.byName[first.Replaces]; e != first; e = g.byName[e.Replaces] {
		cycle = append(cycle, e.Name)
	}
	return append(cycle, first.Name)
}

// cycle finds a cycle if every entry is replaced or skipped: a walk that goes from each entry to one that replaces or skips it must reach
// some entry twice.
func (g *Graph) cycle() []string {
	if len(g.Entries) == 0 {
		return nil
	}
	followers := map[string]*Entry{} // the first of each name
	for _, e := range slices.Backward(g.Entries) {
		followers[e.Replaces] = e
		for _, name := range e.Skips {
			followers[name] = e
		}
	}
	names, places := []string{g.Entries[0].Name}, map[string]int{g.Entries[0].Name: 0}
	for {
		follower := followers[names[len(names)-1]]
		if first, visited := places[follower.Name]; visited {
			cycle := append(names[first:], follower.Name)
			slices.Reverse(cycle)
			return cycle
		}
		places[follower.Name] = len(names)
		names = append(names, follower.Name)
	}
}

// Update is an update that OLM makes, and the edge that leads to it.
type Update struct {
	Entry *Entry
	Edge  Edge
}

// Next returns the update that OLM makes from an installed version. It returns nil if no entry has an edge from that
// version, or if the entry nearest to the head is the installed one itself.
func (g *Graph) Next(installed Version) *Update {
	at, found := g.byEdge[installed.Name]
	if installed.Number != nil {
		for _, i := range g.ranged {
			if found && i >= at {
				break
			}
			if g.Chain[i].skipped(*installed.Number) {
				at, found = i, true
				break
			}
		}
	}
	if !found || g.Chain[at].Name == installed.Name {
		return nil
	}
	return &Update{g.Chain[at], g.Chain[at].Follows(installed)}
}

// Reaches reports whether edges lead from an installed version to an entry, in any number of updates. OLM need not make these updates now:
// they may date from times when the channel had other heads.
func (g *Graph) Reaches(installed Version, name string) bool {
	for _, to := range g.Reached(installed) {
		if to.Name == name {
			return true
		}
	}
	return false
}

// Reached yields pairs of entries. The second is an entry to which edges lead from an installed version, in any number of updates. The
// first is the entry before it on a shortest path, or nil if that is the installed version. The nearest entries come first.
func (g *Graph) Reached(installed Version) iter.Seq2[*Entry, *Entry] {
	return func(yield func(*Entry, *Entry) bool) {
		edges, reached, known := NewEdges(g), []*Entry{nil}, map[string]bool{installed.Name: true}
		for i := 0; i < len(reached); i++ { // reached grows
			from := reached[i]
			if from != nil {
				installed = from.Version()
			}
			for _, to := range edges.From(installed) {
				if known[to.Name] {
					continue
				}
				known[to.Name] = true
				if !yield(from, to) {
					return
				}
				reached = append(reached, to)
			}
		}
	}
}

// Stranded returns the entries from which updates do not lead to the head, in the order of Entries. It returns none if OLM
// cannot order the channel.
func (g *Graph) Stranded() (all []*Entry) {
	if len(g.Chain) == 0 {
		return nil
	}
	for _, e := range g.Entries {
		if !g.reaches(e) {
			all = append(all, e)
		}
	}
	return all
}

// reaches reports whether updates lead from an entry to the head. It caches outcomes, so that all entries together take linear
// time.
func (g *Graph) reaches(e *Entry) bool {
	var way []*Entry
	last := stranded
	for e != nil && g.outcome[e] != visiting {
		if g.outcome[e] != unknown {
			last = g.outcome[e]
			break
		}
		g.outcome[e] = visiting
		way = append(way, e)
		next := g.Next(e.Version())
		if next == nil {
			break
		}
		e = next.Entry
	}
	for _, passed := range way {
		g.outcome[passed] = last
	}
	return last == reachesHead
}

// Arrives reports whether the updates that OLM makes from an installed version end at the head.
func (g *Graph) Arrives(installed Version) bool {
	if len(g.Chain) == 0 {
		return false
	}
	if installed.Name == g.Heads[0].Name {
		return true
	}
	next := g.Next(installed)
	return next != nil && g.reaches(next.Entry)
}

// Path returns the updates that OLM makes from an installed version, one after the other, and whether
// they end at the head.
func (g *Graph) Path(installed Version) (updates []Update, reachesHead bool) {
	if len(g.Chain) == 0 {
		return nil, false
	}
	seen := map[string]bool{}
	for installed.Name != g.Heads[0].Name && !seen[installed.Name] {
		seen[installed.Name] = true
		next := g.Next(installed)
		if next == nil {
			return updates, false
		}
		updates = append(updates, *next)
		installed = next.Entry.Version()
	}
	return updates, installed.Name == g.Heads[0].Name
}
