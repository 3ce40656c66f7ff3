package upgrade

import (
	"cmp"
	"slices"
)

// Edges finds the entries to which an edge leads from a version, without iterating over all of them.
type Edges struct {
	named  map[string][]place // the entries that replace or skip a name
	ranged []place            // the entries with a skipRange, one for each name and range
}

// place is an entry, its place among the entries of all graphs, and a number for its name.
type place struct {
	*Entry
	at, name int
}

// NewEdges returns the edges of graphs.
func NewEdges(graphs ...*Graph) *Edges {
	x := &Edges{named: map[string][]place{}}
	type ranged struct{ name, skipRange string }
	known, numbers := map[ranged]bool{}, map[string]int{}
	at := 0
	for _, g := range graphs {
		for _, e := range g.Entries {
			number, is := numbers[e.Name]
			if !is {
				number = len(numbers)
				numbers[e.Name] = number
			}
			p := place{e, at, number}
			at++
			x.named[e.Replaces] = append(x.named[e.Replaces], p)
			for _, name := range e.Skips {
				x.named[name] = append(x.named[name], p)
			}
			if of := (ranged{e.Name, e.SkipRange}); e.skipped != nil && !known[of] {
				known[of] = true
				x.ranged = append(x.ranged, p)
			}
		}
	}
	return x
}

// Ranges returns the number of skipRanges that From compares a version with.
func (x *Edges) Ranges() int { return len(x.ranged) }

// From returns the entries to which an edge leads from a version, in the order of the graphs. Of several entries with the same name, it
// returns the first.
func (x *Edges) From(installed Version) (all []*Entry) {
	found := slices.Clone(x.named[installed.Name])
	if installed.Number != nil {
		for _, p := range x.ranged {
			if p.skipped(*installed.Number) {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b place) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.at, b.at)) })
	found = slices.CompactFunc(found, func(a, b place) bool { return a.name == b.name })
	slices.SortFunc(found, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	all = make([]*Entry, 0, len(found))
	for _, p := range found {
		all = append(all, p.Entry)
	}
	return all
}
