package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/internal/findings"
)

func newCatalogRulesCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List the rules that catalogs are checked by",
		Long: `List the rules of "berth catalog validate": what each one requires, how severe a violation is, and which profiles
refuse it. A rule whose profiles are in parentheses is checked only with --profile.`,
		Example: `  berth catalog rules

  # Why is there a rule?
  berth catalog rules -o json | jq -r '.rules[] | select(.id == "channel-path").why'`,
		Args:              takesNothing,
		ValidArgsFunction: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == findings.Text {
				return writeRulesTable(cmd.OutOrStdout(), catalogRules())
			}
			return findings.WriteRules(cmd.OutOrStdout(), output, catalogRules())
		},
	}
	addOutputFlag(cmd, &output, findings.Text, findings.RuleFormats)
	return cmd
}

// writeRulesTable lists rules, each with the profiles that refuse a catalog or bundle that breaks it.
func writeRulesTable(w io.Writer, rules []findings.Rule) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "RULE\tSEVERITY\tPROFILES\tWHAT")
	for _, r := range rules {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.ID, r.Severity, cmp.Or(profilesOf(r), "-"), r.What)
	}
	return table.Flush()
}

// profilesOf names the profiles of a rule, in parentheses if it applies only with one of them.
func profilesOf(r findings.Rule) string {
	var names []string
	for _, gate := range r.Gates {
		names = append(names, string(gate))
	}
	if text := strings.Join(names, ","); r.ByGates && text != "" {
		return "(" + text + ")"
	} else {
		return text
	}
}
