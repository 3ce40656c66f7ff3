package diff

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-csi/berth/findings/escape"
)

// Formats are the formats of Write: text for people, JSON for programs, Markdown for a pull request.
var Formats = []string{"text", "json", "markdown"}

// Write writes a report of the difference.
func (d *Diff) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		return escape.JSON(w, d)
	case "markdown":
		_, err := io.WriteString(w, d.markdown())
		return err
	}
	for _, p := range d.Packages {
		if _, err := io.WriteString(w, inText.render([]line{p.line()}, 0)); err != nil {
			return err
		}
	}
	return nil
}

// markdown returns a section for a pull request.
func (d *Diff) markdown() string {
	between := say("clusters from %s to %s", d.Before, d.After).in(inMarkdown)
	if len(d.Packages) == 0 {
		return "Nothing changes for " + between + ".\n"
	}
	text := "What changes for " + between + ":\n"
	for _, p := range d.Packages {
		l := p.line()
		text += "\n### " + l.text.in(inMarkdown) + "\n\n" + inMarkdown.render(l.below, 0)
	}
	return text
}

// line is a line of a report, and the lines below that explain it.
type line struct {
	text  text
	below []line
}

// text is a text with values from catalogs. Each medium escapes those in its own way.
type text struct {
	format string // with a %s for each value
	values []string
}

func say(format string, values ...string) text { return text{format, values} }

func (t text) in(m medium) string {
	var shown []any
	for _, value := range t.values {
		shown = append(shown, m.value(value))
	}
	return fmt.Sprintf(t.format, shown...)
}

// medium is what a report is written for.
type medium struct {
	mark  string // before each line
	value func(string) string
}

var (
	inText     = medium{"", escape.Cell}
	inMarkdown = medium{"- ", escape.Markdown}
)

// render writes lines, each with a mark and indented by its level.
func (m medium) render(lines []line, level int) string {
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(strings.Repeat("  ", level) + m.mark + l.text.in(m) + "\n")
		text.WriteString(m.render(l.below, level+1))
	}
	return text.String()
}

func (p Package) line() line {
	l := line{text: say("%s "+string(p.Kind), p.Name)}
	l.below = appendChange(l.below, say("default channel"), p.DefaultChannel)
	l.below = appendChange(l.below, say("deprecation"), p.Deprecation)
	for _, c := range p.Channels {
		l.below = append(l.below, c.line())
	}
	l.below = appendNames(l.below, "rewritten under the same name, so clusters that have it installed do not get the new one", p.Rewritten)
	for _, name := range sortedKeys(p.Deprecations) {
		l.below = appendChange(l.below, say("deprecation of %s", name), p.Deprecations[name])
	}
	return l
}

func (c Channel) line() line {
	l := line{text: say("channel %s "+string(c.Kind), c.Name)}
	l.below = appendChange(l.below, say("head"), c.Head)
	l.below = appendChange(l.below, say("deprecation"), c.Deprecation)
	l.below = appendNames(l.below, "new entries", c.Added)
	l.below = appendNames(l.below, "entries gone", c.Removed)
	l.below = appendNames(l.below, "LOST: updates no longer lead to the head from", c.Lost)
	if c.Content != nil {
		l.below = append(l.below, c.Content.lines()...)
	}
	return l
}

func (c *Content) lines() (lines []line) {
	for _, part := range []struct {
		title   string
		changes map[string]*Change
	}{{"images", c.Images}, {"permissions", c.Permissions}, {"CRDs", c.CRDs}, {"dependencies", c.Dependencies}} {
		if len(part.changes) == 0 {
			continue
		}
		l := line{text: say(part.title)}
		for _, key := range sortedKeys(part.changes) {
			l.below = appendChange(l.below, say("%s", key), part.changes[key].without(key))
		}
		lines = append(lines, l)
	}
	lines = appendChange(lines, say("install modes"), c.InstallModes)
	lines = appendChange(lines, say("oldest Kubernetes"), c.MinKubeVersion)
	if c.Unknown != "" {
		lines = append(lines, line{text: say("not compared: " + c.Unknown)})
	}
	return lines
}

func appendNames(lines []line, title string, names []string) []line {
	if len(names) == 0 {
		return lines
	}
	return append(lines, line{text: say(title+": %s"+strings.Repeat(", %s", len(names)-1), names...)})
}

func appendChange(lines []line, title text, c *Change) []line {
	if c == nil {
		return lines
	}
	changed := say(title.format+": ", title.values...)
	changed.addValue(c.Before)
	changed.format += " → "
	changed.addValue(c.After)
	return append(lines, line{text: changed})
}

// addValue adds a value that may be empty.
func (t *text) addValue(value string) {
	if value == "" {
		t.format += "none"
		return
	}
	t.format += "%s"
	t.values = append(slices.Clone(t.values), value)
}

// without returns the change without the repository of images, if the title already names it.
func (c Change) without(title string) *Change {
	return &Change{strings.TrimPrefix(strings.TrimPrefix(c.Before, title), ":"), strings.TrimPrefix(strings.TrimPrefix(c.After, title), ":")}
}
