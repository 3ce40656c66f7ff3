package mirror

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Choice says which parts of a catalog to keep.
type Choice struct {
	// Selections choose versions; without any, everything is kept.
	Selections []Selection
	// HeadsOnly says that, without selections, only the head of each channel is kept.
	HeadsOnly bool
	// DefaultChannels are default channels to set, by package.
	DefaultChannels map[string]string
}

// keptPackage holds the kept parts of a package.
type keptPackage struct {
	*fbc.Package
	defaultChannel string
	channels       []*keptChannel // in the order of the catalog
}

// keptChannel holds the kept parts of a channel.
type keptChannel struct {
	*fbc.Channel
	graph *upgrade.Graph // of the kept entries
	// between are the names of entries that nobody chose but that updates between chosen ones need.
	between []string
	// skips are names that are added to the head's skips, because the head's skipRange contains their versions.
	skips []string
}

// choose decides which parts of a catalog are kept. Its error lists all reasons why no catalog can be made from the choice.
func choose(c *fbc.Catalog, choice Choice) ([]*keptPackage, error) {
	selections := choice.Selections
	if len(selections) == 0 {
		for _, p := range c.Packages {
			s := Selection{Package: p.Name}
			if choice.HeadsOnly {
				s.Range = headOnly
			}
			selections = append(selections, s)
		}
	}
	byPackage := map[string][]Selection{}
	var faults []error
	for _, s := range selections {
		if c.Find(s.Package) == nil {
			faults = append(faults, fmt.Errorf("%s: the catalog has no package %q%s", s, s.Package, nearest.Hint(s.Package, packageNames(c))))
			continue
		}
		byPackage[s.Package] = append(byPackage[s.Package], s)
	}
	for _, name := range slices.Sorted(maps.Keys(choice.DefaultChannels)) {
		if byPackage[name] == nil {
			faults = append(faults, fmt.Errorf("default channel %s=%s: package %q is not among the packages to mirror", name, choice.DefaultChannels[name], name))
		}
	}
	var all []*keptPackage
	for _, p := range c.Packages {
		if byPackage[p.Name] == nil {
			continue
		}
		k, err := keep(p, byPackage[p.Name], choice.DefaultChannels[p.Name])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		all = append(all, k)
	}
	return all, errors.Join(faults...)
}

// keep decides which parts of a package are kept.
func keep(p *fbc.Package, selections []Selection, defaultChannel string) (*keptPackage, error) {
	k := &keptPackage{Package: p}
	var faults []error
	for _, s := range selections {
		if s.Channel != "" && p.FindChannel(s.Channel) == nil {
			faults = append(faults, fmt.Errorf("%s: package %q has no channel %q; its channels are %s%s", s, p.Name, s.Channel, strings.Join(channelNames(p.Channels), ", "), nearest.Hint(s.Channel, channelNames(p.Channels))))
		}
		if !slices.ContainsFunc(p.Channels, func(c *fbc.Channel) bool { return s.matches(p, c) }) && len(faults) == 0 {
			faults = append(faults, fmt.Errorf("%s: no version of package %q is in that range; `%s` lists its versions", s, p.Name, escape.Command("berth catalog list bundles CATALOG %s", p.Name)))
		}
	}
	for _, c := range p.Channels {
		kept, err := keepChannel(p, c, selections)
		if err != nil {
			faults = append(faults, err)
		}
		if kept != nil {
			k.channels = append(k.channels, kept)
		}
	}
	if len(faults) == 0 {
		var err error
		if k.defaultChannel, err = k.chooseDefault(defaultChannel); err != nil {
			faults = append(faults, err)
		}
	}
	return k, errors.Join(faults...)
}

// matches reports whether a selection chooses any entry of a channel.
func (s Selection) matches(p *fbc.Package, c *fbc.Channel) bool {
	if s.Channel != "" && s.Channel != c.Name {
		return false
	}
	return len(s.chosen(upgrade.Of(p, c))) > 0
}

// keepChannel decides which entries of a channel are kept, or returns nil if there are none. Entries keep their replaces and skips, even
// if these name dropped entries, so that clusters with earlier versions are updated as before.
func keepChannel(p *fbc.Package, c *fbc.Channel, selections []Selection) (*keptChannel, error) {
	g := upgrade.Of(p, c)
	chosen := map[string]bool{}
	for _, s := range selections {
		if s.Channel == "" || s.Channel == c.Name {
			for _, e := range s.chosen(g) {
				chosen[e.Name] = true
			}
		}
	}
	if len(chosen) == 0 {
		return nil, nil
	}
	k := &keptChannel{Channel: c}
	k.add(p, g, chosen, between(g, chosen))
	for _, way := range []func(*upgrade.Graph, *upgrade.Entry, map[string]bool) []string{byUpdates, byEdges} {
		cut := k.cutOff(g)
		if len(cut) > maxCutOff || len(cut)*len(g.Entries)*upgrade.NewEdges(g).Ranges() > maxComparisons {
			break
		}
		for _, e := range cut {
			k.add(p, g, chosen, way(g, e, chosen))
		}
	}
	if err := k.oneHead(p, g, chosen); err != nil {
		return nil, err
	}
	return k, k.checkPaths(p, g)
}

// maxCutOff is the maximum number of cut-off entries in a channel for which keepChannel looks for a path to a chosen entry. Finding a
// path may require a look at all edges.
const maxCutOff = 100

// maxComparisons is the maximum number of comparisons of a version with a skipRange for finding these paths.
const maxComparisons = 20_000_000

// add keeps entries that nobody chose, and computes the upgrade graph of the kept entries.
func (k *keptChannel) add(p *fbc.Package, g *upgrade.Graph, chosen map[string]bool, names []string) {
	for _, name := range names {
		chosen[name] = true
	}
	k.between = slices.Sorted(slices.Values(append(k.between, names...)))
	k.regraph(p, g, chosen)
}

// cutOff returns the kept entries from which updates no longer lead to one head: all heads, if there are several, or else the entries
// from which updates lead to the head in the whole channel, but not in the kept one.
func (k *keptChannel) cutOff(g *upgrade.Graph) (all []*upgrade.Entry) {
	if len(k.graph.Heads) > 1 {
		return k.graph.Heads
	}
	before := map[string]bool{}
	for _, e := range g.Stranded() {
		before[e.Name] = true
	}
	for _, e := range k.graph.Stranded() {
		if !before[e.Name] {
			all = append(all, e)
		}
	}
	return all
}

// byUpdates returns the entries that nobody chose and that OLM installs on its way from an entry to the next chosen one. It returns nil
// if updates lead to no chosen entry.
func byUpdates(g *upgrade.Graph, e *upgrade.Entry, chosen map[string]bool) (names []string) {
	updates, _ := g.Path(e.Version())
	for _, u := range updates {
		if chosen[u.Entry.Name] {
			return names
		}
		names = append(names, u.Entry.Name)
	}
	return nil
}

// byEdges is like byUpdates, but takes the shortest path along any edges, even if OLM would take other edges in the whole channel.
func byEdges(g *upgrade.Graph, e *upgrade.Entry, chosen map[string]bool) []string {
	before := map[*upgrade.Entry]*upgrade.Entry{} // the entry before each entry on a shortest path
	for at, to := range g.Reached(e.Version()) {
		if before[to] = at; !chosen[to.Name] {
			continue
		}
		var names []string
		for ; at != nil; at = before[at] {
			names = append(names, at.Name)
		}
		slices.Reverse(names)
		return names
	}
	return nil
}

// between returns the entries that nobody chose and that are on a chain of replaces from one chosen entry to another.
func between(g *upgrade.Graph, chosen map[string]bool) (names []string) {
	leads := map[string]bool{} // for entries that nobody chose: whether replaces leads from them to a chosen one
	for _, e := range g.Entries {
		if !chosen[e.Name] {
			continue
		}
		var way []string
		below, arrives := g.Find(e.Replaces), false
		for ; below != nil; below = g.Find(below.Replaces) {
			if arrives = chosen[below.Name]; arrives {
				break
			}
			known := false
			if arrives, known = leads[below.Name]; known {
				break
			}
			leads[below.Name] = false // for now, so that the loop ends if replaces form a cycle
			way = append(way, below.Name)
		}
		if !arrives {
			continue
		}
		for _, name := range way {
			leads[name] = true
		}
		names = append(names, way...)
	}
	slices.Sort(names)
	return names
}

// regraph computes the upgrade graph of the chosen entries.
func (k *keptChannel) regraph(p *fbc.Package, g *upgrade.Graph, chosen map[string]bool) {
	reduced := declcfg.Channel{Name: k.Name, Package: k.Package}
	for _, e := range g.Entries {
		if !chosen[e.Name] {
			continue
		}
		entry := e.ChannelEntry
		if len(k.skips) > 0 && entry.Name == k.graph.Heads[0].Name {
			entry.Skips = slices.Concat(entry.Skips, k.skips)
		}
		reduced.Entries = append(reduced.Entries, entry)
	}
	k.graph = upgrade.Of(p, &fbc.Channel{Channel: reduced})
}

// oneHead fails unless it can leave the channel with one head. If the skipRange of the latest head contains the other heads, the latest
// head also skips them by name: updates stay the same, but OLM determines heads only by names.
func (k *keptChannel) oneHead(p *fbc.Package, g *upgrade.Graph, chosen map[string]bool) error {
	if len(k.graph.Heads) == 1 {
		return nil
	}
	heads := slices.SortedFunc(slices.Values(k.graph.Heads), func(a, b *upgrade.Entry) int {
		if a.Number == nil || b.Number == nil {
			return strings.Compare(b.Name, a.Name)
		}
		return fbc.CompareVersions(*b.Number, *a.Number)
	})
	var names []string
	bySkipRange := len(heads) > 0
	for i, h := range heads {
		names = append(names, h.Name)
		bySkipRange = bySkipRange && (i == 0 || heads[0].Follows(h.Version()) == upgrade.SkipRange)
	}
	if !bySkipRange {
		return fmt.Errorf("channel %q of package %q would have %d heads, %s, and OLM resolves nothing from such a channel; choose the whole channel, %q, or its head alone, %q",
			k.Name, p.Name, len(heads), strings.Join(names, ", "), p.Name+"/"+k.Name, p.Name+"/"+k.Name+"@"+headOnly)
	}
	k.skips = slices.Sorted(slices.Values(names[1:]))
	k.graph.Heads = heads[:1]
	k.regraph(p, g, chosen)
	return nil
}

// checkPaths fails if updates no longer lead from an entry to the head, although they did before.
func (k *keptChannel) checkPaths(p *fbc.Package, g *upgrade.Graph) error {
	var lost []string
	for _, e := range k.cutOff(g) {
		lost = append(lost, e.Name)
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("channel %q of package %q: updates would no longer lead from %s to the head %s; choose the whole channel, %q, or a range without them",
		k.Name, p.Name, strings.Join(lost, ", "), k.graph.Heads[0].Name, p.Name+"/"+k.Name)
}

// chooseDefault returns the default channel of the kept package.
func (k *keptPackage) chooseDefault(asked string) (string, error) {
	var names []string
	for _, c := range k.channels {
		names = append(names, c.Name)
	}
	switch {
	case asked != "" && slices.Contains(names, asked):
		return asked, nil
	case asked != "":
		return "", fmt.Errorf("default channel %s=%s: that channel is not among the channels to mirror, %s", k.Name, asked, strings.Join(names, ", "))
	case slices.Contains(names, k.DefaultChannel):
		return k.DefaultChannel, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("package %q has the default channel %q, which is not among the channels to mirror, %s; add it with --package %s/%s, or choose another with --default-channel %s=CHANNEL",
		k.Name, k.DefaultChannel, strings.Join(names, ", "), k.Name, k.DefaultChannel, k.Name)
}

// bundles returns the kept bundles, in the order of the catalog.
func (k *keptPackage) bundles() (all []*fbc.Bundle) {
	kept := map[string]bool{}
	for _, c := range k.channels {
		for _, e := range c.graph.Entries {
			kept[e.Name] = true
		}
	}
	for _, b := range k.Bundles {
		if kept[b.Name] {
			all = append(all, b)
		}
	}
	return all
}

func packageNames(c *fbc.Catalog) (names []string) {
	for _, p := range c.Packages {
		names = append(names, p.Name)
	}
	return names
}

func channelNames(channels []*fbc.Channel) (names []string) {
	for _, c := range channels {
		names = append(names, c.Name)
	}
	return names
}
