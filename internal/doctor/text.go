package doctor

import (
	"fmt"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// marks are the marks at the beginning of lines, by verdict.
var marks = map[Verdict]string{OK: "✔", Warning: "!", Fault: "✗", NotExamined: "?"}

// Text describes the report for people. colour colours a mark by its verdict.
func (r *Report) Text(colour func(Verdict, string) string) string {
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
	t.AddMarked(colour(verdict, marks[verdict]), " %s", conclusion)
	return t.String()
}

func describe(t *escape.Lines, sections []Section, colour func(Verdict, string) string) {
	for _, s := range sections {
		t.Add("  %s", s.Subject)
		for _, result := range s.Results {
			t.AddMarked("    "+colour(result.Verdict, marks[result.Verdict]), " %s", result.What)
			if result.Do != "" {
				t.Add("      do: %s", result.Do)
			}
		}
	}
}

// conclusion sums the report up.
func (r *Report) conclusion() (Verdict, string) {
	counts := r.counts()
	switch {
	case r.Namespace == "" && len(r.Drivers) == 0 && counts[Fault]+counts[NotExamined] == 0:
		return OK, "No driver is installed. How to install one: " + findings.Page("install.md")
	case counts[Fault] > 0:
		return Fault, fmt.Sprintf("%s, %s. Begin with the first fault: what follows may be due to it.", number(counts[Fault], "fault"), number(counts[Warning], "warning"))
	case counts[NotExamined] > 0:
		return NotExamined, "No fault was found, but not everything could be examined."
	case counts[Warning] > 0:
		return Warning, fmt.Sprintf("No fault was found; %s.", number(counts[Warning], "warning"))
	}
	return OK, "Everything is as it should be."
}

// counts counts the results by their verdict.
func (r *Report) counts() map[Verdict]int {
	counts := map[Verdict]int{}
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
func (r *Report) Faults() bool { return r.counts()[Fault] > 0 }

// are is the verb for a number of things.
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
	return fmt.Sprintf("%d %ss", n, what)
}
