package diff

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-csi/berth/bundle/registryv1/access"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/findings/outline"
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
	lines := append([]outline.Line{d.summary()}, d.v1()...)
	for _, p := range d.Packages {
		lines = append(lines, p.line())
	}
	_, err := io.WriteString(w, outline.Plain.Render(lines, 0))
	return err
}

// markdown returns a section for a pull request.
func (d *Diff) markdown() string {
	between := outline.Say("clusters from %s to %s", d.Before, d.After).In(outline.Markdown)
	if len(d.Packages)+len(d.OLMv1) == 0 {
		return "Nothing changes for " + between + ".\n"
	}
	text := "What changes for " + between + ":\n\n" + outline.Markdown.Render(append([]outline.Line{d.summary()}, d.v1()...), 0)
	for _, p := range d.Packages {
		l := p.line()
		text += "\n### " + l.Text.In(outline.Markdown) + "\n\n" + outline.Markdown.Render(l.Below, 0)
	}
	return text
}

// v1 lists the installed bundles for which OLM v1 does less than before.
func (d *Diff) v1() []outline.Line {
	if len(d.OLMv1) == 0 {
		return nil
	}
	l := outline.Line{Text: outline.Say("LOST for OLM v1: it does less for clusters with")}
	for _, lost := range d.OLMv1 {
		l.Below = append(l.Below, outline.Line{Text: outline.Say("%s of package %s: it %s; before, it %s", lost.Bundle, lost.Package, lost.Now, lost.Before)})
	}
	return []outline.Line{l}
}

// summary counts changed packages and lists lost updates.
func (d *Diff) summary() outline.Line {
	s, counts := d.Summary, []string{}
	for _, c := range []struct {
		n    int
		kind Kind
	}{{s.Added, Added}, {s.Removed, Removed}, {s.Changed, Changed}} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", c.n, c.kind))
		}
	}
	l := outline.Line{Text: outline.Say("packages: " + strings.Join(counts, ", "))}
	if s.Lost == 0 {
		l.Text.Format += "; no updates are lost"
		if s.Refused > 0 {
			l.Text.Format += ", but OLM refuses some on clusters that have stored objects in versions of APIs that they remove"
		}
		return l
	}
	l.Text.Format += fmt.Sprintf("; LOST: updates no longer lead to the head of the channel from %d entries:", s.Lost)
	if s.Lost == 1 {
		l.Text.Format = strings.Replace(l.Text.Format, "1 entries", "1 entry", 1)
	}
	for _, p := range d.Packages {
		for _, c := range p.Channels {
			if len(c.Lost) > 0 {
				where := outline.Say("package %s, channel %s", p.Name, c.Name)
				l.Below = append(l.Below, where.With(c.Lost))
			}
		}
	}
	return l
}

func (p Package) line() outline.Line {
	l := outline.Line{Text: outline.Say("%s "+string(p.Kind), p.Name)}
	l.Below = access.AppendChange(l.Below, outline.Say("default channel"), p.DefaultChannel)
	l.Below = access.AppendChange(l.Below, outline.Say("deprecation"), p.Deprecation)
	for _, c := range p.Channels {
		l.Below = append(l.Below, c.line())
	}
	l.Below = appendNames(l.Below, "rewritten under the same name, so clusters that have it installed do not get the new one", p.Rewritten)
	for _, name := range sortedKeys(p.Deprecations) {
		l.Below = access.AppendChange(l.Below, outline.Say("deprecation of %s", name), p.Deprecations[name])
	}
	for _, version := range sortedKeys(p.Lifecycles) {
		l.Below = access.AppendChange(l.Below, outline.Say("support of %s", version), p.Lifecycles[version])
	}
	return l
}

func (c Channel) line() outline.Line {
	l := outline.Line{Text: outline.Say("channel %s "+string(c.Kind), c.Name)}
	l.Below = access.AppendChange(l.Below, outline.Say("head"), c.Head)
	l.Below = access.AppendChange(l.Below, outline.Say("deprecation"), c.Deprecation)
	l.Below = appendNames(l.Below, "new entries", c.Added)
	l.Below = appendNames(l.Below, "entries gone", c.Removed)
	l.Below = appendNames(l.Below, "OLM refuses the update on clusters that have stored objects in these versions, which the update removes", c.RemovedAPIs)
	if c.Content != nil {
		l.Below = append(l.Below, c.Content.Lines()...)
	}
	return l
}

func appendNames(lines []outline.Line, title string, names []string) []outline.Line {
	if len(names) == 0 {
		return lines
	}
	return append(lines, outline.Say(title).With(names))
}
