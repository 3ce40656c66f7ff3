package graph

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/berth-csi/berth/catalog/upgrade"
)

// page has two holes, {{title}} and {{data}}. They are filled without html/template: a program that
// links that keeps every method of every type, and is a third larger.
//
//go:embed page.html
var page string

// shown is a package in the page.
type shown struct {
	Name       string     `json:"name"`
	Deprecated string     `json:"deprecated,omitempty"`
	Drawing    string     `json:"drawing"`
	Versions   []*version `json:"versions"`
	Links      []link     `json:"links"`
}

// link is an edge in the page.
type link struct {
	Channel string       `json:"channel"`
	From    string       `json:"from"`
	To      string       `json:"to"`
	Kind    upgrade.Edge `json:"kind"`
}

// WritePage writes packages as one HTML page that loads nothing else. It fails if a bundle cannot be
// read.
func WritePage(w io.Writer, packages []*Package) error {
	t := &texts{index: map[string]int{}}
	var data struct {
		Title    string   `json:"title"`
		Packages []*shown `json:"packages"`
		Texts    []string `json:"texts"`
	}
	data.Title = fmt.Sprintf("Updates of %d packages", len(packages))
	if len(packages) == 1 {
		data.Title = "Updates of " + packages[0].Name
	}
	for _, p := range packages {
		s := &shown{Name: p.Name, Deprecated: p.Deprecated, Drawing: p.SVG(), Versions: []*version{}, Links: []link{}} // null would be no list
		for _, b := range p.source.Bundles {
			v, err := t.describe(p.source, b)
			if err != nil {
				return err
			}
			s.Versions = append(s.Versions, v)
		}
		for _, c := range p.Channels {
			for _, e := range c.Edges {
				s.Links = append(s.Links, link{c.Name, e.From.Name, e.To.Name, e.Kind})
			}
		}
		data.Packages = append(data.Packages, s)
	}
	data.Texts = t.all
	encoded, err := json.Marshal(data) // which leaves nothing that could end the script
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer("{{title}}", html.EscapeString(data.Title), "{{data}}", string(encoded)).WriteString(w, page)
	return err
}
