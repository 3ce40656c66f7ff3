package graph

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Sizes of a drawing, in pixels.
const (
	margin      = 16
	titleHeight = 30 // of the name of a channel
	noteHeight  = 14 // of each line below it
	rowHeight   = 60
	nodeWidth   = 184
	nodeHeight  = 40
	side        = 44 // beside nodes, for edges around other nodes
	laneWidth   = 9  // of a skipRange
	maxLanes    = 10 // more would hide the rest; the node shows the range, too
)

// The lengths of texts in a drawing and in its tooltips, in characters.
const (
	nameLength  = 30 // the name of a channel
	labelLength = 19 // a version in a node
	rangeLength = 30 // a skipRange in a node
	tipLength   = 300
)

// SVG returns a drawing of a package: a legend, and a column for each channel with its head at the top, and updates as arrows
// from the earlier version. It carries its own style, for light and dark.
func (p *Package) SVG() string { return p.draw("<style>" + style + "</style>\n" + arrows + "\n") }

// draw draws a package. styleAndArrows is empty if the page has them elsewhere.
func (p *Package) draw(styleAndArrows string) string {
	var body strings.Builder
	rows, notes := 0, 1
	for _, c := range p.Channels {
		rows, notes = max(rows, len(c.Nodes)), max(notes, len(c.notes()))
	}
	x, top := margin, margin+titleHeight+noteHeight*notes
	height := top + margin + rowHeight*rows
	for _, c := range p.Channels {
		d := drawing{Builder: &body, channel: c, lanes: lanes(c), top: top}
		d.left = x + side + laneWidth*d.laneCount()
		d.draw(height)
		x = d.left + nodeWidth + side + margin
	}
	legend, width, legendHeight := p.legend()
	width = max(width, x)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 %d %d %d" role="img">
<title>Updates of %s</title>
%s%s%s</svg>
`, width, height+legendHeight, -legendHeight, width, height+legendHeight, escape.HTML(p.Name), styleAndArrows, legend, body.String())
}

// style is the style of the drawing. The page adds styles for selected versions.
const style = `.u{--paper:#fff;--ink:#1f2937;--soft:#5b6472;--line:#8494a7;--band:#f1f5f9;--accent:#0f766e;--warn:#b45309;--bad:#b91c1c}` +
	`@media(prefers-color-scheme:dark){.u{--paper:#111827;--ink:#e5e7eb;--soft:#9ca3af;--line:#64748b;--band:#1e293b;--accent:#2dd4bf;--warn:#fbbf24;--bad:#f87171}}` +
	`.u{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}` +
	`.u .band{fill:var(--band)}.u text{fill:var(--ink);text-anchor:middle}.u .title{font-size:15px;font-weight:600}.u .note{font-size:11px;fill:var(--soft)}` +
	`.u rect.box{fill:var(--paper);stroke:var(--line);stroke-width:1.5}.u .label{font-size:14px;font-weight:500}.u .range{font-size:10px;fill:var(--soft)}` +
	`.u .head rect.box{stroke:var(--accent);stroke-width:3}.u .head .label{font-weight:700}` +
	`.u .deprecated rect.box{stroke:var(--warn)}.u .deprecated .label{fill:var(--warn);text-decoration:line-through}` +
	`.u .stranded rect.box{stroke:var(--bad)}.u .stranded .label{fill:var(--bad)}` +
	`.u .outside rect.box{stroke-dasharray:5 4;fill:none}.u .outside .label{fill:var(--soft)}` +
	`.u path.edge{fill:none;stroke-width:1.75}.u .replaces{stroke:var(--accent)}.u .skips{stroke:var(--warn);stroke-dasharray:6 4}.u .skipRange{stroke:var(--soft);stroke-dasharray:1.5 4;stroke-linecap:round}` +
	`.u .never{stroke:var(--soft);stroke-dasharray:9 5;stroke-width:1.25;stroke-linecap:butt}.u text.legend{text-anchor:start;font-size:12px;fill:var(--soft)}` +
	`.u.broken .band,.u .broken .band{stroke:var(--bad);stroke-width:2}.u .note.wrong{fill:var(--bad)}.u circle{fill:var(--soft)}.u.replaces{fill:var(--accent);stroke:none}.u.skips{fill:var(--warn);stroke:none}.u.skipRange,.u.never{fill:var(--soft);stroke:none}`

// arrows are the heads of edges.
var arrows = "<defs>" + arrow(string(upgrade.Replaces)) + arrow(string(upgrade.Skips)) + arrow(string(upgrade.SkipRange)) + arrow("never") + "</defs>"

func arrow(class string) string {
	return fmt.Sprintf(`<marker id="to-%s" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="u %s" d="M0 0L8 4L0 8z"/></marker>`, class, class)
}

// drawing draws one channel.
type drawing struct {
	*strings.Builder
	channel *Channel
	left    int // of its nodes
	top     int // of its first row
	lanes   []*lane
}

// lane is a line beside nodes, from the versions in a skipRange to the version that has it.
type lane struct {
	to    *Node
	from  []*Node
	place int // 0 is next to the nodes
}

// lanes returns a lane for each skipRange that contains a version of the channel, if a place is free. Lanes that would overlap have
// different places.
func lanes(c *Channel) (all []*lane) {
	var last *lane
	for _, e := range c.Edges { // the edges to a version are next to each other
		if e.Kind != upgrade.SkipRange {
			continue
		}
		if last == nil || last.to != e.To {
			last = &lane{to: e.To}
			all = append(all, last)
		}
		last.from = append(last.from, e.From)
	}
	// The shortest lanes are next to the nodes.
	slices.SortStableFunc(all, func(a, b *lane) int { return a.length() - b.length() })
	var places [maxLanes][]*lane
	return slices.DeleteFunc(all, func(l *lane) bool {
		for place, others := range places {
			if !slices.ContainsFunc(others, func(other *lane) bool { return other.top() <= l.bottom() && l.top() <= other.bottom() }) {
				l.place, places[place] = place, append(others, l)
				return false
			}
		}
		return true
	})
}

func (l *lane) top() int    { return min(l.to.Row, l.from[0].Row) }
func (l *lane) bottom() int { return max(l.to.Row, l.from[len(l.from)-1].Row) }
func (l *lane) length() int { return l.bottom() - l.top() }

func (d *drawing) laneCount() (count int) {
	for _, l := range d.lanes {
		count = max(count, l.place+1)
	}
	return count
}

// middle returns the vertical center of a row.
func (d *drawing) middle(row int) int { return d.top + row*rowHeight + rowHeight/2 }

func (d *drawing) draw(height int) {
	c := d.channel
	band, center, class := d.left-side-laneWidth*d.laneCount(), d.left+nodeWidth/2, "channel"
	if c.Broken != "" {
		class += " broken"
	}
	fmt.Fprintf(d, `<g class="u %s" data-channel="%s"><rect class="band" x="%d" y="%d" width="%d" height="%d" rx="10"/>`+"\n",
		class, escape.HTML(c.Name), band, margin, d.left+nodeWidth+side-band, height-2*margin)
	// The title has an svg element of its own, which cuts off wide letters that would reach into another channel.
	fmt.Fprintf(d, `<svg x="%d" y="%d" width="%d" height="%d"><text class="title" x="%d" y="22">%s</text></svg>`,
		band, margin, d.left+nodeWidth+side-band, titleHeight, center-band, fit(c.Name, nameLength))
	for i, n := range c.notes() {
		fmt.Fprintf(d, `<text class="%s" x="%d" y="%d">%s</text>`, n.class, center, margin+38+noteHeight*i, n.text)
	}
	d.WriteString("\n")
	for _, l := range d.lanes {
		d.drawLane(l)
	}
	for _, e := range c.Edges {
		d.drawEdge(e)
	}
	for _, n := range c.Nodes {
		d.drawNode(n)
	}
	d.WriteString("</g>\n")
}

// note is a line below the name of a channel.
type note struct{ class, text string }

func (c *Channel) notes() (lines []note) {
	var states []string
	if c.Default {
		states = append(states, "default")
	}
	if c.Deprecated != "" {
		states = append(states, "deprecated")
	}
	if len(states) > 0 {
		lines = append(lines, note{"note", strings.Join(states, ", ")})
	}
	if c.Unranged {
		lines = append(lines, note{"note", "too many skipRanges to draw"})
	}
	if c.Unskipped {
		lines = append(lines, note{"note", "too many skips to draw"})
	}
	if c.Broken != "" {
		lines = append(lines, note{"note wrong", c.Broken + ": OLM resolves nothing"})
	}
	return lines
}

func (d *drawing) drawLane(l *lane) {
	x, last := d.left-12-laneWidth*(l.place+1), l.from[len(l.from)-1]
	class, marker, why := Edge{To: l.to, Kind: upgrade.SkipRange}.style()
	fmt.Fprintf(d, `<path class="edge %s" d="M%d %dH%dV%dH%d" marker-end="url(#to-%s)"><title>%s</title></path>`,
		class, d.left, d.middle(last.Row)+8, x, d.middle(l.to.Row)-8, d.left, marker,
		tip("skipRange of %s: %s%s", l.to.Version, l.to.Range, why))
	for _, n := range l.from {
		fmt.Fprintf(d, `<circle cx="%d" cy="%d" r="2.5"/>`, x, d.middle(n.Row)+8)
	}
	d.WriteString("\n")
}

// drawEdge draws skips to the left of nodes, and replaces to the right, or as a straight line between neighbours.
func (d *drawing) drawEdge(e Edge) {
	from, to := d.middle(e.From.Row), d.middle(e.To.Row)
	path := ""
	switch {
	case e.Kind == upgrade.SkipRange:
		return // it has a lane
	case e.Kind == upgrade.Replaces && d.neighbours(e):
		x, half := d.left+nodeWidth/2, nodeHeight/2
		if from < to { // a downgrade
			half = -half
		}
		path = fmt.Sprintf("M%d %dV%d", x, from-half, to+half)
	default:
		x, bulge := d.left+nodeWidth, min(side-4, 18+5*max(1, abs(e.From.Row-e.To.Row)))
		if e.Kind == upgrade.Skips {
			x, bulge = d.left, -bulge
		}
		path = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, from, x+bulge, from, x+bulge, to, x, to)
	}
	class, marker, why := e.style()
	fmt.Fprintf(d, `<path class="edge %s" d="%s" marker-end="url(#to-%s)"><title>%s</title></path>`+"\n", class, path, marker,
		tip("%s %s %s%s", e.To.Version, e.Kind, e.From.Version, why))
}

// style returns how an edge is drawn and, if OLM never takes it, why not.
func (e Edge) style() (class, marker, why string) {
	if !e.To.Passed {
		return string(e.Kind), string(e.Kind), ""
	}
	why = ". " + neverTaken
	if e.To.SkippedBy != "" {
		// The versions are shortened, because they are copied for each edge.
		why += fmt.Sprintf(": %s skips %s", shorten(e.To.SkippedBy, tipLength), shorten(e.To.Version, tipLength))
	}
	return string(e.Kind) + " never", "never", why
}

// neighbours reports whether an edge connects adjacent rows.
func (d *drawing) neighbours(e Edge) bool {
	return abs(e.From.Row-e.To.Row) == 1
}

func (d *drawing) drawNode(n *Node) {
	y := d.middle(n.Row)
	about := tip("%s", n.Name)
	if states := n.states(); len(states) > 0 {
		about += ": " + strings.Join(states, ", ")
	}
	if n.Deprecated != "" {
		about += "\n" + tip("%s", n.Deprecated)
	}
	fmt.Fprintf(d, `<g class="node %s" data-name="%s"><title>%s</title><rect class="box" x="%d" y="%d" width="%d" height="%d" rx="8"/>`,
		strings.Join(n.states(), " "), escape.HTML(n.Name), about, d.left, y-nodeHeight/2, nodeWidth, nodeHeight)
	below := 5
	if n.Range != "" {
		below = -1
		fmt.Fprintf(d, `<text class="range" x="%d" y="%d">%s</text>`, d.left+nodeWidth/2, y+13, fit(n.Range, rangeLength))
	}
	fmt.Fprintf(d, `<text class="label" x="%d" y="%d">%s</text></g>`+"\n", d.left+nodeWidth/2, y+below, fit(n.Version, labelLength))
}

// tip returns the tooltip of a part of a drawing. It shortens each text, because thousands of edges may lead to one version with a
// long name.
func tip(format string, texts ...any) string {
	for i, text := range texts {
		if text, is := text.(string); is {
			texts[i] = shorten(text, tipLength)
		}
	}
	return escape.HTML(fmt.Sprintf(format, texts...))
}

// fit returns a text as a label of a number of characters.
func fit(text string, length int) string {
	return html.EscapeString(shorten(escape.Visible(shorten(text, length)), length))
}

// shorten cuts a text to a number of characters.
func shorten(text string, length int) string {
	if len(text) <= length {
		return text
	}
	count, end := 0, 0
	for at := range text { // no further than needed: the text may be very long
		if count == length-1 {
			end = at
		}
		if count == length {
			return text[:end] + "…"
		}
		count++
	}
	return text
}

func abs(n int) int { return max(n, -n) }
