// Package list lists the packages, channels and bundles of a catalog, for people and for programs.
package list

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Schema is the name and version of the JSON of lists. It changes when a field changes.
const Schema = "berth.catalog-list.v1"

// Package is a line of a list of packages.
type Package struct {
	Name           string `json:"name"`
	DisplayName    string `json:"displayName"`
	DefaultChannel string `json:"defaultChannel"`
	// Version is the version of the default channel's head.
	Version    string `json:"version"`
	Channels   int    `json:"channels"`
	Bundles    int    `json:"bundles"`
	Deprecated string `json:"deprecated,omitempty"`
	// Support says how that version is supported today, if the catalog has its lifecycle.
	Support *lifecycle.Support `json:"support,omitempty"`

	head *semver.Version
}

// Channel is a line of a list of channels.
type Channel struct {
	Package string `json:"package"`
	Name    string `json:"name"`
	Default bool   `json:"default"`
	// Head is the channel head.
	Head       string `json:"head"`
	Entries    int    `json:"entries"`
	Deprecated string `json:"deprecated,omitempty"`

	head *semver.Version
}

// Bundle is a line of a list of bundles: an entry of a channel.
type Bundle struct {
	Package    string   `json:"package"`
	Channel    string   `json:"channel"`
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Replaces   string   `json:"replaces,omitempty"`
	Skips      []string `json:"skips,omitempty"`
	SkipRange  string   `json:"skipRange,omitempty"`
	Image      string   `json:"image,omitempty"`
	Deprecated string   `json:"deprecated,omitempty"`
	// Support says how the version is supported today, if the catalog has its lifecycle.
	Support *lifecycle.Support `json:"support,omitempty"`

	number *semver.Version
}

// Document is a list in JSON.
type Document struct {
	Schema string `json:"schema"`
	// Kind is bundles, channels or packages.
	Kind string `json:"kind"`
	// Items are of that kind.
	Items any `json:"items"`
}

// lists are the functions that make the lists, by kind.
var lists = map[string]func([]*fbc.Package, Options) ([]row, error){
	"packages": packages,
	"channels": channels,
	"bundles":  bundles,
}

// Kinds returns the kinds of lists.
func Kinds() []string { return slices.Sorted(maps.Keys(lists)) }

// Formats are the formats of Write: a table, a table with all details, or JSON.
var Formats = []string{"text", "wide", "json"}

// Options select and order the items of a list.
type Options struct {
	// Kind is one of Kinds, and Format one of Formats.
	Kind, Format string
	// Packages are names of packages or patterns, such as "aws-*". By default, all are listed.
	Packages []string
	// Channel is the name of a channel or a pattern; "" means all. A list of packages has the packages with such a channel.
	Channel string
	// Sort is one of Orders, or "" for the order of the catalog's packages and channels.
	Sort string
	// Today is the day for which support is shown.
	Today lifecycle.Date
	// Columns is the maximum width of the table in format text, or 0 for any width.
	Columns int
}

// orders are the orders of a list, by their names.
var orders = map[string]func(a, b row) int{
	"name":    func(a, b row) int { return strings.Compare(a.key().name, b.key().name) },
	"version": func(a, b row) int { return latest(a.key().version, b.key().version) },
}

// Orders returns the values of Options.Sort.
func Orders() []string { return slices.Sorted(maps.Keys(orders)) }

// Write writes a list of a catalog. It also lists faulty packages: several heads of a channel are separated by commas.
func Write(w io.Writer, c *fbc.Catalog, o Options) error {
	of, err := o.chosen(c)
	if err != nil {
		return err
	}
	rows, err := lists[o.Kind](of, o)
	if err != nil {
		return err
	}
	if o.Sort != "" {
		slices.SortStableFunc(rows, orders[o.Sort])
	}
	if o.Format == "json" {
		return writeJSON(w, o.Kind, rows)
	}
	table := tableOf(rows, o.Format == "wide")
	if o.Format == "text" && o.Columns > 0 {
		table = fit(table, o.Columns)
	}
	buffered := bufio.NewWriter(w) // a tabwriter writes each cell by itself
	aligned := tabwriter.NewWriter(buffered, 0, 0, gap, ' ', 0)
	for _, line := range table {
		fmt.Fprintln(aligned, strings.Join(line, "\t"))
	}
	return cmp.Or(aligned.Flush(), buffered.Flush())
}

// writeJSON writes a Document row by row: a catalog can have a name of megabytes, which is in each of thousands of rows.
func writeJSON(w io.Writer, kind string, rows []row) error {
	var frame bytes.Buffer
	if err := escape.JSON(&frame, Document{Schema, kind, []row{}}); err != nil {
		return err
	}
	before, after, _ := strings.Cut(frame.String(), "[]")
	buffered := bufio.NewWriter(w) // Flush returns its first error
	buffered.WriteString(before + "[")
	separator := ""
	for _, r := range rows {
		var text bytes.Buffer
		if err := escape.JSON(&text, r); err != nil {
			return err
		}
		buffered.WriteString(separator + "\n    " + strings.ReplaceAll(strings.TrimSpace(text.String()), "\n", "\n    "))
		separator = ","
	}
	if len(rows) > 0 {
		buffered.WriteString("\n  ")
	}
	buffered.WriteString("]" + after)
	return buffered.Flush()
}

// chosen returns the packages to list.
func (o Options) chosen(c *fbc.Catalog) (of []*fbc.Package, err error) {
	wanted := map[string]bool{}
	for _, pattern := range o.Packages {
		if !IsPattern(pattern) {
			p, err := c.Named(pattern)
			if err != nil {
				return nil, err
			}
			wanted[p.Name] = true
			continue
		}
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("%q is not a pattern: %w", pattern, err)
		}
		found := false
		for _, p := range c.Packages {
			if matches(pattern, p.Name) {
				wanted[p.Name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s has no package that matches %q; `%s` lists its packages", c.Dir, pattern, escape.Command("berth catalog list packages %s", c.Dir))
		}
	}
	for _, p := range c.Packages {
		if (len(o.Packages) == 0 || wanted[p.Name]) && slices.ContainsFunc(p.Channels, o.inChannel) {
			of = append(of, p)
		}
	}
	if len(of) == 0 && o.Channel != "" {
		return nil, fmt.Errorf("no package has a channel %q; `%s` lists the channels%s", o.Channel, escape.Command("berth catalog list channels %s", c.Dir), nearest.Hint(o.Channel, channelsOf(c)))
	}
	return of, nil
}

// IsPattern reports whether a text is a pattern that can match several names.
func IsPattern(text string) bool { return strings.ContainsAny(text, "*?[") }

func (o Options) inChannel(c *fbc.Channel) bool { return o.Channel == "" || matches(o.Channel, c.Name) }

func matches(pattern, name string) bool {
	is, err := path.Match(pattern, name)
	return is && err == nil || pattern == name
}

// tableOf returns the lines of a table, beginning with its header.
func tableOf(rows []row, wide bool) (table [][]string) {
	filled := map[string]bool{}
	for _, r := range rows {
		for _, c := range r.cells() {
			filled[c.title] = filled[c.title] || c.text != "-"
		}
	}
	for _, r := range rows {
		var header, line []string
		for _, c := range r.cells() {
			switch {
			case c.wide && !wide, c.rare && !filled[c.title]:
				continue
			case c.whole != "" && wide:
				c.text = c.whole
			}
			header, line = append(header, c.title), append(line, escape.Cell(c.text))
		}
		if table == nil {
			table = append(table, header)
		}
		table = append(table, line)
	}
	return table
}

// row is a line of a table.
type row interface {
	cells() []cell
	key() key
}

// key is the sort key of a line.
type key struct {
	name    string
	version *semver.Version
}

// cell is a cell of a table.
type cell struct {
	title, text string
	// whole replaces the text in a wide table, unless it is empty.
	whole string
	// wide says that only a wide table has the column.
	wide bool
	// rare says that the column is left out if it is empty in every line.
	rare bool
}

func (p Package) cells() []cell {
	return []cell{{title: "PACKAGE", text: p.Name}, {title: "NAME", text: dash(p.DisplayName)}, {title: "DEFAULT CHANNEL", text: dash(p.DefaultChannel)},
		{title: "VERSION", text: dash(p.Version)}, {title: "CHANNELS", text: strconv.Itoa(p.Channels)}, {title: "BUNDLES", text: strconv.Itoa(p.Bundles)}, supported(p.Support), deprecated(p.Deprecated)}
}

func (p Package) key() key { return key{p.Name, p.head} }
func (c Channel) key() key { return key{c.Name, c.head} }
func (b Bundle) key() key  { return key{b.Name, b.number} }

func (c Channel) cells() []cell {
	return []cell{{title: "PACKAGE", text: c.Package}, {title: "CHANNEL", text: c.Name}, {title: "DEFAULT", text: yes(c.Default)}, {title: "HEAD", text: dash(c.Head)},
		{title: "ENTRIES", text: strconv.Itoa(c.Entries)}, deprecated(c.Deprecated)}
}

func (b Bundle) cells() []cell {
	return []cell{{title: "PACKAGE", text: b.Package}, {title: "CHANNEL", text: b.Channel}, {title: "BUNDLE", text: b.Name}, {title: "VERSION", text: dash(b.Version)},
		{title: "REPLACES", text: dash(b.Replaces)}, {title: "SKIPS", text: dash(strings.Join(b.Skips, ","))}, {title: "SKIP RANGE", text: dash(b.SkipRange)},
		{title: "IMAGE", text: dash(b.Image), wide: true}, supported(b.Support), deprecated(b.Deprecated)}
}

// deprecated returns a cell that says whether something is deprecated. A wide table shows the message.
func deprecated(message string) cell {
	return cell{title: "DEPRECATED", text: yes(message != ""), whole: message}
}

// supported returns a cell about support; s is nil without a lifecycle.
func supported(s *lifecycle.Support) cell {
	return cell{title: "SUPPORT", text: dash(s.String()), rare: true}
}

// dash returns a dash for an empty cell of a table.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func yes(it bool) string {
	if it {
		return "yes"
	}
	return "-"
}

func packages(of []*fbc.Package, o Options) ([]row, error) {
	rows := []row{}
	for _, p := range of {
		all, err := p.Lifecycle()
		if err != nil {
			return nil, err
		}
		line := Package{Name: p.Name, DefaultChannel: p.DefaultChannel, Channels: len(p.Channels), Bundles: len(p.Bundles), Deprecated: p.Deprecation(declcfg.SchemaPackage, "")}
		var versions []string
		for _, head := range heads(p, p.FindChannel(p.DefaultChannel)) {
			versions, line.head = append(versions, versionOf(head)), head.Number
			line.Support = all.Find(head.Number).At(o.Today)
			b := p.FindBundle(head.Name)
			if b == nil {
				continue
			}
			details, err := b.Details()
			if err != nil {
				return nil, err
			}
			if details.CSV != nil {
				line.DisplayName = details.CSV.Spec.DisplayName
			}
		}
		line.Version = strings.Join(versions, ", ")
		rows = append(rows, line)
	}
	return rows, nil
}

// heads returns the heads of a channel. A valid channel has one head.
func heads(p *fbc.Package, c *fbc.Channel) []*upgrade.Entry {
	if c == nil {
		return nil
	}
	return upgrade.Of(p, c).Heads
}

// versionOf returns the version of an entry, or nothing if it has no bundle.
func versionOf(e *upgrade.Entry) string {
	if e.Number == nil {
		return ""
	}
	return e.Number.String()
}

func channels(of []*fbc.Package, o Options) ([]row, error) {
	rows := []row{}
	for _, p := range of {
		for _, c := range sorted(p, o.inChannel) {
			var names []string
			var version *semver.Version
			for _, head := range heads(p, c) {
				names, version = append(names, head.Name), head.Number
			}
			rows = append(rows, Channel{head: version, Package: p.Name, Name: c.Name, Default: c.Name == p.DefaultChannel, Head: strings.Join(names, ", "),
				Entries: len(c.Entries), Deprecated: p.Deprecation(declcfg.SchemaChannel, c.Name)})
		}
	}
	return rows, nil
}

// sorted returns the listed channels of a package, by name.
func sorted(p *fbc.Package, in func(*fbc.Channel) bool) []*fbc.Channel {
	channels := slices.SortedFunc(slices.Values(p.Channels), func(a, b *fbc.Channel) int { return strings.Compare(a.Name, b.Name) })
	return slices.DeleteFunc(channels, func(c *fbc.Channel) bool { return !in(c) })
}

// bundles lists the entries of channels, from the latest version to the first.
func bundles(of []*fbc.Package, o Options) ([]row, error) {
	rows := []row{}
	for _, p := range of {
		all, err := p.Lifecycle()
		if err != nil {
			return nil, err
		}
		for _, c := range sorted(p, o.inChannel) {
			for _, e := range slices.SortedStableFunc(slices.Values(upgrade.Of(p, c).Entries), func(a, b *upgrade.Entry) int { return latest(a.Number, b.Number) }) {
				row := Bundle{number: e.Number, Package: p.Name, Channel: c.Name, Name: e.Name, Version: versionOf(e), Replaces: e.Replaces, Skips: e.Skips,
					SkipRange: e.SkipRange, Deprecated: p.Deprecation(declcfg.SchemaBundle, e.Name), Support: all.Find(e.Number).At(o.Today)}
				if b := p.FindBundle(e.Name); b != nil {
					row.Image = b.Image
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

// latest orders versions from the latest to the first. Unknown versions come last.
func latest(a, b *semver.Version) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return fbc.CompareVersions(*b, *a)
}

// channelsOf returns the names of all channels of a catalog, each once.
func channelsOf(c *fbc.Catalog) (names []string) {
	for _, p := range c.Packages {
		for _, channel := range p.Channels {
			if !slices.Contains(names, channel.Name) {
				names = append(names, channel.Name)
			}
		}
	}
	return names
}
