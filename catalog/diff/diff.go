// Package diff compares two catalogs and reports what changes for clusters when one replaces the other: packages and channels, channel
// heads, versions from which updates no longer lead to the head, and how a new head differs from the old one.
package diff

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/bundle/registryv1/access"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/catalog/olmv1"
	"github.com/berth-csi/berth/catalog/requests"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Schema is the name and version of the JSON of a Diff. It changes when a field changes.
const Schema = "berth.catalog-diff.v1"

// Diff is the difference between two catalogs.
type Diff struct {
	Schema   string    `json:"schema"`
	Before   string    `json:"before"` // the folder
	After    string    `json:"after"`
	Summary  Summary   `json:"summary"`
	Packages []Package `json:"packages"` // only those that change, by name
	// OLMv1 are the installed bundles for which OLM v1 does less than before, if the comparison includes OLM v1.
	OLMv1 []olmv1.Lost `json:"olmV1,omitempty"`
}

// Summary counts changes.
type Summary struct {
	Added   int `json:"added"`   // packages
	Removed int `json:"removed"` // packages
	Changed int `json:"changed"` // packages
	// Lost is the number of entries of channels from which updates no longer lead to the head.
	Lost int `json:"lost"`
	// Refused is the number of channels with an update that removes versions of APIs.
	Refused int `json:"refused,omitempty"`
}

// add counts a package.
func (s *Summary) add(p *Package) {
	switch p.Kind {
	case Added:
		s.Added++
	case Removed:
		s.Removed++
	case Changed:
		s.Changed++
	}
	for _, c := range p.Channels {
		s.Lost += len(c.Lost)
		if len(c.RemovedAPIs) > 0 {
			s.Refused++
		}
	}
}

// Kind is the kind of a change.
type Kind string

// The kinds of change.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Change is a value that changes. An empty value means none.
type Change = access.Change

// Package is the difference of a package.
type Package struct {
	Name           string    `json:"name"`
	Kind           Kind      `json:"kind"`
	DefaultChannel *Change   `json:"defaultChannel,omitempty"`
	Deprecation    *Change   `json:"deprecation,omitempty"`
	Channels       []Channel `json:"channels,omitempty"` // only those that change, by name
	// Rewritten are bundles whose content changes under the same name. OLM does not install them again in clusters that
	// already have them.
	Rewritten []string `json:"rewritten,omitempty"`
	// Deprecations are the changes to deprecations of bundles, by the bundle's name.
	Deprecations map[string]*Change `json:"deprecations,omitempty"`
	// Lifecycles are the changes to the phases of support and the platforms of minor versions, by version.
	Lifecycles map[string]*Change `json:"lifecycles,omitempty"`
}

// Channel is the difference of a channel.
type Channel struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Head is the channel head.
	Head        *Change  `json:"head,omitempty"`
	Added       []string `json:"added,omitempty"`   // entries
	Removed     []string `json:"removed,omitempty"` // entries
	Deprecation *Change  `json:"deprecation,omitempty"`
	// Lost are entries from which updates no longer lead to the head: clusters that have them installed are stranded. If the channel is
	// gone, updates no longer lead to the head from any entry.
	Lost []string `json:"lost,omitempty"`
	// RemovedAPIs are versions of APIs that an update from the old head to the new one removes. OLM refuses the update on clusters
	// that have stored objects in these versions.
	RemovedAPIs []string `json:"removedAPIs,omitempty"`
	// Content is the difference between the new head and the old one.
	Content *access.Content `json:"content,omitempty"`
}

// Compare returns the difference between two valid catalogs, in the named packages or, without names, in all.
func Compare(before, after *fbc.Catalog, only ...string) (*Diff, error) {
	d := &Diff{Schema: Schema, Before: before.Dir, After: after.Dir, Packages: []Package{}}
	names, err := chosen(before, after, only)
	if err != nil {
		return nil, err
	}
	allowed := newAllowance(before, after)
	for _, name := range names {
		p, err := allowed.comparePackage(before.Find(name), after.Find(name))
		if err != nil {
			return nil, fmt.Errorf("package %q: %w", name, err)
		}
		if p != nil {
			d.Packages = append(d.Packages, *p)
			d.Summary.add(p)
		}
	}
	return d, nil
}

// chosen returns the names of the packages to compare, sorted.
func chosen(before, after *fbc.Catalog, only []string) ([]string, error) {
	var names []string
	for _, p := range slices.Concat(before.Packages, after.Packages) {
		names = append(names, p.Name)
	}
	if len(only) == 0 {
		return union(names, nil), nil
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("neither %s nor %s has package %q%s", before.Dir, after.Dir, name, nearest.Hint(name, union(names, nil)))
		}
	}
	return union(only, nil), nil
}

// comparePackage returns the difference of a package, or nil if there is none. One of the packages may be nil.
func (a *allowance) comparePackage(before, after *fbc.Package) (*Package, error) {
	switch {
	case before == nil:
		before = &fbc.Package{Package: declcfg.Package{Name: after.Name}}
		d, err := a.compareContents(before, after)
		d.Kind = Added
		return d, err
	case after == nil:
		d, err := a.compareContents(before, &fbc.Package{Package: declcfg.Package{Name: before.Name}})
		d.Kind = Removed
		return d, err
	}
	d, err := a.compareContents(before, after)
	if err != nil || d.DefaultChannel == nil && d.Deprecation == nil && len(d.Channels)+len(d.Rewritten)+len(d.Deprecations)+len(d.Lifecycles) == 0 {
		return nil, err
	}
	return d, nil
}

func (a *allowance) compareContents(before, after *fbc.Package) (*Package, error) {
	d := &Package{
		Name: after.Name, Kind: Changed, DefaultChannel: access.Changed(before.DefaultChannel, after.DefaultChannel),
		Deprecation: access.Changed(before.Deprecation(declcfg.SchemaPackage, ""), after.Deprecation(declcfg.SchemaPackage, "")),
	}
	for _, name := range union(channelNames(before), channelNames(after)) {
		c, err := a.compareChannel(before, after, name)
		if err != nil {
			return d, err
		}
		if c != nil {
			d.Channels = append(d.Channels, *c)
		}
	}
	for _, b := range after.Bundles {
		was := before.FindBundle(b.Name)
		if was == nil {
			continue
		}
		equal, err := equal(was.Span, b.Span)
		if err != nil {
			return d, err
		}
		if !equal {
			d.Rewritten = append(d.Rewritten, b.Name)
		}
		if c := access.Changed(before.Deprecation(declcfg.SchemaBundle, b.Name), after.Deprecation(declcfg.SchemaBundle, b.Name)); c != nil {
			if d.Deprecations == nil {
				d.Deprecations = map[string]*Change{}
			}
			d.Deprecations[b.Name] = c
		}
	}
	slices.Sort(d.Rewritten)
	was, err := lifecycles(before)
	if err != nil {
		return d, err
	}
	is, err := lifecycles(after)
	d.Lifecycles = access.Changes(was, is)
	return d, err
}

// lifecycles returns the phases and the platforms of the versions of a package, by version.
func lifecycles(p *fbc.Package) (map[string]string, error) {
	all := map[string]string{}
	of, err := p.Lifecycle()
	if err != nil || of == nil {
		return all, err
	}
	for _, v := range of.Versions {
		var parts []string
		for _, phase := range v.Phases {
			parts = append(parts, fmt.Sprintf("%s %s to %s", phase.Name, phase.Start, phase.End))
		}
		for _, on := range v.Platforms {
			parts = append(parts, "on "+on.Name+" "+strings.Join(on.Versions, ", "))
		}
		all[v.Name] = strings.Join(parts, "; ")
	}
	return all, nil
}

func channelNames(p *fbc.Package) (names []string) {
	for _, c := range p.Channels {
		names = append(names, c.Name)
	}
	return names
}

// sortedKeys returns the keys of a map in order.
func sortedKeys(m map[string]*Change) []string { return slices.Sorted(maps.Keys(m)) }

// union returns the elements of two lists, sorted and without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// without returns the elements of a list that are not in another one, sorted.
func without(list, other []string) []string {
	leave := map[string]bool{}
	for _, s := range other {
		leave[s] = true
	}
	return slices.DeleteFunc(slices.Sorted(slices.Values(list)), func(s string) bool { return leave[s] })
}

// equal reports whether the documents at two spans are equal, except for formatting.
func equal(a, b document.Span) (bool, error) {
	first, err := document.Load(a)
	if err != nil {
		return false, err
	}
	second, err := document.Load(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(rawjson.Canonical(first.Content), rawjson.Canonical(second.Content)), nil
}

// compareChannel returns the difference of a channel, or nil if there is none. One of the packages may lack the channel.
func (a *allowance) compareChannel(before, after *fbc.Package, name string) (*Channel, error) {
	was, is := before.FindChannel(name), after.FindChannel(name)
	d := &Channel{Name: name, Kind: Changed,
		Deprecation: access.Changed(before.Deprecation(declcfg.SchemaChannel, name), after.Deprecation(declcfg.SchemaChannel, name))}
	old, now := graph(before, was), graph(after, is)
	d.Head = access.Changed(headOf(old), headOf(now))
	d.Added, d.Removed = without(entryNames(now), entryNames(old)), without(entryNames(old), entryNames(now))
	d.Lost = lost(old, now)
	switch {
	case was == nil:
		d.Kind, d.Added = Added, nil
	case is == nil:
		d.Kind, d.Removed = Removed, nil
	case d.Head != nil:
		var err error
		was, is := before.FindBundle(d.Head.Before), after.FindBundle(d.Head.After)
		if was == nil || is == nil { // a channel has several heads, or one without a bundle
			return d, nil
		}
		updates, _ := now.Path(old.Heads[0].Version())
		if !a.admits(after, was, is, updates) {
			d.Content = &access.Content{Unknown: tooMany}
			return d, nil
		}
		if d.Content, err = requests.Compare(was, is); err != nil {
			return nil, err
		}
		d.RemovedAPIs = removedAPIs(after, updates, was)
		a.text -= sizeOf(d)
	case d.Deprecation == nil && len(d.Added)+len(d.Removed)+len(d.Lost) == 0:
		return nil, nil
	}
	return d, nil
}

// removedAPIs returns the versions of APIs that updates from an old head to the new head remove. from is the bundle of the old head.
func removedAPIs(p *fbc.Package, updates []upgrade.Update, from *fbc.Bundle) (all []string) {
	for _, u := range updates {
		to := p.FindBundle(u.Entry.Name)
		for _, api := range fbc.RemovedAPIs(from, to) {
			all = append(all, fmt.Sprintf("%s %s/%s", api.Kind, api.Group, api.Version))
		}
		from = to
	}
	return all
}

func graph(p *fbc.Package, c *fbc.Channel) *upgrade.Graph {
	if c == nil {
		return &upgrade.Graph{}
	}
	return upgrade.Of(p, c)
}

func headOf(g *upgrade.Graph) string {
	var names []string
	for _, head := range g.Heads { // a valid channel has one
		names = append(names, head.Name)
	}
	return strings.Join(names, ", ")
}

func entryNames(g *upgrade.Graph) (names []string) {
	for _, e := range g.Entries {
		names = append(names, e.Name)
	}
	return names
}

// lost returns the entries from which updates no longer lead to the head of a channel.
func lost(old, now *upgrade.Graph) (names []string) {
	stranded := map[*upgrade.Entry]bool{}
	for _, e := range old.Stranded() {
		stranded[e] = true
	}
	for _, e := range old.Entries {
		if !now.Arrives(e.Version()) && !stranded[e] {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return names
}
