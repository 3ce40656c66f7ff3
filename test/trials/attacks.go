// Package attacks lists attacks against Berth: what stops each of them, and the test that tries it. Each area of
// the project has its own file here. `make test-all` prints the table with the outcome of each attack in that run, and
// docs/attacks.md shows it.
package attacks

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Attack is one attack, and its defense.
type Attack struct {
	// Attack is what the attacker does, such as "create a DaemonSet with the driver's name and labels".
	Attack string
	// Stops is what stops it.
	Stops string
	// Test is the test that tries it: the folder of its package and its name in the output of `go test -json`, such
	// as "operator TestForgedNamespace/efs".
	Test string
}

// An area is a part of the project that is attacked.
type area struct {
	name    string
	attacks []Attack
}

type table []area

var all = table{
	{"The driver's operator", onOperator},
	{"SharedVolumes", onSharedVolumes},
	{"Memory, and what keeps a driver", onMemory},
	{"Switching an operator's catalog", onSwitch},
	{"Collecting what support needs", onSupport},
	{"Bundles, catalogs and images", onInputs},
	{"Catalogs and registries", onCatalogs},
	{"Reports", onReports},
	{"Servers", onServers},
	{"The cloud's account", onAccount},
}

// Outcome is the result of an attack in a run of the tests.
type Outcome string

const (
	Stopped    Outcome = "stopped"
	NotStopped Outcome = "NOT STOPPED"
	NotTried   Outcome = "not tried"
)

// Markdown returns the table in Markdown, with a section for each area, and a row for the attacks in succession that the same stops.
func Markdown() string {
	var text strings.Builder
	for _, area := range all {
		if len(area.attacks) == 0 {
			continue
		}
		fmt.Fprintf(&text, "## %s\n\n| attack | what stops it |\n| --- | --- |\n", area.name)
		for i := 0; i < len(area.attacks); {
			first, attacks := area.attacks[i], []string{}
			for ; i < len(area.attacks) && (len(attacks) == 0 || area.attacks[i].Stops == first.Stops || area.attacks[i].Stops == "as above"); i++ {
				attacks = append(attacks, area.attacks[i].Attack)
			}
			fmt.Fprintf(&text, "| %s | %s |\n", strings.Join(attacks, "; "), first.Stops)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// Report returns the table as text, with the outcome of each attack, and the attacks that were not stopped.
func Report(outcomes map[string]Outcome) (string, []Attack) { return all.report(outcomes) }

func (t table) report(outcomes map[string]Outcome) (string, []Attack) {
	var text strings.Builder
	var open []Attack
	width := 0
	for _, a := range t.attacks() {
		width = max(width, len([]rune(a.Attack)))
	}
	for _, area := range t {
		if len(area.attacks) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n%s\n", area.name)
		for _, a := range area.attacks {
			outcome := cmp.Or(outcomes[a.Test], NotTried)
			fmt.Fprintf(&text, "  %-11s  %-*s  %s\n", outcome, width, a.Attack, a.Stops)
			if outcome != Stopped {
				open = append(open, a)
			}
		}
	}
	return text.String(), open
}

// All returns the attacks of all areas.
func All() []Attack { return all.attacks() }

// Areas returns each area's name, and its attacks.
func Areas() iter.Seq2[string, []Attack] {
	return func(yield func(string, []Attack) bool) {
		for _, area := range all {
			if !yield(area.name, area.attacks) {
				return
			}
		}
	}
}

func (t table) attacks() []Attack {
	var attacks []Attack
	for _, area := range t {
		attacks = slices.Concat(attacks, area.attacks)
	}
	return attacks
}
