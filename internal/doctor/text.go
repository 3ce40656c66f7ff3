package doctor

import (
	"fmt"
	"strings"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Text describes the report for people. colour colours a mark by its verdict.
func (r *Report) Text(colour findings.Palette) string {
	var t escape.Lines
	if r.Namespace != "" {
		t.Add("Namespace %s", r.Namespace)
		describe(&t, r.Team, colour)
	} else {
		t.Add("Cluster")
		describe(&t, r.Cluster, colour)
	}
	for _, d := range r.Drivers {
		t.Add("")
		t.Add("Driver %s", d.Driver)
		describe(&t, d.Sections, colour)
	}
	t.Add("")
	verdict, conclusion := r.conclusion()
	t.AddMarked(colour.Mark(verdict), " %s", conclusion)
	return t.String()
}

func describe(t *escape.Lines, sections []Section, colour findings.Palette) {
	for _, s := range sections {
		t.Add("  %s", s.Subject)
		for _, result := range s.Results {
			t.AddMarked("    "+colour.Mark(result.Verdict), " %s", result.What)
			if result.Do != "" {
				t.Add("      do: %s", result.Do)
			}
		}
	}
}

// conclusion sums the report up.
func (r *Report) conclusion() (findings.Verdict, string) {
	counts := r.counts()
	switch {
	case r.Namespace == "" && len(r.Drivers) == 0 && counts[findings.Fault]+counts[findings.NotExamined] == 0:
		return findings.OK, "No driver is installed. How to install one: " + findings.Page("start/install.md")
	case counts[findings.Fault] > 0:
		return findings.Fault, fmt.Sprintf("%s, %s. Begin with the first fault: what follows may be due to it.", number(counts[findings.Fault], "fault"), number(counts[findings.Warning], "warning"))
	case counts[findings.NotExamined] > 0:
		return findings.NotExamined, "No fault was found, but not everything could be examined."
	case counts[findings.Warning] > 0:
		return findings.Warning, fmt.Sprintf("No fault was found; %s.", number(counts[findings.Warning], "warning"))
	}
	return findings.OK, "Everything is as it should be."
}

// counts counts the results by their verdict.
func (r *Report) counts() map[findings.Verdict]int {
	counts := map[findings.Verdict]int{}
	add := func(sections []Section) {
		for _, s := range sections {
			for _, result := range s.Results {
				counts[result.Verdict]++
			}
		}
	}
	add(r.Cluster)
	add(r.Team)
	for _, d := range r.Drivers {
		add(d.Sections)
	}
	return counts
}

// Faults reports whether there is a fault.
func (r *Report) Faults() bool { return r.counts()[findings.Fault] > 0 }

// are returns the verb for a number of things.
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// number counts things.
func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
