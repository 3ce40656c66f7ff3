package prediction

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Formats are the output formats of Write: text for people, JSON for programs.
var Formats = []string{"text", "json"}

// Schema is the name and version of a Document. It changes when a field changes.
const Schema = "berth.catalog-plan.v1"

// Document is the JSON that Write writes.
type Document struct {
	Schema string `json:"schema"`
	// Predictions are the predictions for all Subscriptions to packages of the catalog, and for all ClusterExtensions of such packages.
	Predictions []*Prediction `json:"predictions"`
}

// Write writes predictions in one of the Formats.
func Write(w io.Writer, format string, predictions []*Prediction) error {
	if format == "json" {
		return escape.JSON(w, Document{Schema, predictions})
	}
	for _, p := range predictions {
		if _, err := io.WriteString(w, p.format()); err != nil {
			return err
		}
	}
	return nil
}

// format returns a prediction as text.
func (p *Prediction) format() string {
	var text escape.Lines
	line := func(title, format string, args ...any) {
		text.Add("  %-9s%s", title, fmt.Sprintf(format, args...))
	}
	text.Add("%s", p.title())
	line(strings.TrimSpace("OLM "+p.OLM), "%s%s", p.Sentence(), p.head(len(p.Then) == 0))
	for _, blocker := range p.Blockers {
		line("waits", "%s", blocker.What)
		if blocker.Do != "" {
			line("do", "%s", blocker.Do)
		}
	}
	for _, reason := range p.Why {
		line("why", "%s", reason.What)
		if reason.Do != "" {
			line("do", "%s", reason.Do)
		}
	}
	if len(p.Dependencies) > 0 {
		line("with", "%s", strings.Join(p.Dependencies, ", "))
	}
	for i, update := range p.Then {
		line("then", "%s, %s%s", update.Name, update.reason("that"), p.head(i == len(p.Then)-1))
	}
	if name, support := p.last(); support != nil {
		line("support", "%s: %s", name, support)
	}
	for _, risk := range p.Risks {
		line("warning", "%s", risk.What)
		if risk.Do != "" {
			line("do", "%s", risk.Do)
		}
	}
	if p.Message != "" {
		line("message", "%s", p.Message)
	}
	if p.Says != "" {
		line("now", "%s", p.Says)
	}
	return text.String()
}

// title names the Subscription or the ClusterExtension, and the installed version.
func (p *Prediction) title() string {
	title := "package " + p.Package + ", "
	if p.Channel != "" {
		title += "channel " + p.Channel + ", "
	}
	if p.Subscription != "" {
		title = "Subscription " + p.Namespace + "/" + p.Subscription + ": " + title
	}
	if p.ClusterExtension != "" {
		title = "ClusterExtension " + p.ClusterExtension + ": " + title
	}
	if p.Installed == "" {
		return title + "nothing installed"
	}
	if p.Assumed {
		return title + p.Installed + " installed, which the catalog does not have"
	}
	return title + p.Installed + " installed"
}

// Sentence says in a few words what OLM does, as the predicate of a sentence whose subject is OLM.
func (p *Prediction) Sentence() string {
	switch {
	case p.Reaction == Latest && p.OLM == V1:
		return "does nothing: the latest wanted version is installed"
	case p.Reaction == Latest:
		return "does nothing: the head of the channel is installed"
	case p.Reaction == Stranded:
		return "does nothing, and does not report it"
	case p.Reaction == Refused && p.OLM == V1:
		return "refuses, and reports it in the condition Progressing"
	case p.Reaction == Refused:
		return "refuses, for all Subscriptions of the namespace"
	case p.Next == nil:
		return "waits"
	case p.Installed == "":
		return "installs " + p.Next.Name
	}
	return fmt.Sprintf("updates to %s, %s", p.Next.Name, p.Next.reason("it"))
}

// head marks the last update if it ends at the head of the channel.
func (p *Prediction) head(last bool) string {
	switch {
	case !last || p.Next == nil || !p.ReachesHead:
		return ""
	case p.OLM == V1:
		return " (the latest wanted version)"
	}
	return " (the head of the channel)"
}

// reason names the upgrade edge from the previous version.
func (s Update) reason(before string) string {
	switch s.Edge {
	case upgrade.SkipRange:
		return fmt.Sprintf("whose skipRange %q includes %s", s.Range, before)
	case "":
		return "to which no upgrade edge leads"
	}
	return fmt.Sprintf("which %s %s", s.Edge, before)
}
