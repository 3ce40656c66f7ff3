package prediction

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Formats are what Write writes: text for people, a JSON array for programs.
var Formats = []string{"text", "json"}

// Write writes outcomes.
func Write(w io.Writer, format string, outcomes []*Outcome) error {
	if format == "json" {
		return escape.JSON(w, outcomes)
	}
	for _, o := range outcomes {
		if _, err := io.WriteString(w, o.text()); err != nil {
			return err
		}
	}
	return nil
}

// text tells people what OLM will do, and why.
func (o *Outcome) text() string {
	var text escape.Lines
	line := func(title, format string, args ...any) {
		text.Add("  %-9s%s", title, fmt.Sprintf(format, args...))
	}
	text.Add("%s", o.title())
	line("OLM", "%s%s", o.Sentence(), o.head(len(o.Then) == 0))
	for _, hold := range o.Holds {
		line("waits", "%s", hold.What)
		if hold.Do != "" {
			line("do", "%s", hold.Do)
		}
	}
	for _, reason := range o.Why {
		line("why", "%s", reason.What)
		if reason.Do != "" {
			line("do", "%s", reason.Do)
		}
	}
	if len(o.Dependencies) > 0 {
		line("along", "%s", strings.Join(o.Dependencies, ", "))
	}
	for i, step := range o.Then {
		line("then", "%s, %s%s", step.Name, step.because("that"), o.head(i == len(o.Then)-1))
	}
	for _, risk := range o.Risks {
		line("warning", "%s", risk.What)
		if risk.Do != "" {
			line("do", "%s", risk.Do)
		}
	}
	if o.Message != "" {
		line("message", "%s", o.Message)
	}
	return text.String()
}

// title says which Subscription it is.
func (o *Outcome) title() string {
	title := "package " + o.Package + ", "
	if o.Channel != "" {
		title += "channel " + o.Channel + ", "
	}
	if o.Subscription != "" {
		title = "Subscription " + o.Namespace + "/" + o.Subscription + ": " + title
	}
	if o.Installed == "" {
		return title + "nothing installed"
	}
	return title + o.Installed + " installed"
}

// Sentence says what OLM does.
func (o *Outcome) Sentence() string {
	switch {
	case o.Verdict == Latest:
		return "does nothing: that is the head of the channel"
	case o.Verdict == Stranded:
		return "does nothing, and says nothing of it"
	case o.Verdict == Refused:
		return "refuses, for all Subscriptions of the namespace"
	case o.Next == nil:
		return "waits"
	case o.Installed == "":
		return "installs " + o.Next.Name
	}
	return fmt.Sprintf("updates to %s, %s", o.Next.Name, o.Next.because("it"))
}

// head says of the last step that it ends at the head of the channel.
func (o *Outcome) head(last bool) string {
	if last && o.Next != nil && o.Arrives {
		return " (the head of the channel)"
	}
	return ""
}

// because says what leads to a step from the version before.
func (s Step) because(before string) string {
	if s.Edge == upgrade.SkipRange {
		return fmt.Sprintf("whose skipRange %q holds %s", s.Range, before)
	}
	return fmt.Sprintf("which %s %s", s.Edge, before)
}
