// Package trials lists what the tests try on Berth: attacks, and failures in a hand-over to the cluster storage operator. It reads what
// `go test -json` writes, and reports what a run has tried: `make test-all` prints that. docs/attacks.md and docs/adopt.md show the lists.
package trials

import (
	"fmt"
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

// Area is a part of the project that is attacked.
type Area struct {
	Name    string
	Attacks []Attack
}

// Areas are those of the project. Each has a file of its own here.
var Areas = []Area{
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

// attackTables returns the attacks in Markdown, with a section for each area, and a row for the attacks in succession that the same stops.
func attackTables() string {
	var text strings.Builder
	for _, area := range Areas {
		fmt.Fprintf(&text, "## %s\n\n| attack | what stops it |\n| --- | --- |\n", area.Name)
		for i := 0; i < len(area.Attacks); {
			first, attacks := area.Attacks[i], []string{}
			for ; i < len(area.Attacks) && (len(attacks) == 0 || area.Attacks[i].Stops == first.Stops || area.Attacks[i].Stops == "as above"); i++ {
				attacks = append(attacks, area.Attacks[i].Attack)
			}
			fmt.Fprintf(&text, "| %s | %s |\n", strings.Join(attacks, "; "), first.Stops)
		}
		text.WriteString("\n")
	}
	return text.String()
}
