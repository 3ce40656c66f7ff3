package diff

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Formats are what Write writes: text for people, JSON for programs, Markdown for a pull request.
var Formats = []string{"text", "json", "markdown"}

// Write writes what changes.
func (d *Diff) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(d)
	case "markdown":
		return d.markdown(w)
	}
	for _, p := range d.Packages {
		if _, err := fmt.Fprintf(w, "%s %s\n%s", p.Name, p.Kind, render(p.lines(), 1, "")); err != nil {
			return err
		}
	}
	return nil
}

// markdown writes a section that can stand in a pull request.
func (d *Diff) markdown(w io.Writer) error {
	if len(d.Packages) == 0 {
		_, err := fmt.Fprintf(w, "Nothing changes for clusters from `%s` to `%s`.\n", d.Before, d.After)
		return err
	}
	if _, err := fmt.Fprintf(w, "What changes for clusters from `%s` to `%s`:\n", d.Before, d.After); err != nil {
		return err
	}
	for _, p := range d.Packages {
		if _, err := fmt.Fprintf(w, "\n### %s %s\n\n%s", p.Name, p.Kind, render(p.lines(), 0, "- ")); err != nil {
			return err
		}
	}
	return nil
}

// line is a line of a report. Those below it explain it.
type line struct {
	text  string
	below []line
}

// render writes lines as text, each after a mark and indented by its level.
func render(lines []line, level int, mark string) string {
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(strings.Repeat("  ", level) + mark + l.text + "\n")
		text.WriteString(render(l.below, level+1, mark))
	}
	return text.String()
}

func (p Package) lines() (lines []line) {
	lines = appendChange(lines, "default channel", p.DefaultChannel)
	lines = appendChange(lines, "deprecation", p.Deprecation)
	for _, c := range p.Channels {
		lines = append(lines, c.line())
	}
	if len(p.Rewritten) > 0 {
		lines = append(lines, line{text: "rewritten under the same name, which clusters that have it installed do not get: " + strings.Join(p.Rewritten, ", ")})
	}
	for _, name := range sortedKeys(p.Deprecations) {
		lines = appendChange(lines, "deprecation of "+name, p.Deprecations[name])
	}
	return lines
}

func (c Channel) line() line {
	l := line{text: fmt.Sprintf("channel %s %s", c.Name, c.Kind)}
	l.below = appendChange(l.below, "head", c.Head)
	l.below = appendChange(l.below, "deprecation", c.Deprecation)
	l.below = appendNames(l.below, "new entries", c.Added)
	l.below = appendNames(l.below, "entries gone", c.Removed)
	l.below = appendNames(l.below, "LOST: no update leads to the head any more from", c.Lost)
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
		l := line{text: part.title}
		for _, key := range sortedKeys(part.changes) {
			l.below = appendChange(l.below, key, part.changes[key].without(key))
		}
		lines = append(lines, l)
	}
	lines = appendChange(lines, "install modes", c.InstallModes)
	lines = appendChange(lines, "oldest Kubernetes", c.MinKubeVersion)
	if c.Unknown != "" {
		lines = append(lines, line{text: "not compared: " + c.Unknown})
	}
	return lines
}

func appendNames(lines []line, title string, names []string) []line {
	if len(names) == 0 {
		return lines
	}
	return append(lines, line{text: title + ": " + strings.Join(names, ", ")})
}

func appendChange(lines []line, title string, c *Change) []line {
	if c == nil {
		return lines
	}
	return append(lines, line{text: fmt.Sprintf("%s: %s → %s", title, none(c.Before), none(c.After))})
}

// without returns the change without what its title says already: the repository of images without a
// name.
func (c Change) without(title string) *Change {
	return &Change{strings.TrimPrefix(strings.TrimPrefix(c.Before, title), ":"), strings.TrimPrefix(strings.TrimPrefix(c.After, title), ":")}
}

func none(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
