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

// catalogValidate holds the flags of "berth catalog validate".
type catalogValidate struct {
	against string
	output  string
}

func newCatalogValidateCommand() *cobra.Command {
	o := &catalogValidate{}
	cmd := &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a catalog",
		Long: `Check the catalog in a folder and print all findings. Files that an .indexignore file excludes are left
out, as OLM does.

Findings are printed to standard output, one per line, as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and a summary to standard error. The other formats are for CI systems: json, sarif and junit.

With --against, the catalog is also compared with one that it replaces: what happens to clusters that
installed from that one, if the CatalogSource or the Subscription changes.

Exit codes: 0 if there is no error, even if there are warnings; 1 if there is an error, or the folder
holds no catalog; 2 for a wrong command line.

The rules:
` + listRules(slices.Concat(rules.Rules, rules.AgainstRules)),
		Example: `  berth catalog validate catalog

  # No cluster that installed from the community catalog may be stranded
  berth catalog validate catalog/certified --against catalog/community

  # For a CI system that shows findings next to the lines of a pull request
  berth catalog validate catalog -o sarif > catalog.sarif`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&o.against, "against", "", "`DIR` of the catalog that this one replaces")
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
			return &headed{"the catalog to compare with is not valid:", err}
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

// contents summarizes a catalog.
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
