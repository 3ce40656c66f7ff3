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

// Package is a line of a list of packages. Programs read the JSON, so its field names must not change.
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

// lists are the functions that make the lists, by kind.
var lists = map[string]func([]*fbc.Package) ([]row, error){
	"packages": packages,
	"channels": channels,
	"bundles":  bundles,
}

// Kinds are the kinds of lists.
func Kinds() []string { return slices.Sorted(maps.Keys(lists)) }

// Formats are the formats of Write: a table, or a JSON array.
var Formats = []string{"text", "json"}

// Write writes a list of a valid catalog, or of one package of it if only is not empty.
func Write(w io.Writer, format, kind string, c *fbc.Catalog, only string) error {
	of := c.Packages
	if only != "" {
		p := c.Find(only)
		if p == nil {
			return fmt.Errorf("%s has no package %q; `berth catalog list packages %s` lists its packages", c.Dir, only, c.Dir)
		}
		of = []*fbc.Package{p}
	}
	rows, err := lists[kind](of)
	if err != nil {
		return err
	}
	if format == "json" {
		return escape.JSON(w, rows)
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for i, r := range rows {
		if i == 0 {
			fmt.Fprintln(table, strings.Join(r.header(), "\t"))
		}
		cells := r.cells()
		for at, cell := range cells {
			cells[at] = escape.Cell(cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// row is a line of a table.
type row interface {
	header() []string
	cells() []string
}

func (Package) header() []string {
	return []string{"PACKAGE", "NAME", "DEFAULT CHANNEL", "VERSION", "CHANNELS", "BUNDLES", "DEPRECATED"}
}

func (p Package) cells() []string {
	return []string{p.Name, dash(p.DisplayName), p.DefaultChannel, p.Version, strconv.Itoa(p.Channels), strconv.Itoa(p.Bundles), yes(p.Deprecated != "")}
}

func (Channel) header() []string {
	return []string{"PACKAGE", "CHANNEL", "DEFAULT", "HEAD", "ENTRIES", "DEPRECATED"}
}

func (c Channel) cells() []string {
	return []string{c.Package, c.Name, yes(c.Default), c.Head, strconv.Itoa(c.Entries), yes(c.Deprecated != "")}
}

func (Bundle) header() []string {
	return []string{"PACKAGE", "CHANNEL", "BUNDLE", "VERSION", "REPLACES", "SKIPS", "SKIP RANGE", "DEPRECATED"}
}

func (b Bundle) cells() []string {
	return []string{b.Package, b.Channel, b.Name, b.Version, dash(b.Replaces), dash(strings.Join(b.Skips, ",")), dash(b.SkipRange), yes(b.Deprecated != "")}
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
