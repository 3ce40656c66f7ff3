// Package list lists the packages, channels and bundles of a catalog, for people and for programs.
package list

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Schema is the name and version of the JSON of lists. It changes when a field does.
const Schema = "berth.catalog-list.v1"

// Package is a line of a list of packages.
type Package struct {
	Name           string `json:"name"`
	DisplayName    string `json:"displayName"`
	DefaultChannel string `json:"defaultChannel"`
	// Version is that of the default channel's head.
	Version    string `json:"version"`
	Channels   int    `json:"channels"`
	Bundles    int    `json:"bundles"`
	Deprecated string `json:"deprecated,omitempty"`
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
var lists = map[string]func([]*fbc.Package) ([]row, error){
	"packages": packages,
	"channels": channels,
	"bundles":  bundles,
}

// Kinds are the kinds of lists.
func Kinds() []string { return slices.Sorted(maps.Keys(lists)) }

// Formats are the formats of Write: a table, one with all that is known, or JSON.
var Formats = []string{"text", "wide", "json"}

// Write writes a list of a valid catalog, or of one package of it if only is not empty. The table in format text is not wider
// than a number of columns, unless that is 0.
func Write(w io.Writer, format, kind string, c *fbc.Catalog, only string, columns int) error {
	of := c.Packages
	if only != "" {
		p, err := c.Named(only)
		if err != nil {
			return err
		}
		of = []*fbc.Package{p}
	}
	rows, err := lists[kind](of)
	if err != nil {
		return err
	}
	if format == "json" {
		return escape.JSON(w, Document{Schema, kind, rows})
	}
	table := tableOf(rows, format == "wide")
	if format == "text" && columns > 0 {
		fit(table, columns)
	}
	aligned := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, line := range table {
		fmt.Fprintln(aligned, strings.Join(line, "\t"))
	}
	return aligned.Flush()
}

// tableOf returns the lines of a table, beginning with its header.
func tableOf(rows []row, wide bool) (table [][]string) {
	for _, r := range rows {
		var header, line []string
		for _, c := range r.cells() {
			switch {
			case c.wide && !wide:
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
}

// cell is a cell of a table.
type cell struct {
	title, text string
	// whole is what a wide table has instead of the text, unless it is empty.
	whole string
	// wide says that only a wide table has the column.
	wide bool
}

func (p Package) cells() []cell {
	return []cell{{title: "PACKAGE", text: p.Name}, {title: "NAME", text: dash(p.DisplayName)}, {title: "DEFAULT CHANNEL", text: p.DefaultChannel},
		{title: "VERSION", text: p.Version}, {title: "CHANNELS", text: strconv.Itoa(p.Channels)}, {title: "BUNDLES", text: strconv.Itoa(p.Bundles)}, deprecated(p.Deprecated)}
}

func (c Channel) cells() []cell {
	return []cell{{title: "PACKAGE", text: c.Package}, {title: "CHANNEL", text: c.Name}, {title: "DEFAULT", text: yes(c.Default)}, {title: "HEAD", text: c.Head},
		{title: "ENTRIES", text: strconv.Itoa(c.Entries)}, deprecated(c.Deprecated)}
}

func (b Bundle) cells() []cell {
	return []cell{{title: "PACKAGE", text: b.Package}, {title: "CHANNEL", text: b.Channel}, {title: "BUNDLE", text: b.Name}, {title: "VERSION", text: b.Version},
		{title: "REPLACES", text: dash(b.Replaces)}, {title: "SKIPS", text: dash(strings.Join(b.Skips, ","))}, {title: "SKIP RANGE", text: dash(b.SkipRange)},
		{title: "IMAGE", text: dash(b.Image), wide: true}, deprecated(b.Deprecated)}
}

// deprecated returns the cell of what may be deprecated. A wide table has the message.
func deprecated(message string) cell {
	return cell{title: "DEPRECATED", text: yes(message != ""), whole: message}
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

func packages(of []*fbc.Package) ([]row, error) {
	rows := []row{}
	for _, p := range of {
		head := p.FindBundle(upgrade.Of(p, p.FindChannel(p.DefaultChannel)).Heads[0].Name)
		details, err := head.Details()
		if err != nil {
			return nil, err
		}
		line := Package{Name: p.Name, DefaultChannel: p.DefaultChannel, Version: head.Number().String(), Channels: len(p.Channels), Bundles: len(p.Bundles),
			Deprecated: p.Deprecation(declcfg.SchemaPackage, "")}
		if details.CSV != nil {
			line.DisplayName = details.CSV.Spec.DisplayName
		}
		rows = append(rows, line)
	}
	return rows, nil
}

func channels(of []*fbc.Package) ([]row, error) {
	rows := []row{}
	for _, p := range of {
		for _, c := range sorted(p) {
			rows = append(rows, Channel{Package: p.Name, Name: c.Name, Default: c.Name == p.DefaultChannel, Head: upgrade.Of(p, c).Heads[0].Name,
				Entries: len(c.Entries), Deprecated: p.Deprecation(declcfg.SchemaChannel, c.Name)})
		}
	}
	return rows, nil
}

// sorted returns the channels of a package by name.
func sorted(p *fbc.Package) []*fbc.Channel {
	return slices.SortedFunc(slices.Values(p.Channels), func(a, b *fbc.Channel) int { return strings.Compare(a.Name, b.Name) })
}

// bundles lists the entries of channels, from the latest version to the first.
func bundles(of []*fbc.Package) ([]row, error) {
	rows := []row{}
	for _, p := range of {
		for _, c := range sorted(p) {
			entries := slices.SortedStableFunc(slices.Values(upgrade.Of(p, c).Entries), func(a, b *upgrade.Entry) int { return b.Number.Compare(*a.Number) })
			for _, e := range entries {
				rows = append(rows, Bundle{Package: p.Name, Channel: c.Name, Name: e.Name, Version: e.Number.String(), Replaces: e.Replaces, Skips: e.Skips,
					SkipRange: e.SkipRange, Image: p.FindBundle(e.Name).Image, Deprecated: p.Deprecation(declcfg.SchemaBundle, e.Name)})
			}
		}
	}
	return rows, nil
}
