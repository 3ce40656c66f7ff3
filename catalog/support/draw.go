package support

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Sizes of a drawing, in pixels.
const (
	margin      = 16
	labelWidth  = 150 // of the names of versions
	chartWidth  = 900
	axisHeight  = 28
	titleHeight = 34 // of the name of a package
	rowHeight   = 26
	barHeight   = 18
	letterWidth = 7 // of a text in a bar, on average
)

// The maximum lengths of texts in the drawing and in its tooltips, in characters.
const (
	labelLength = 18
	titleLength = 60
	tipLength   = 300
)

// style is the style of the drawing, for light and dark color schemes.
const style = `.s{--paper:#fff;--ink:#1f2937;--soft:#5b6472;--line:#cbd5e1;--today:#b91c1c;--p0:#0f766e;--p1:#2563eb;--p2:#7c3aed;--p3:#b45309;--p4:#be185d;--bar:#fff}` +
	`@media(prefers-color-scheme:dark){.s{--paper:#111827;--ink:#e5e7eb;--soft:#9ca3af;--line:#334155;--today:#f87171;--p0:#2dd4bf;--p1:#60a5fa;--p2:#a78bfa;--p3:#fbbf24;--p4:#f472b6;--bar:#111827}}` +
	`.s{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;background:var(--paper)}` +
	`.s text{fill:var(--ink);font-size:13px}.s .package{font-size:15px;font-weight:600}.s .axis{fill:var(--soft);font-size:11px;text-anchor:middle}.s .unknown{fill:var(--soft)}` +
	`.s line{stroke:var(--line)}.s line.today{stroke:var(--today);stroke-width:1.5}.s .bar text{fill:var(--bar);font-size:11px}.s .past{opacity:.45}` +
	`.s .p0{fill:var(--p0)}.s .p1{fill:var(--p1)}.s .p2{fill:var(--p2)}.s .p3{fill:var(--p3)}.s .p4{fill:var(--p4)}`

// phaseColors is the number of colors for phases.
const phaseColors = 5

// chart maps days to places in a drawing.
type chart struct {
	from, to time.Time
	day      lifecycle.Date
}

// x returns the horizontal place of a time.
func (c chart) x(t time.Time) int {
	return margin + labelWidth + int(float64(chartWidth)*float64(t.Unix()-c.from.Unix())/float64(c.to.Unix()-c.from.Unix()))
}

// newChart returns a chart in whole years that contains all phases and the document's day.
func (d *Document) newChart() chart {
	first, last := d.Day, d.Day
	for _, p := range d.Packages {
		for _, v := range p.Versions {
			if v.Support != nil {
				first, last = min(first, v.Support.Begins), max(last, v.Support.Ends)
			}
		}
	}
	year := func(day lifecycle.Date, more int) time.Time {
		t, _ := day.Time() // all are valid
		return time.Date(t.Year()+more, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return chart{year(first, 0), year(last, 1), d.Day}
}

// maxYears is the greatest number of years that are marked.
const maxYears = 16

// years returns the years to mark.
func (c chart) years() (marks []time.Time) {
	step := 1
	for _, wider := range []int{2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if (c.to.Year()-c.from.Year())/step <= maxYears {
			break
		}
		step = wider
	}
	for y := c.from.Year(); y <= c.to.Year(); y += step {
		marks = append(marks, time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	return marks
}

// svg draws a row for each version with a bar for each phase of support, and a line on the document's day. The drawing contains its
// style.
func (d *Document) svg() string { return d.draw("<style>" + style + "</style>\n") }

func (d *Document) draw(styled string) string {
	c := d.newChart()
	var body strings.Builder
	y := margin + axisHeight
	for _, p := range d.Packages {
		fmt.Fprintf(&body, `<text class="package" x="%d" y="%d">%s</text>`+"\n", margin, y+titleHeight-12, label(p.Name, titleLength))
		y += titleHeight
		for _, v := range p.Versions {
			c.row(&body, v, y)
			y += rowHeight
		}
	}
	height, width := y+margin, margin+labelWidth+chartWidth+margin
	var axis strings.Builder
	for _, year := range c.years() {
		x := c.x(year)
		fmt.Fprintf(&axis, `<line x1="%[1]d" y1="%[2]d" x2="%[1]d" y2="%[3]d"/><text class="axis" x="%[1]d" y="%[4]d">%[5]d</text>`+"\n", x, margin+axisHeight-8, height-margin, margin+axisHeight-14, year.Year())
	}
	if today, err := c.day.Time(); err == nil { // in front of bars
		fmt.Fprintf(&body, `<line class="today" x1="%[1]d" y1="%[2]d" x2="%[1]d" y2="%[3]d"><title>%[4]s</title></line>`+"\n", c.x(today), margin+axisHeight-8, height-margin, c.day)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="s" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>What is supported when, on %s</title>
%s%s%s</svg>
`, width, height, c.day, styled, axis.String(), body.String())
}

// row draws a version.
func (c chart) row(body *strings.Builder, v Version, y int) {
	class := "version"
	if v.Support != nil && v.Support.State == lifecycle.Ended {
		class += " past"
	}
	fmt.Fprintf(body, `<g class="%s"><text x="%d" y="%d">%s<title>%s</title></text>`, class, margin+8, y+rowHeight/2+4, label(v.Name, labelLength), tip(strings.TrimSpace(v.Latest+" "+runsOn(v.Platforms))))
	if v.Support == nil {
		fmt.Fprintf(body, `<text class="unknown" x="%d" y="%d">not known</text>`, margin+labelWidth, y+rowHeight/2+4)
	}
	for i, p := range v.Phases {
		from, errFrom := p.Start.Time()
		to, errTo := p.End.Time()
		if errFrom != nil || errTo != nil || to.Before(from) {
			continue // a rule reports it
		}
		x, end := c.x(from), c.x(to.AddDate(0, 0, 1))
		fmt.Fprintf(body, `<g class="bar"><title>%s</title><rect class="p%d" x="%d" y="%d" width="%d" height="%d" rx="3"/>`,
			tip(fmt.Sprintf("%s %s: %s to %s", v.Name, p.Name, p.Start, p.End)), i%phaseColors, x, y+(rowHeight-barHeight)/2, max(1, end-x-1), barHeight)
		if room := (end - x - 10) / letterWidth; room > 3 {
			fmt.Fprintf(body, `<text x="%d" y="%d">%s</text>`, x+5, y+rowHeight/2+4, label(p.Name, room))
		}
		body.WriteString("</g>")
	}
	body.WriteString("</g>\n")
}

// page returns a self-contained page.
func (d *Document) page() string {
	return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>What is supported when</title>
<style>:root{color-scheme:light dark}body{margin:0;overflow:auto}` + style + `</style>
</head>
<body>
` + d.draw("") + `</body>
</html>
`
}

// label returns a text as HTML, cut to at most length characters.
func label(text string, length int) string {
	shown := []rune(escape.Visible(escape.Short(text, length))) // Short says how much it left out
	if len(shown) > length {
		shown = append(shown[:length-1], '…')
	}
	return escape.HTML(string(shown))
}

// tip returns a tooltip.
func tip(text string) string { return escape.HTML(escape.Short(text, tipLength)) }
