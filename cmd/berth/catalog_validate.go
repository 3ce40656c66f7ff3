package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings"
)

// catalogValidate is the command line of "berth catalog validate".
type catalogValidate struct {
	against string
	output  string
}

func newCatalogValidateCommand() *cobra.Command {
	o := &catalogValidate{}
	cmd := &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a catalog",
		Long: `Read the catalog in a folder and print everything that is wrong with it, as OLM sees it. Files that
an .indexignore file excludes are left out, as OLM does.

Findings are printed to standard output, one a line, as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and a summary to standard error. The other formats are for CI systems: json, sarif and junit.

With --against, the catalog is also held against one that it takes the place of: what becomes of
clusters that have installed from that one, if the CatalogSource or the Subscription changes.

Exit codes: 0 if there is no error, though there may be warnings; 1 if there is one, or the folder
holds no catalog; 2 for a wrong command line.

The rules:
` + listRules(slices.Concat(rules.Rules, rules.AgainstRules)),
		Example: `  berth catalog validate catalog

  # Nobody who has installed from the community catalog may be left behind
  berth catalog validate catalog/certified --against catalog/community

  # For a CI system that shows findings beside the lines of a pull request
  berth catalog validate catalog -o sarif > catalog.sarif`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&o.against, "against", "", "`DIR` of the catalog that this one takes the place of")
	addOutputFlag(cmd, &o.output, findings.Text, findings.Formats())
	return cmd
}

func (o *catalogValidate) run(cmd *cobra.Command, dir string) error {
	stop := startProgress(cmd.ErrOrStderr(), "reading "+dir)
	defer stop()
	c, found, err := fbc.Read(cmd.Context(), dir)
	if err != nil {
		return err
	}
	report := findings.Report{Tool: cmd.CommandPath(), Subject: dir, Rules: rules.Rules}
	report.Findings = append(found, rules.Check(c)...)
	if o.against != "" {
		before, err := rules.Load(cmd.Context(), o.against)
		if err != nil {
			return &headed{"the catalog to hold it against is not valid:", err}
		}
		report.Rules = append(slices.Clone(report.Rules), rules.AgainstRules...)
		report.Findings = append(report.Findings, rules.Against(c, before)...)
	}
	stop()
	findings.Sort(report.Findings)
	if err := report.Write(cmd.OutOrStdout(), o.output); err != nil {
		return err
	}
	faults := findings.Count(report.Findings, findings.Error)
	cmd.PrintErrf("%s: %s; %s, %s\n", dir, contents(c), count(faults, "error"), count(len(report.Findings)-faults, "warning"))
	if faults > 0 {
		return fmt.Errorf("%s is not a valid catalog", dir)
	}
	return nil
}

// contents says in a few words what a catalog holds.
func contents(c *fbc.Catalog) string {
	channels, bundles := 0, 0
	for _, p := range c.Packages {
		channels, bundles = channels+len(p.Channels), bundles+len(p.Bundles)
	}
	return fmt.Sprintf("%s, %s, %s", count(len(c.Packages), "package"), count(channels, "channel"), count(bundles, "bundle"))
}

// listRules lists rules for a help text.
func listRules(all []findings.Rule) string {
	var text strings.Builder
	for _, r := range all {
		fmt.Fprintf(&text, "  %-22s %s\n", r.ID, r.What)
	}
	return strings.TrimRight(text.String(), "\n")
}
