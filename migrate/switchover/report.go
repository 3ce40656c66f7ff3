package switchover

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/yaml"
)

// Formats are what Write writes: text for people, JSON for programs.
var Formats = []string{"text", "json"}

// Write writes a plan or a status. The marks of text are in colours if these are wanted.
func Write(w io.Writer, format string, what interface{ Text(Palette) string }, palette Palette) error {
	if format == "json" {
		return escape.JSON(w, what)
	}
	_, err := io.WriteString(w, what.Text(palette))
	return err
}

// Palette colours a mark, such as that of a check, by what it says.
type Palette func(Verdict, string) string

// Plain colours nothing.
func Plain(_ Verdict, mark string) string { return mark }

// Colours colours for a terminal.
func Colours(verdict Verdict, mark string) string {
	return map[Verdict]string{OK: "\x1b[32m", Warning: "\x1b[33m", Refused: "\x1b[31m"}[verdict] + mark + "\x1b[0m"
}

var marks = map[Verdict]string{OK: "✔", Warning: "!", Refused: "✗"}

// Text tells people what the plan is.
func (p *Plan) Text(colour Palette) string {
	var t escape.Lines
	p.textOfChoices(&t)
	t.Add("")
	t.Add("Checks")
	for _, c := range p.Checks {
		t.AddMarked("  "+colour(c.Verdict, marks[c.Verdict]), " %s", c.What)
		if c.Verdict != OK && c.Do != "" {
			t.Add("    do: %s", c.Do)
		}
	}
	if !p.Safe {
		t.Add("")
		t.AddMarked(colour(Refused, marks[Refused]), " It is not safe to switch: see above for what to do first. Nothing has been changed.")
		return t.String()
	}
	if len(p.Touched) == 0 {
		t.Add("")
		t.AddMarked(colour(OK, marks[OK]), " There is nothing to do.")
		return t.String()
	}
	p.textOfSteps(&t)
	t.Add("")
	t.AddMarked(colour(OK, marks[OK]), " It is safe to switch.")
	return t.String()
}

// textOfChoices says what is now, and what will be.
func (p *Plan) textOfChoices(t *escape.Lines) {
	t.Add("Subscription %s", p.Subscription)
	t.Add("  from  %s: %s", p.From, cmp.Or(p.Installed, "nothing installed"))
	t.Add("  to    %s: %s", p.To, cmp.Or(p.Target, "nothing that OLM would install"))
	switch own := p.outcome(); {
	case p.Way == Update && own.Next != nil:
		t.Add("  OLM   %s", own.Sentence())
	case p.Way == Replace:
		t.Add("  OLM   updates nothing to a package of another name here: the operator is removed, and installed anew; what it manages stays")
	case p.Way == Stay:
		t.Add("  OLM   has nothing to install")
	case own.Message != "":
		t.Add("  OLM   %s: %s", own.Sentence(), own.Message)
	default:
		t.Add("  OLM   %s", own.Sentence())
	}
	for _, step := range p.outcome().Then {
		t.Add("  then  %s", step.Name)
	}
	for _, c := range p.Contents {
		if c.Name != p.Target {
			t.Add("  along %s, of %s", c.Name, c.source())
		}
	}
	p.textOfConfig(t)
}

// textOfConfig shows what the Subscription says of the operator's environment and pods, which stays.
func (p *Plan) textOfConfig(t *escape.Lines) {
	if p.Subscription.Config == nil {
		return
	}
	text, err := yaml.Marshal(p.Subscription.Config)
	if err != nil {
		text = []byte(err.Error())
	}
	t.Add("")
	t.Add("spec.config of the Subscription, which stays as it is")
	for line := range strings.Lines(string(text)) {
		t.Add("  %s", strings.TrimSuffix(line, "\n"))
	}
}

// textOfSteps says what is done, and which objects that changes.
func (p *Plan) textOfSteps(t *escape.Lines) {
	t.Add("")
	t.Add("Steps")
	for i, s := range p.Steps {
		if s.NoReturn {
			t.Add("   ── the point of no return: `berth switch rollback` leads back from all before it ──")
		}
		t.Add("  %2d  %-9s %s", i+1, s.Name, s.Does)
	}
	t.Add("")
	t.Add("Objects")
	p.textOfTouched(t)
}

// textOfTouched lists objects, those of a kind that the same happens to in one line.
func (p *Plan) textOfTouched(t *escape.Lines) {
	type group struct{ by, kind, namespace, how string }
	var order []group
	names := map[group][]string{}
	for _, o := range p.Touched {
		g := group{o.By, o.Kind, o.Namespace, o.How}
		if !slices.Contains(order, g) {
			order = append(order, g)
		}
		names[g] = append(names[g], o.Name)
	}
	for _, g := range order {
		where := g.kind
		if g.namespace != "" {
			where += " in " + g.namespace
		}
		t.Add("  %-12s %s: %s (%s)", g.by, where, strings.Join(names[g], ", "), g.how)
	}
}

// Text tells people how far a switch is.
func (s *Status) Text(colour Palette) string {
	var t escape.Lines
	p := s.Plan
	p.textOfChoices(&t)
	if s.State == Applying || s.State == RollingBack {
		p.textOfSteps(&t)
	}
	t.Add("")
	t.Add("Journal, ConfigMap %s", s.Journal)
	for _, line := range s.Log {
		t.Add("  %s", line)
	}
	verdict, said := s.summary()
	t.Add("")
	t.AddMarked(colour(verdict, marks[verdict]), " %s", said)
	if s.State == Applying && s.Return {
		t.Add("  There is a way back: %s", p.command("rollback"))
	}
	return t.String()
}

func (s *Status) summary() (Verdict, string) {
	under := map[State]string{Applying: "It is being applied", RollingBack: "It is being rolled back"}[s.State]
	switch {
	case s.State == Completed:
		return OK, "All is done."
	case s.State == RolledBack:
		return OK, "It was rolled back."
	case s.Stuck != "":
		return Refused, under + ", and cannot go on: " + s.Stuck
	case s.Waits != "":
		return Warning, fmt.Sprintf("%s, and at step %s waits for %s.", under, s.Next, s.Waits)
	}
	return Warning, fmt.Sprintf("%s; next is step %s.", under, s.Next)
}
