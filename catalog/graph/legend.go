package graph

import (
	"fmt"
	"strings"

	"github.com/berth-csi/berth/olm/upgrade"
)

// neverTaken explains edges that are drawn as dashes in grey.
const neverTaken = "OLM never takes this edge"

// explanation says what a style of the drawing means.
type explanation struct {
	sample string // SVG in its own coordinates, sampleWidth pixels wide
	text   string
}

func (e explanation) width() int { return sampleWidth + textGap + characterWidth*len(e.text) }

// Sizes of a legend, in pixels.
const (
	sampleWidth    = 36
	textGap        = 8
	legendRow      = 22
	legendGap      = 20  // between explanations
	legendWidth    = 376 // fits on a telephone
	characterWidth = 7   // of the widest fonts, on average
)

// explanations explains the styles in the drawing of a package, edges first.
func (p *Package) explanations() (all []explanation) {
	edges, states := map[string]bool{}, map[string]bool{}
	for _, c := range p.Channels {
		for _, e := range c.Edges {
			_, marker, _ := e.style()
			edges[marker] = true
		}
		for _, n := range c.Nodes {
			for _, state := range n.states() {
				states[state] = true
			}
		}
		if c.Broken != "" {
			states["broken"] = true
		}
	}
	for _, class := range []string{string(upgrade.Replaces), string(upgrade.Skips), string(upgrade.SkipRange), "never"} {
		text := class
		if class == "never" {
			text = neverTaken
		}
		if edges[class] {
			all = append(all, explanation{fmt.Sprintf(`<path class="edge %s" d="M0 0h%d" marker-end="url(#to-%[1]s)"/>`, class, sampleWidth), text})
		}
	}
	for _, state := range []struct{ class, text string }{
		{"head", "head"}, {"deprecated", "deprecated"}, {"outside", "not in the channel"}, {"stranded", "stranded: no update leads to the head"}, {"broken", "OLM resolves nothing from the channel"},
	} {
		if states[state.class] {
			box := "box"
			if state.class == "broken" {
				box = "band"
			}
			all = append(all, explanation{fmt.Sprintf(`<g class="%s"><rect class="%s" x="2" y="-7" width="%d" height="14" rx="4"/></g>`, state.class, box, sampleWidth-4), state.text})
		}
	}
	return all
}

// legend returns the legend of a drawing, to be placed above it, with its width and height.
func (p *Package) legend() (string, int, int) {
	all := p.explanations()
	if len(all) == 0 {
		return "", 0, 0
	}
	width := 0
	type place struct{ x, row int }
	var places []place
	at := place{x: margin}
	for _, e := range all {
		if at.x > margin && at.x+e.width() > legendWidth-margin {
			at = place{margin, at.row + 1}
		}
		places = append(places, at)
		width = max(width, at.x+e.width()+margin)
		at.x += e.width() + legendGap
	}
	height := margin/2 + legendRow*(at.row+1)
	var text strings.Builder
	text.WriteString(`<g class="u">` + "\n")
	for i, e := range all {
		fmt.Fprintf(&text, `<g transform="translate(%d %d)">%s<text class="legend" x="%d" y="4">%s</text></g>`+"\n",
			places[i].x, margin/2-height+legendRow*places[i].row+legendRow/2, e.sample, sampleWidth+textGap, e.text)
	}
	text.WriteString("</g>\n")
	return text.String(), width, height
}
