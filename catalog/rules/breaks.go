package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/olm/upgrade"
)

// breaks finds why the updates of a channel do not lead to its head.
type breaks struct {
	*upgrade.Graph
	followers map[string][]*upgrade.Entry // those that replace or skip an entry, by its name
	skippers  map[string]*upgrade.Entry   // the first other one that skips an entry, by its name
	stranded  map[*upgrade.Entry]bool
}

func newBreaks(g *upgrade.Graph, stranded []*upgrade.Entry) *breaks {
	b := &breaks{g, map[string][]*upgrade.Entry{}, map[string]*upgrade.Entry{}, map[*upgrade.Entry]bool{}}
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

// cause is why no update leads from some entries to the head.
type cause struct {
	what string
	// skipper is an entry from which updates lead to the head, and that would be the next update if it skipped the entries. It may
	// be nil.
	skipper *upgrade.Entry
}

// group are the entries of a channel that one cause keeps from the head.
type group struct {
	cause
	entries []*upgrade.Entry
}

// groups returns the stranded entries of a channel by cause, in the order of the channel.
func groups(g *upgrade.Graph) (all []*group) {
	stranded := g.Stranded()
	if len(stranded) == 0 {
		return nil
	}
	b, byCause := newBreaks(g, stranded), map[cause]*group{}
	for _, e := range stranded {
		c := b.of(e)
		if byCause[c] == nil {
			byCause[c] = &group{cause: c}
			all = append(all, byCause[c])
		}
		byCause[c].entries = append(byCause[c].entries, e)
	}
	return all
}

// of returns why no update leads from an entry to the head. Entries whose updates end in the same place have the same cause.
func (b *breaks) of(e *upgrade.Entry) cause {
	updates, _ := b.Path(e.Version())
	names, last := []string{e.Name}, e
	for _, u := range updates {
		names, last = append(names, u.Entry.Name), u.Entry
	}
	if first := slices.Index(names, last.Name); first < len(names)-1 {
		return cause{what: "they go round in a cycle, " + strings.Join(fromLeast(names[first:]), " -> ")}
	}
	return b.after(last)
}

// fromLeast returns a cycle that begins, and ends, with its least name.
func fromLeast(cycle []string) []string {
	cycle = cycle[1:] // the first name is also the last
	least := slices.Index(cycle, slices.Min(cycle))
	return slices.Concat(cycle[least:], cycle[:least+1])
}

// after returns why OLM makes no update from an entry that is not the head: there is an entry that would lead on, but another one
// skips that. It may be further on, because OLM installs no entry before a skipped one either, unless replaces leads there.
func (b *breaks) after(last *upgrade.Entry) cause {
	visited := map[*upgrade.Entry]bool{}
	for e := last; !visited[e]; e = b.followers[e.Name][0] {
		visited[e] = true
		for _, next := range b.followers[e.Name] {
			by := b.skippers[next.Name]
			if by == nil {
				continue
			}
			c := cause{what: fmt.Sprintf("%q %s %q, but %q skips %q", next.Name, next.Follows(e.Version()), e.Name, by.Name, next.Name)}
			if slices.Contains(b.Chain, by) && !b.stranded[by] {
				c.skipper = by
			}
			return c
		}
		if len(b.followers[e.Name]) == 0 {
			break
		}
	}
	return cause{what: fmt.Sprintf("OLM may install no entry that replaces %q, skips it or has its version in its skipRange", last.Name)}
}
