// Package trials lists the attacks on Berth, and the failures in a hand-over to the cluster storage operator, that
// tests try. It reads the output of `go test -json`, and reports the outcomes of a run: `make test-all` prints them.
// docs/reference/attacks.md and docs/move/adopt.md show the lists.
package trials

import (
	"fmt"
	"strings"
)

// Attack is one attack, and its defense.
type Attack struct {
	// Attack is the attacker's action, such as "create a DaemonSet with the driver's name and labels".
	Attack string
	// Stops is the defense.
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

// Areas are the areas of the project. Each has its own file here.
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

// attackTables returns the attacks in Markdown, with a section for each area. Attacks in succession with the same defense share a row.
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
