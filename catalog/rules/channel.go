package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// channelRules are the rules about channels and their updates.
var channelRules = []rule{
	{Rule: findings.Rule{ID: "channel-name", Severity: findings.Error,
		What: "A channel has a name.",
		Why:  "OLM's tools reject the catalog."},
		check: checkChannelName},
	{Rule: findings.Rule{ID: "channel-entries", Severity: findings.Error,
		What: "A channel has an entry.",
		Why:  "OLM's tools reject the catalog."},
		check: checkEntries},
	{Rule: findings.Rule{ID: "entry-name", Severity: findings.Error,
		What: "Every entry of a channel has its own name.",
		Why:  "OLM's tools reject the catalog."},
		check: checkEntryNames},
	{Rule: findings.Rule{ID: "entry-bundle", Severity: findings.Error,
		What: "Every entry of a channel is a bundle of the package.",
		Why:  "OLM's tools reject the catalog."},
		complete: true, check: checkEntryBundles},
	{Rule: findings.Rule{ID: "entry-skips", Severity: findings.Error,
		What: "An entry skips no empty name.",
		Why:  "OLM's tools reject the catalog."},
		check: checkSkips},
	{Rule: findings.Rule{ID: "entry-skip-range", Severity: findings.Error,
		What: "A skipRange is a range of versions, such as \">=1.0.0 <1.2.0\".",
		Why: "OLM's tools reject the catalog, and OLM itself ignores such a skipRange. " +
			"The different skipRanges of a channel may have at most 64 KiB together, because every entry's version is compared with every skipRange; OLM has no such limit."},
		check: checkSkipRanges},
	{Rule: findings.Rule{ID: "entry-reference", Severity: findings.Warning,
		What: "A name that an entry replaces or skips is not a misspelt name of another entry.",
		Why:  "OLM compares names letter by letter, so it makes no update from the entry that is meant."},
		complete: true, check: checkReferenced},
	{Rule: findings.Rule{ID: "channel-head", Severity: findings.Error,
		What: "A channel has one head: one entry that no other replaces or skips.",
		Why: "OLM resolves nothing from the channel otherwise, and nothing for any other Subscription in a namespace that has a Subscription to the channel. " +
			"A skipRange does not count: OLM orders entries by replaces and skips."},
		check: checkHead},
	{Rule: findings.Rule{ID: "channel-cycle", Severity: findings.Error,
		What: "Entries do not replace each other in a cycle.",
		Why:  "OLM resolves nothing from the channel otherwise, and nothing for any other Subscription in a namespace that has a Subscription to the channel."},
		check: checkCycle},
	{Rule: findings.Rule{ID: "channel-path", Severity: findings.Error,
		What: "From every entry of a channel, updates lead to its head.",
		Why:  "OLM strands clusters that have the entry installed, without reporting it."},
		check: checkPaths},
	{Rule: findings.Rule{ID: "channel-path-by-range", Severity: findings.Warning,
		What: "From every entry of a channel, replaces or skips lead towards its head.",
		Why: "If only a skipRange does, OLM makes the update, but opm neither validates nor serves the catalog, " +
			"because it considers the bundle stranded."},
		check: checkPathsByRange},
	{Rule: findings.Rule{ID: "replaces-downgrade", Severity: findings.Warning,
		What: "An entry replaces an earlier version.",
		Why:  "OLM does not compare versions, so it would downgrade clusters."},
		check: checkDowngrades},
}

func checkChannelName(s *subject, report report) {
	for _, c := range s.Channels {
		if c.Name == "" {
			report(c.Span, nil, "a channel of package %q has no field name", s.Name)
		}
	}
}

func checkEntries(s *subject, report report) {
	for _, c := range s.Channels {
		if len(c.Entries) == 0 {
			report(c.Span, []any{"entries"}, "channel %q has no entries", c.Name)
		}
	}
}

func checkEntryNames(s *subject, report report) {
	for _, c := range s.Channels {
		first := map[string]int{}
		for i, e := range c.Entries {
			before, repeated := first[e.Name]
			switch {
			case e.Name == "":
				report(c.Span, entryPath(i), "an entry of channel %q has no field name", c.Name)
			case repeated:
				report(c.Span, entryPath(i, "name"), "entry %q of channel %q is given twice; the first is number %d", e.Name, c.Name, before+1)
			default:
				first[e.Name] = i
			}
		}
	}
}

// entryPath returns the path of an entry of a channel, or of a value in it.
func entryPath(index int, within ...any) []any { return append([]any{"entries", index}, within...) }

func checkEntryBundles(s *subject, report report) {
	faults := alike{noun: "channel"}
	for _, c := range s.Channels {
		for i, e := range c.Entries {
			if e.Name != "" && s.FindBundle(e.Name) == nil {
				faults.add(c.Name, c.Span, entryPath(i, "name"), fmt.Sprintf("entry %q", e.Name),
					fmt.Sprintf(" is not a bundle; expected a document of schema olm.bundle, package %q and name %q", escape.Short(s.Name, longest), e.Name))
			}
		}
	}
	faults.report(report)
}

func checkSkips(s *subject, report report) {
	for _, c := range s.Channels {
		for i, e := range c.Entries {
			if empty := slices.Index(e.Skips, ""); empty >= 0 {
				report(c.Span, entryPath(i, "skips", empty), "entry %q of channel %q skips an empty name", e.Name, c.Name)
			}
		}
	}
}

func checkSkipRanges(s *subject, report report) {
	for i, c := range s.Channels {
		if unread := s.graphs[i].Unread; len(unread) > 0 {
			report(c.Span, entryPath(unread[0].Index, "skipRange"), "the different skipRanges of channel %q have more than %d bytes together: the skipRange of entry %q and %d later ones are not compared with versions",
				c.Name, upgrade.MaxRanges, unread[0].Name, len(unread)-1)
		}
		for i, e := range c.Entries {
			if e.SkipRange == "" {
				continue
			}
			if _, err := fbc.ParseRange(e.SkipRange); err != nil {
				report(c.Span, entryPath(i, "skipRange"), "skipRange of entry %q of channel %q is %q; expected one such as %q: %v",
					e.Name, c.Name, e.SkipRange, ">=1.0.0 <1.2.0", err)
			}
		}
	}
}

func checkHead(s *subject, report report) {
	for i, c := range s.Channels {
		g := s.graphs[i]
		switch {
		case len(g.Entries) == 0:
		case len(g.Heads) == 0 && len(g.Cycle) == 2:
			report(c.Span, nil, "channel %q has no head: entry %s replaces or skips itself", c.Name, g.Cycle[0])
		case len(g.Heads) == 0:
			report(c.Span, nil, "channel %q has no head: its entries replace or skip each other in a cycle, %s; expected one entry that no other replaces or skips",
				c.Name, strings.Join(g.Cycle, " -> "))
		case len(g.Heads) > 1:
			wrong := misspelt(s, g)
			f := report(c.Span, nil, "channel %q has %d heads, %s; expected one entry that no other replaces or skips%s",
				c.Name, len(g.Heads), entryNames(g.Heads), headAdvice(g, wrong))
			if len(wrong) > 0 {
				correct(f, c.Span, func(d document.Document) (edits []findings.Edit) {
					for _, m := range wrong[:min(len(wrong), replacementLimit)] {
						edits = append(edits, d.Replaced(append([]any{"entries", m.by.Index}, m.field...), m.meant)...)
					}
					return edits
				})
			}
		}
	}
}

func entryNames(entries []*upgrade.Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

// adviceHeads is how many heads of a channel headAdvice compares with each other: no honest channel has as many.
const adviceHeads = 200

// headAdvice says why a channel has several heads, and how to give it one.
func headAdvice(g *upgrade.Graph, wrong []misspelling) string {
	if len(wrong) > 0 {
		var said []string
		for _, m := range wrong {
			said = append(said, m.String())
		}
		return "; " + strings.Join(said, "; ")
	}
	heads := g.Heads[:min(len(g.Heads), adviceHeads)]
	for _, e := range heads {
		for _, other := range heads {
			if e != other && other.Number != nil && e.HasInRange(*other.Number) {
				return fmt.Sprintf("; the skipRange of %s holds %s, but OLM does not order entries by it: add the name to its skips",
					e.Name, other.Name)
			}
		}
	}
	latest := slices.MaxFunc(g.Heads, func(a, b *upgrade.Entry) int {
		if a.Number == nil || b.Number == nil {
			return strings.Compare(a.Name, b.Name)
		}
		return fbc.CompareVersions(*a.Number, *b.Number)
	})
	others := slices.DeleteFunc(slices.Clone(g.Heads), func(e *upgrade.Entry) bool { return e == latest })
	return fmt.Sprintf(": add %s to the skips of %s", entryNames(others), latest.Name)
}

// misspelling is a misspelt name of another entry.
type misspelling struct {
	by    *upgrade.Entry
	field []any // of the entry
	name  string
	meant string
}

func (r misspelling) String() string {
	return fmt.Sprintf("%s %s %q, which no entry is called; did you mean %s?", r.by.Name, r.field[0], r.name, r.meant)
}

// versionIn finds the version in a name.
var versionIn = regexp.MustCompile(`\d+\.\d+(\.\d+)?.*$`)

// misspelt returns the unknown names in replaces and skips of a channel that must mean another entry, because both names contain the
// same version. Other unknown names may be entries of earlier catalogs.
func misspelt(s *subject, g *upgrade.Graph) (all []misspelling) {
	var byVersion map[string]*upgrade.Entry // made for the first unknown name: nearly all channels have none
	for _, e := range g.Entries {
		check := func(name string, field ...any) {
			if name == "" || g.Find(name) != nil || s.FindBundle(name) != nil {
				return
			}
			if byVersion == nil {
				byVersion = entriesByVersion(g)
			}
			if meant := byVersion[versionIn.FindString(strings.TrimSpace(name))]; meant != nil && meant != e {
				all = append(all, misspelling{e, field, name, meant.Name})
			}
		}
		check(e.Replaces, "replaces")
		for i, name := range e.Skips {
			check(name, "skips", i)
		}
	}
	return all
}

// entriesByVersion returns the entries with a version in their names.
func entriesByVersion(g *upgrade.Graph) map[string]*upgrade.Entry {
	entries := map[string]*upgrade.Entry{}
	for _, e := range g.Entries {
		if version := versionIn.FindString(e.Name); version != "" {
			entries[version] = e
		}
	}
	return entries
}

// checkReferenced reports misspelt names. In a channel with several heads, headAdvice reports them.
func checkReferenced(s *subject, report report) {
	faults := alike{noun: "channel"}
	for i, c := range s.Channels {
		if g := s.graphs[i]; len(g.Heads) == 1 {
			for _, r := range misspelt(s, g) {
				faults.addFixed(c.Name, c.Span, entryPath(r.by.Index, r.field...), "entry "+r.by.Name, strings.TrimPrefix(r.String(), r.by.Name), r.meant)
			}
		}
	}
	faults.report(report)
}

func checkCycle(s *subject, report report) {
	for i, c := range s.Channels {
		if g := s.graphs[i]; len(g.Heads) == 1 && len(g.Cycle) > 0 {
			at := g.Find(g.Cycle[0])
			report(c.Span, entryPath(at.Index, "replaces"), "entries of channel %q replace each other in a cycle: %s", c.Name, strings.Join(g.Cycle, " -> "))
		}
	}
}

// checkPaths reports entries from which no update leads to the head, grouped by their remedy.
func checkPaths(s *subject, report report) {
	faults := alike{noun: "channel"}
	for i, c := range s.Channels {
		g := s.graphs[i]
		for _, group := range groups(g) {
			faults.add(c.Name, c.Span, entryPath(group.entries[0].Index), fmt.Sprintf("no update leads from %s %s", plural(group.entries, "entry", "entries"), quotedNames(group.entries)),
				fmt.Sprintf(" to the head %q: %s; let %q skip %s, too", g.Heads[0].Name, group.why(), group.skipper.Name, plural(group.entries, "it", "them")))
		}
	}
	faults.report(report)
}

// plural returns one for a single element, or else several.
func plural[T any](all []T, one, several string) string {
	if len(all) == 1 {
		return one
	}
	return several
}

func quotedNames(entries []*upgrade.Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, strconv.Quote(e.Name))
	}
	return strings.Join(names, ", ")
}

// checkPathsByRange reports entries that OLM updates but opm considers stranded: no entry skips them, and the chain of replaces from the
// head does not reach them.
func checkPathsByRange(s *subject, report report) {
	faults := alike{noun: "channel"}
	for i, c := range s.Channels {
		g := s.graphs[i]
		var byRange []*upgrade.Entry
		for _, e := range stranded(c, g) {
			if g.Arrives(e.Version()) {
				byRange = append(byRange, e)
			}
		}
		if len(byRange) > 0 {
			faults.add(c.Name, c.Span, entryPath(byRange[0].Index), fmt.Sprintf("only a skipRange leads from %s %s", plural(byRange, "entry", "entries"), quotedNames(byRange)),
				fmt.Sprintf(" to the head %q: OLM makes the update, but opm considers %s stranded and does not serve the catalog; add %s to the skips of %[1]q",
					g.Heads[0].Name, plural(byRange, "it", "them"), plural(byRange, "the name", "the names")))
		}
	}
	faults.report(report)
}

// stranded returns the entries that opm considers stranded.
func stranded(c *fbc.Channel, g *upgrade.Graph) []*upgrade.Entry {
	if len(g.Chain) == 0 {
		return nil
	}
	fine := map[string]bool{}
	for _, e := range c.Entries {
		for _, name := range e.Skips {
			fine[name] = true
		}
	}
	skipped := func(name string) bool { return fine[name] }
	reached := []string{}
	for e := g.Heads[0]; e != nil; e = g.Find(e.Replaces) {
		reached = append(reached, e.Name)
		if skipped(e.Replaces) {
			break
		}
	}
	for _, name := range reached {
		fine[name] = true
	}
	return slices.DeleteFunc(slices.Clone(g.Entries), func(e *upgrade.Entry) bool { return fine[e.Name] })
}

func checkDowngrades(s *subject, report report) {
	faults := alike{noun: "channel"}
	for i, c := range s.Channels {
		g := s.graphs[i]
		for _, e := range g.Entries {
			replaced := s.FindBundle(e.Replaces)
			if e.Replaces == "" || replaced == nil || e.Number == nil || inCycle(g, e) {
				continue
			}
			if number := replaced.Number(); number != nil && fbc.CompareVersions(*number, *e.Number) > 0 {
				faults.add(c.Name, c.Span, entryPath(e.Index, "replaces"), fmt.Sprintf("entry %q", e.Name),
					fmt.Sprintf(" is version %s and replaces %q, which is the later version %s", e.Number, e.Replaces, number))
			}
		}
	}
	faults.report(report)
}

// inCycle reports whether the reported cycle leads from an entry to the entry that it replaces.
func inCycle(g *upgrade.Graph, e *upgrade.Entry) bool {
	for i := 1; i < len(g.Cycle); i++ {
		if g.Cycle[i-1] == e.Name && g.Cycle[i] == e.Replaces {
			return true
		}
	}
	return false
}
