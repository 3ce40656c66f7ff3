package graph

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// page has two placeholders, {{title}} and {{data}}. They are not filled in by html/template, because a program that links
// it keeps every method of every type and is a third larger.
//
//go:embed page.html
var page string

// shown is a package in the page.
type shown struct {
	Name       printable  `json:"name"`
	Deprecated printable  `json:"deprecated,omitempty"`
	Drawing    string     `json:"drawing"`
	Versions   []*version `json:"versions"`
	Links      []link     `json:"links"`
}

// printable is text from a catalog. In the page and in the drawing, invisible characters of it are written as escapes, so
// that a version has the same name in both.
type printable string

func (p printable) MarshalText() ([]byte, error) { return []byte(escape.Visible(string(p))), nil }

// prose is like printable, for text of several lines.
type prose string

func (p prose) MarshalText() ([]byte, error) { return []byte(escape.Prose(string(p))), nil }

// link is an edge in the page.
type link struct {
	Channel printable    `json:"channel"`
	From    printable    `json:"from"`
	To      printable    `json:"to"`
	Kind    upgrade.Edge `json:"kind"`
	Never   bool         `json:"never,omitempty"` // OLM never takes it
}

// WritePage writes packages as one HTML page that loads nothing else. It fails if a bundle cannot be read.
func WritePage(w io.Writer, packages []*Package) error {
	t := &texts{index: map[prose]int{}}
	var data struct {
		Title    printable `json:"title"`
		Packages []*shown  `json:"packages"`
		Texts    []prose   `json:"texts"`
	}
	data.Title = printable(fmt.Sprintf("Updates of %d packages", len(packages)))
	if len(packages) == 1 {
		data.Title = printable("Updates of " + packages[0].Name)
	}
	for _, p := range packages {
		s := &shown{Name: printable(p.Name), Deprecated: printable(p.Deprecated), Drawing: p.draw("", 0), Versions: []*version{}, Links: []link{}} // not null
		for _, b := range p.source.Bundles {
			v, err := t.describe(p.source, b)
			if err != nil {
				return err
			}
			s.Versions = append(s.Versions, v)
		}
		for _, c := range p.Channels {
			for _, e := range c.Edges {
				s.Links = append(s.Links, link{printable(c.Name), printable(e.From.Name), printable(e.To.Name), e.Kind, e.To.Passed})
			}
		}
		data.Packages = append(data.Packages, s)
	}
	data.Texts = t.all
	encoded, err := json.Marshal(data) // JSON escapes <, so that no text can end the script
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer("{{title}}", escape.HTML(string(data.Title)), "{{data}}", string(encoded)).WriteString(w, page)
	return err
}
