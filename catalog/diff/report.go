package diff

import (
	"fmt"
	"io"
	"regexp"
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
	if len(d.Packages)+len(d.OLMv1) == 0 {
		return nil
	}
	lines := append([]line{d.summary()}, d.v1()...)
	for _, p := range d.Packages {
		lines = append(lines, p.line())
	}
	_, err := io.WriteString(w, inText.render(lines, 0))
	return err
}

// markdown returns a section for a pull request.
func (d *Diff) markdown() string {
	between := say("clusters from %s to %s", d.Before, d.After).in(inMarkdown)
	if len(d.Packages)+len(d.OLMv1) == 0 {
		return "Nothing changes for " + between + ".\n"
	}
	text := "What changes for " + between + ":\n\n" + inMarkdown.render(append([]line{d.summary()}, d.v1()...), 0)
	for _, p := range d.Packages {
		l := p.line()
		text += "\n### " + l.text.in(inMarkdown) + "\n\n" + inMarkdown.render(l.below, 0)
	}
	return text
}

// v1 lists the installed bundles for which OLM v1 does less than before.
func (d *Diff) v1() []line {
	if len(d.OLMv1) == 0 {
		return nil
	}
	l := line{text: say("LOST for OLM v1: it does less for clusters with")}
	for _, lost := range d.OLMv1 {
		l.below = append(l.below, line{text: say("%s of package %s: it %s; before, it %s", lost.Bundle, lost.Package, lost.Now, lost.Before)})
	}
	return []line{l}
}

// summary counts the packages that change, and lists what is lost.
func (d *Diff) summary() line {
	s, counts := d.Summary, []string{}
	for _, c := range []struct {
		n    int
		kind Kind
	}{{s.Added, Added}, {s.Removed, Removed}, {s.Changed, Changed}} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", c.n, c.kind))
		}
	}
	l := line{text: say("packages: " + strings.Join(counts, ", "))}
	if s.Lost == 0 {
		l.text.format += "; no updates are lost"
		if s.Refused > 0 {
			l.text.format += ", but OLM refuses some on clusters that have stored objects in versions of APIs that they remove"
		}
		return l
	}
	l.text.format += fmt.Sprintf("; LOST: updates no longer lead to the head of the channel from %d entries:", s.Lost)
	if s.Lost == 1 {
		l.text.format = strings.Replace(l.text.format, "1 entries", "1 entry", 1)
	}
	for _, p := range d.Packages {
		for _, c := range p.Channels {
			if len(c.Lost) > 0 {
				where := say("package %s, channel %s", p.Name, c.Name)
				l.below = append(l.below, where.with(c.Lost))
			}
		}
	}
	return l
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
	for _, version := range sortedKeys(p.Lifecycles) {
		l.below = appendChange(l.below, say("support of %s", version), p.Lifecycles[version])
	}
	return l
}

func (c Channel) line() line {
	l := line{text: say("channel %s "+string(c.Kind), c.Name)}
	l.below = appendChange(l.below, say("head"), c.Head)
	l.below = appendChange(l.below, say("deprecation"), c.Deprecation)
	l.below = appendNames(l.below, "new entries", c.Added)
	l.below = appendNames(l.below, "entries gone", c.Removed)
	l.below = appendNames(l.below, "OLM refuses the update on clusters that have stored objects in these versions, which it removes", c.RemovedAPIs)
	if c.Content != nil {
		l.below = append(l.below, c.Content.lines()...)
	}
	return l
}

func (c *Content) lines() (lines []line) {
	if len(c.Risks) > 0 {
		l := line{text: say("asks for what it did not before, the worst first")}
		for _, risk := range c.Risks[:min(len(c.Risks), changesLimit)] {
			l.below = append(l.below, line{text: say("%s: "+risk.Why, risk.What)})
		}
		if more := len(c.Risks) - changesLimit; more > 0 {
			l.below = append(l.below, line{text: say(fmt.Sprintf("… and %d more", more))})
		}
		lines = append(lines, l)
	}
	for _, part := range []struct {
		title   string
		changes map[string]*Change
	}{{"images", c.Images}, {"permissions", c.Permissions}, {"CRDs", c.CRDs}, {"dependencies", c.Dependencies}} {
		if len(part.changes) == 0 {
			continue
		}
		l := line{text: say(part.title)}
		keys := sortedKeys(part.changes)
		for _, key := range keys[:min(len(keys), changesLimit)] {
			l.below = appendChange(l.below, say("%s", key), part.changes[key].without(key))
		}
		if more := len(keys) - changesLimit; more > 0 {
			l.below = append(l.below, line{text: say(fmt.Sprintf("… and %d more", more))})
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
	return append(lines, say(title).with(names))
}

// JSON has everything. In other reports, lists are shortened.
const (
	namesLimit   = 8
	changesLimit = 30
)

// with returns a line with a list of names after the text.
func (t text) with(names []string) line {
	shown := names[:min(len(names), namesLimit)]
	t.format += ": %s" + strings.Repeat(", %s", len(shown)-1)
	t.values = slices.Concat(t.values, shown)
	if more := len(names) - len(shown); more > 0 {
		t.format += fmt.Sprintf(" and %d more", more)
	}
	return line{text: t}
}

func appendChange(lines []line, title text, c *Change) []line {
	if c == nil {
		return lines
	}
	before, after := shortened(c.Before), shortened(c.After)
	if before == after { // the difference is in what was left out
		before, after = c.Before, c.After
	}
	changed := say(title.format+": ", title.values...)
	changed.addValue(before)
	changed.format += " → "
	changed.addValue(after)
	return append(lines, line{text: changed})
}

// digest matches the digest of an image, and the part that people compare.
var digest = regexp.MustCompile(`(@sha(?:256|512):[0-9a-f]{12})[0-9a-f]{20,}`)

// shortened returns a text with the beginnings of digests only.
func shortened(text string) string { return digest.ReplaceAllString(text, "$1…") }

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
