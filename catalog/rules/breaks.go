package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/olm/upgrade"
)

// breaks finds out why updates from some entries of a channel do not lead to its head.
type breaks struct {
	*upgrade.Graph
	followers map[string][]*upgrade.Entry // the entries that replace or skip a name, by that name
	skippers  map[string]*upgrade.Entry   // by the skipped name: the first entry with another name that skips it
	stranded  map[*upgrade.Entry]bool
	chain     map[*upgrade.Entry]bool
	ends      map[*upgrade.Entry]end
	skipped   map[*upgrade.Entry]end
}

func newBreaks(g *upgrade.Graph, stranded []*upgrade.Entry) *breaks {
	b := &breaks{Graph: g, followers: map[string][]*upgrade.Entry{}, skippers: map[string]*upgrade.Entry{}, stranded: map[*upgrade.Entry]bool{},
		chain: map[*upgrade.Entry]bool{}, ends: map[*upgrade.Entry]end{}, skipped: map[*upgrade.Entry]end{}}
	for _, e := range g.Chain {
		b.chain[e] = true
	}
	for _, e := range g.Entries {
		if e.Replaces != "" {
			b.followers[e.Replaces] = append(b.followers[e.Replaces], e)
		}
		for _, name := range e.Skips {
			if name != e.Replaces {
				b.followers[name] = append(b.followers[name], e)
			}
			if name != e.Name && b.skippers[name] == nil {
				b.skippers[name] = e
			}
		}
	}
	for _, e := range stranded {
		b.stranded[e] = true
	}
	return b
}

// cause says why no update leads from some entries to the head.
type cause struct {
	// If updates end because an entry is skipped, next is the skipped entry, and by is the entry that skips it. For other causes, both are
	// nil.
	next, by *upgrade.Entry
	// other describes any other cause. It is a pointer, so that the time to compare causes does not depend on the length of the text.
	other *string
}

// group holds the entries of a channel that the same remedy would connect to the head.
type group struct {
	// skipper is the entry that should skip the group's entries: OLM would then update from them to it.
	skipper *upgrade.Entry
	entries []*upgrade.Entry
	causes  []cause
	stuck   map[cause][]*upgrade.Entry // the entries where updates end, by cause
	listed  map[end]bool               // the ends in stuck
}

// groups returns the stranded entries of a channel, grouped by their remedy, in the order of the channel.
func groups(g *upgrade.Graph) (all []*group) {
	stranded := g.Stranded()
	if len(stranded) == 0 {
		return nil
	}
	b, bySkipper := newBreaks(g, stranded), map[*upgrade.Entry]*group{}
	for _, e := range stranded {
		c, last := b.of(e)
		skipper := g.Heads[0] // the head always works: no entry is nearer to the head
		if c.by != nil && b.chain[c.by] && !b.stranded[c.by] {
			skipper = c.by
		}
		gr := bySkipper[skipper]
		if gr == nil {
			gr = &group{skipper: skipper, stuck: map[cause][]*upgrade.Entry{}, listed: map[end]bool{}}
			bySkipper[skipper], all = gr, append(all, gr)
		}
		gr.entries = append(gr.entries, e)
		if gr.stuck[c] == nil {
			gr.causes = append(gr.causes, c)
		}
		if found := (end{c, last}); !gr.listed[found] {
			gr.listed[found] = true
			gr.stuck[c] = append(gr.stuck[c], last)
		}
	}
	return all
}

// why says why no update leads from the entries of a group to the head.
func (gr *group) why() string {
	var all []string
	for _, c := range gr.causes {
		if c.by == nil {
			all = append(all, *c.other)
			continue
		}
		verb := "replaces or skips"
		if stuck := gr.stuck[c]; len(stuck) == 1 {
			verb = string(c.next.Follows(stuck[0].Version()))
		}
		all = append(all, fmt.Sprintf("%q %s %s, but %q skips %q", c.next.Name, verb, quotedNames(gr.stuck[c]), c.by.Name, c.next.Name))
	}
	return strings.Join(all, ", and ")
}

// end says where the updates from an entry end, and why.
type end struct {
	cause
	last *upgrade.Entry
}

// of returns why updates do not lead from an entry to the head, and the entry where the updates end. It records the same end for all
// entries on the way, so that all calls together take linear time.
func (b *breaks) of(e *upgrade.Entry) (cause, *upgrade.Entry) {
	var way []*upgrade.Entry
	index := map[*upgrade.Entry]int{}
	found, known := b.ends[e]
	for !known {
		if first, again := index[e]; again {
			var names []string
			for _, on := range append(way[first:], e) {
				names = append(names, on.Name)
			}
			other := "updates go round in a cycle, " + strings.Join(fromLeast(names), " -> ")
			found = end{cause{other: &other}, e}
			break
		}
		index[e] = len(way)
		way = append(way, e)
		next := b.Next(e.Version())
		if next == nil {
			found.cause, found.last = b.after(e)
			break
		}
		e = next.Entry
		found, known = b.ends[e]
	}
	for _, on := range way {
		b.ends[on] = found
	}
	return found.cause, found.last
}

// fromLeast rotates a cycle of names so that it begins and ends with the least one: the text is then the same, wherever the cycle was
// entered.
func fromLeast(cycle []string) []string {
	cycle = cycle[1:] // the first name is also the last
	least := slices.Index(cycle, slices.Min(cycle))
	return slices.Concat(cycle[least:], cycle[:least+1])
}

// after returns why OLM does not update from the entry where updates end. Usually, the entry after that one is skipped by another entry.
// The skipped entry may also be further on: OLM does not install the entries before a skipped entry, unless replaces leads from the head to
// them. As in of, all entries on the way have the same end.
func (b *breaks) after(last *upgrade.Entry) (cause, *upgrade.Entry) {
	var way []*upgrade.Entry
	found, known := b.skipped[last]
	for e := last; !known; found, known = b.skipped[e] {
		b.skipped[e] = end{} // a placeholder until the end is known, so that the loop also ends in a cycle
		way = append(way, e)
		for _, next := range b.followers[e.Name] {
			if by := b.skippers[next.Name]; by != nil {
				found, known = end{cause{next: next, by: by}, e}, true
				break
			}
		}
		if known || len(b.followers[e.Name]) == 0 {
			break
		}
		e = b.followers[e.Name][0]
	}
	for _, on := range way {
		b.skipped[on] = found
	}
	if found.last != nil {
		return found.cause, found.last
	}
	other := fmt.Sprintf("no entry that OLM can install replaces or skips %q, or has a skipRange that includes its version", last.Name)
	return cause{other: &other}, last
}
