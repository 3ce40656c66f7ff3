package switchover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Formats are what Write writes: text for people, JSON for programs.
var Formats = []string{"text", "json"}

// Write writes a plan or a status. The marks of text are in colours if these are wanted.
func Write(w io.Writer, format string, what interface{ Text(Palette) string }, palette Palette) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(what)
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
	var t strings.Builder
	p.textOfChoices(&t)
	t.WriteString("\nChecks\n")
	for _, c := range p.Checks {
		fmt.Fprintf(&t, "  %s %s\n", colour(c.Verdict, marks[c.Verdict]), c.What)
		if c.Verdict != OK && c.Do != "" {
			fmt.Fprintf(&t, "    do: %s\n", c.Do)
		}
	}
	if !p.Safe {
		fmt.Fprintf(&t, "\n%s It is not safe to switch: see above for what to do first. Nothing has been changed.\n", colour(Refused, marks[Refused]))
		return t.String()
	}
	if len(p.Touched) == 0 {
		fmt.Fprintf(&t, "\n%s There is nothing to do.\n", colour(OK, marks[OK]))
		return t.String()
	}
	p.textOfSteps(&t)
	fmt.Fprintf(&t, "\n%s It is safe to switch.\n", colour(OK, marks[OK]))
	return t.String()
}

// textOfChoices says what is now, and what will be.
func (p *Plan) textOfChoices(t *strings.Builder) {
	fmt.Fprintf(t, "Subscription %s\n", p.Subscription)
	fmt.Fprintf(t, "  from  %s: %s\n", p.From, cmp.Or(p.Installed, "nothing installed"))
	fmt.Fprintf(t, "  to    %s: %s\n", p.To, cmp.Or(p.Target, "nothing that OLM would install"))
	switch own := p.outcome(); {
	case p.Way == Update && own.Next != nil:
		fmt.Fprintf(t, "  OLM   %s\n", own.Sentence())
	case p.Way == Replace:
		t.WriteString("  OLM   updates nothing to a package of another name here: the operator is removed, and installed anew; what it manages stays\n")
	case p.Way == Stay:
		t.WriteString("  OLM   has nothing to install\n")
	case own.Message != "":
		fmt.Fprintf(t, "  OLM   %s: %s\n", own.Sentence(), own.Message)
	default:
		fmt.Fprintf(t, "  OLM   %s\n", own.Sentence())
	}
	for _, step := range p.outcome().Then {
		fmt.Fprintf(t, "  then  %s\n", step.Name)
	}
	for _, c := range p.Contents {
		if c.Name != p.Target {
			fmt.Fprintf(t, "  along %s, of %s\n", c.Name, c.source())
		}
	}
	p.textOfConfig(t)
}

// textOfConfig shows what the Subscription says of the operator's environment and pods, which stays.
func (p *Plan) textOfConfig(t *strings.Builder) {
	if p.Subscription.Config == nil {
		return
	}
	text, err := yaml.Marshal(p.Subscription.Config)
	if err != nil {
		text = []byte(err.Error())
	}
	t.WriteString("\nspec.config of the Subscription, which stays as it is\n")
	for line := range strings.Lines(string(text)) {
		t.WriteString("  " + line)
	}
}

// textOfSteps says what is done, and which objects that changes.
func (p *Plan) textOfSteps(t *strings.Builder) {
	t.WriteString("\nSteps\n")
	for i, s := range p.Steps {
		if s.NoReturn {
			t.WriteString("   ── the point of no return: `berth switch rollback` leads back from all before it ──\n")
		}
		fmt.Fprintf(t, "  %2d  %-9s %s\n", i+1, s.Name, s.Does)
	}
	t.WriteString("\nObjects\n")
	p.textOfTouched(t)
}

// textOfTouched lists objects, those of a kind that the same happens to in one line.
func (p *Plan) textOfTouched(t *strings.Builder) {
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
		fmt.Fprintf(t, "  %-12s %s: %s (%s)\n", g.by, where, strings.Join(names[g], ", "), g.how)
	}
}

// Text tells people how far a switch is.
func (s *Status) Text(colour Palette) string {
	var t strings.Builder
	p := s.Plan
	p.textOfChoices(&t)
	if s.State == Applying || s.State == RollingBack {
		p.textOfSteps(&t)
	}
	fmt.Fprintf(&t, "\nJournal, ConfigMap %s\n", s.Journal)
	for _, line := range s.Log {
		fmt.Fprintf(&t, "  %s\n", line)
	}
	verdict, said := s.summary()
	fmt.Fprintf(&t, "\n%s %s\n", colour(verdict, marks[verdict]), said)
	if s.State == Applying && s.Return {
		t.WriteString("  There is a way back: " + p.command("rollback") + "\n")
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
