package graph

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// page has placeholders, such as {{title}} and {{data}}. They are not filled in by html/template, because a program that links that
// package keeps every method of every type, and is a third larger.
//
//go:embed page.html
var page string

// Page is an HTML page: an overview of packages, and the drawing of each. With one package it has no overview.
type Page struct {
	Packages []*Package
	// Undrawn are the names of packages that are too faulty to draw.
	Undrawn []string
	// Faults are the errors found in these packages, and in documents that belong to no package.
	Faults []*findings.Finding
	// OLMv1 holds the refusals of OLM v1 by package, if they were checked. The page then has a switch between OLM v0 and v1.
	OLMv1 map[string]*V1
}

// V1 holds the refusals of OLM v1 in a package.
type V1 struct {
	// Refused holds the reasons why OLM v1 refuses a bundle, by the bundle's name.
	Refused map[string][]string
	// Updates are the updates that OLM v1 refuses.
	Updates []V1Update
}

// V1Update is an update that OLM v1 refuses.
type V1Update struct{ From, To, Why string }

// Write writes the page, which loads nothing else. It fails if a bundle cannot be read.
func (p *Page) Write(w io.Writer) error {
	t := &texts{index: map[prose]int{}}
	faults := map[string][]*findings.Finding{}
	for _, f := range p.Faults {
		faults[f.Package] = append(faults[f.Package], f)
	}
	data := struct {
		Packages []*shown  `json:"packages"`
		Texts    []prose   `json:"texts"`
		Kinds    [3]string `json:"kinds"`
		faulty
	}{Kinds: kinds, faulty: newFaulty(faults[""])}
	for _, drawn := range p.Packages {
		s, err := newShown(drawn, t)
		if err != nil {
			return err
		}
		s.faulty = newFaulty(faults[drawn.Name])
		if v1, checked := p.OLMv1[drawn.Name]; checked {
			s.V1 = newShownV1(v1)
		}
		data.Packages = append(data.Packages, s)
	}
	for _, name := range p.Undrawn {
		data.Packages = append(data.Packages, &shown{Name: printable(name), Versions: []*version{}, faulty: newFaulty(faults[name])})
	}
	slices.SortStableFunc(data.Packages, func(a, b *shown) int { return strings.Compare(string(a.Name), string(b.Name)) })
	data.Texts = t.all
	encoded, err := json.Marshal(data) // JSON escapes <, so that no text can end the element that it is in
	if err != nil {
		return err
	}
	title := fmt.Sprintf("Updates of %d packages", len(data.Packages))
	if len(data.Packages) == 1 {
		title = "Updates of " + string(data.Packages[0].Name)
	}
	_, err = strings.NewReplacer("{{title}}", escape.HTML(title), "{{script}}", scriptHash(), "{{style}}", style, "{{arrows}}", arrows, "{{data}}", string(encoded)).WriteString(w, page)
	return err
}

// scriptHash returns the hash of the page's script. A browser executes no other script in the page.
func scriptHash() string {
	_, script, _ := strings.Cut(page, "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	hash := sha256.Sum256([]byte(script))
	return "sha256-" + base64.StdEncoding.EncodeToString(hash[:])
}

// shown is a package in the page.
type shown struct {
	Name       printable `json:"name"`
	Deprecated printable `json:"deprecated,omitempty"`
	// Drawing is empty if the package cannot be drawn.
	Drawing  string     `json:"drawing,omitempty"`
	Channels []column   `json:"channels,omitempty"` // the newest first
	Versions []*version `json:"versions"`
	// Outside are the names of drawn versions that the catalog does not have. Links count them after Versions.
	Outside []printable `json:"outside,omitempty"`
	Links   []link      `json:"links,omitempty"`
	V1      *shownV1    `json:"v1,omitempty"`
	faulty
}

// shownV1 holds the refusals of OLM v1 for the page: versions and updates, each with the reason.
type shownV1 struct {
	Refused []refused      `json:"refused"`
	Updates [][3]printable `json:"updates"` // from, to, and why
}

// refused is a version that OLM v1 refuses. Its name is a field, because it would not be escaped as the key of a map.
type refused struct {
	Name printable   `json:"name"`
	Why  []printable `json:"why"`
}

func newShownV1(v1 *V1) *shownV1 {
	s := &shownV1{Refused: []refused{}, Updates: [][3]printable{}}
	for _, name := range slices.Sorted(maps.Keys(v1.Refused)) {
		r := refused{Name: printable(name)}
		for _, text := range v1.Refused[name] {
			r.Why = append(r.Why, printable(escape.Short(text, faultLength)))
		}
		s.Refused = append(s.Refused, r)
	}
	for _, u := range v1.Updates {
		s.Updates = append(s.Updates, [3]printable{printable(u.From), printable(u.To), printable(escape.Short(u.Why, faultLength))})
	}
	return s
}

// column is a channel in the page.
type column struct {
	Name       printable `json:"name"`
	Default    bool      `json:"default,omitempty"`
	Deprecated bool      `json:"deprecated,omitempty"`
	Broken     string    `json:"broken,omitempty"`
	Head       int       `json:"head"` // its index among the drawn versions, or -1 if the channel is broken
	Stranded   []int     `json:"stranded,omitempty"`
}

// link is an edge in the page: the channel, the versions that it leads from and to, its kind, and 1 if OLM never takes it. Indices
// keep the page small: a long name is not repeated for each edge.
type link [5]int

// kinds are the kinds of links.
var kinds = [3]string{string(upgrade.Replaces), string(upgrade.Skips), string(upgrade.SkipRange)}

func newShown(p *Package, t *texts) (*shown, error) {
	versions, err := t.describeAll(p)
	if err != nil {
		return nil, err
	}
	s := &shown{Name: printable(p.Name), Deprecated: printable(p.Deprecated), Drawing: p.draw(""), Versions: versions}
	indices := map[string]int{}
	for i, v := range versions {
		indices[string(v.Name)] = i
	}
	index := func(n *Node) int {
		i, known := indices[n.Name]
		if !known {
			i = len(versions) + len(s.Outside)
			indices[n.Name] = i
			s.Outside = append(s.Outside, printable(n.Name))
		}
		return i
	}
	for at, c := range slices.SortedStableFunc(slices.Values(p.Channels), newestFirst) {
		in := column{Name: printable(c.Name), Default: c.Default, Deprecated: c.Deprecated != "", Broken: c.Broken, Head: -1}
		for _, n := range c.Nodes {
			i := index(n)
			if n.Head && c.Broken == "" {
				in.Head = i
			}
			if n.Stranded {
				in.Stranded = append(in.Stranded, i)
			}
		}
		for _, e := range c.Edges {
			l := link{at, index(e.From), index(e.To), slices.Index(kinds[:], string(e.Kind))}
			if e.To.Passed {
				l[4] = 1
			}
			s.Links = append(s.Links, l)
		}
		s.Channels = append(s.Channels, in)
	}
	return s, nil
}

// faulty holds the faults of a package for the page.
type faulty struct {
	// Rules are the violated rules, each with the number of faults if there are several.
	Rules  []string    `json:"rules,omitempty"`
	Faults []printable `json:"faults,omitempty"`
	More   int         `json:"more,omitempty"` // the number of faults that are not in Faults
}

// Limits of the faults that the page shows of a package: `berth catalog validate` shows all.
const (
	faultLimit  = 20
	faultLength = 600
)

func newFaulty(found []*findings.Finding) (f faulty) {
	counts := map[string]int{}
	for i, fault := range found {
		if i < faultLimit {
			f.Faults = append(f.Faults, printable(escape.Short(fmt.Sprintf("%s (%s)", fault.Error(), fault.Rule), faultLength)))
		}
		counts[fault.Rule]++
	}
	f.More = len(found) - len(f.Faults)
	for _, fault := range found {
		switch count := counts[fault.Rule]; {
		case count == 1:
			f.Rules = append(f.Rules, fault.Rule)
		case count > 1:
			f.Rules = append(f.Rules, fmt.Sprintf("%s (%d)", fault.Rule, count))
		}
		counts[fault.Rule] = 0
	}
	return f
}

// printable is text from a catalog. The page and the drawing show its invisible characters as escapes, so that a version has the
// same name in both.
type printable string

func (p printable) MarshalText() ([]byte, error) { return []byte(escape.Visible(string(p))), nil }

// prose is like printable, for text of several lines.
type prose string

func (p prose) MarshalText() ([]byte, error) { return []byte(escape.Prose(string(p))), nil }
