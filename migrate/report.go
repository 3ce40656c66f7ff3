package migrate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Formats are the output formats of Write: text for people, JSON for programs.
var Formats = []string{"text", "json"}

// Report is something that Write can write, a plan or a status.
type Report interface{ Text(findings.Palette) string }

// Write writes a plan or a status.
func Write(w io.Writer, format string, what Report, palette findings.Palette) error {
	if format == "json" {
		return escape.JSON(w, what)
	}
	_, err := io.WriteString(w, what.Text(palette))
	return err
}

// Described is a plan, or something else with an Outline.
type Described interface {
	GetOutline() *Outline
	// Describe writes the planned change, as the head of a report.
	Describe(lines *escape.Lines)
}

// Text describes a plan for people. Plans call it in their method of the same name.
func Text(p Described, colour findings.Palette) string {
	var t escape.Lines
	o := p.GetOutline()
	p.Describe(&t)
	t.Add("")
	t.Add("Checks")
	for _, c := range o.Checks {
		t.AddMarked("  "+colour.Mark(c.Verdict), " %s", c.What)
		if c.Verdict != findings.OK && c.Do != "" {
			t.Add("    do: %s", c.Do)
		}
	}
	verdict, conclusion := findings.OK, "The plan is safe to apply."
	switch {
	case !o.Safe:
		verdict, conclusion = findings.Refused, "The plan is not safe to apply. See above for what to do first. Nothing was changed."
	case len(o.Objects) == 0:
		conclusion = "There is nothing to do."
	default:
		o.describeSteps(&t)
	}
	t.Add("")
	t.AddMarked(colour.Mark(verdict), " %s", conclusion)
	return t.String()
}

// describeSteps lists the steps, and the objects that they change.
func (o *Outline) describeSteps(t *escape.Lines) {
	width := 0
	for _, s := range o.Steps {
		width = max(width, len(s.Name))
	}
	if len(o.Steps) > 0 {
		t.Add("")
		t.Add("Steps")
	}
	for i, s := range o.Steps {
		if s.NoReturn {
			t.Add("   ── point of no return: the steps above can be rolled back, those below cannot ──")
		}
		t.Add("  %2d  %-*s  %s", i+1, width, s.Name, s.Does)
	}
	t.Add("")
	t.Add("Objects")
	o.describeObjects(t)
}

// describeObjects lists the objects, one line for all objects of a kind that change in the same way.
func (o *Outline) describeObjects(t *escape.Lines) {
	type group struct{ by, kind, namespace, how string }
	var order []group
	names := map[group][]string{}
	for _, object := range o.Objects {
		g := group{object.By, object.Kind, object.Namespace, object.How}
		if !slices.Contains(order, g) {
			order = append(order, g)
		}
		names[g] = append(names[g], object.Name)
	}
	width := 12 // so that the reports of most migrations look the same
	for _, g := range order {
		width = max(width, len(g.by))
	}
	for _, g := range order {
		where := g.kind
		if g.namespace != "" {
			where += " in " + g.namespace
		}
		t.Add("  %-*s %s: %s (%s)", width, g.by, where, strings.Join(names[g], ", "), g.how)
	}
}

// Text describes a status for people.
func (s *Status[P]) Text(colour findings.Palette) string {
	var t escape.Lines
	s.Plan.Describe(&t)
	if s.Phase == Applying || s.Phase == RollingBack {
		s.Plan.GetOutline().describeSteps(&t)
	}
	t.Add("")
	t.Add("Journal, ConfigMap %s", s.Journal)
	for _, line := range s.Log {
		t.Add("  %s", line)
	}
	verdict, summary := s.summary()
	t.Add("")
	t.AddMarked(colour.Mark(verdict), " %s", summary)
	if s.Phase == Applying && s.CanRollBack {
		t.Add("  To undo it: %s", s.rollback)
	}
	return t.String()
}

func (s *Status[P]) summary() (findings.Verdict, string) {
	doing := map[Phase]string{Applying: "The plan is being applied", RollingBack: "The plan is being rolled back"}[s.Phase]
	switch {
	case s.Phase == Completed:
		return findings.OK, "The plan was applied."
	case s.Phase == RolledBack:
		return findings.OK, "The plan was rolled back."
	case s.Stuck != "":
		return findings.Refused, doing + ", but cannot continue: " + s.Stuck
	case s.Waits != "":
		return findings.Warning, fmt.Sprintf("%s, and step %s waits for %s.", doing, s.Next, s.Waits)
	}
	return findings.Warning, fmt.Sprintf("%s; the next step is %s.", doing, s.Next)
}
