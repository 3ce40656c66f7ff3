package findings

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// RulesSchema is the name and version of the JSON of lists of rules.
const RulesSchema = "berth.rules.v1"

// RulesDocument is a list of rules in JSON.
type RulesDocument struct {
	Schema string `json:"schema"`
	Rules  []Rule `json:"rules"`
}

// RuleFormats are the formats of WriteRules.
var RuleFormats = []string{Text, "json"}

// WriteRules lists rules in one of the RuleFormats.
func WriteRules(w io.Writer, format string, rules []Rule) error {
	if format == "json" {
		return escape.JSON(w, RulesDocument{RulesSchema, rules})
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "RULE\tSEVERITY\tWHAT")
	for _, r := range rules {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.ID, r.Severity, r.What)
	}
	return table.Flush()
}
