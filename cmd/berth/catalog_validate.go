package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings"
)

// catalogValidate holds the flags of "berth catalog validate".
type catalogValidate struct {
	against    string
	severities []string
	ignored    []string
	baseline   string
	rules      bool
	output     string
}

func newCatalogValidateCommand() *cobra.Command {
	o := &catalogValidate{}
	cmd := &cobra.Command{
		Use:   "validate CATALOG",
		Short: "Check a catalog",
		Long: `Check a catalog and print all findings. Files that an .indexignore file excludes are left
out, as OLM does. --rules lists what is checked.

Findings are printed to standard output, one per line, as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and a summary to standard error. The other formats are for CI systems: json, sarif and junit.

With --against, the catalog is also compared with one that it replaces: what happens to clusters that
installed from that one, if the CatalogSource or the Subscription changes.

With --baseline, findings that an earlier report in JSON has are left out, wherever their lines are now.

` + aboutSources + `
Files of an image are named by their paths in it.`,
		Example: `  berth catalog validate catalog

  # No cluster that installed from the community catalog may be stranded
  berth catalog validate catalog/certified --against catalog/community

  # What is published
  berth catalog validate quay.io/operatorhubio/catalog:latest

  # For a CI system that shows findings next to the lines of a pull request
  berth catalog validate catalog -o sarif > catalog.sarif

  # Accept what is known today, and fail for what is new
  berth catalog validate catalog -o json > known.json
  berth catalog validate catalog --baseline known.json

  # Accept downgrades, and what one package does with its channels
  berth catalog validate catalog --severity replaces-downgrade=off --ignore channel-path:tide`,
		Annotations: found("it found an error that is not known; warnings alone do not count"),
		Args: func(cmd *cobra.Command, args []string) error {
			if o.rules {
				return checkRulesArgs(cmd, args, o.output)
			}
			return takes("CATALOG")(cmd, args)
		},
		ValidArgsFunction: completing(folders, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.rules {
				return findings.WriteRules(cmd.OutOrStdout(), o.output, catalogRules())
			}
			return o.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.against, "against", "", "`CATALOG` that this one replaces")
	flags.StringArrayVar(&o.severities, "severity", nil, "`RULE=SEVERITY` to report a rule with: error, warning or off (repeatable)")
	flags.StringArrayVar(&o.ignored, "ignore", nil, "`RULE[:PACKAGE]` to leave out, for one package or for all (repeatable)")
	flags.StringVar(&o.baseline, "baseline", "", "`FILE` with known findings, which -o json has written; they are left out")
	completeFlag(cmd, "against", folders)
	completeFlag(cmd, "severity", severitiesOf(catalogRules()))
	completeFlag(cmd, "ignore", scopesOf(catalogRules()))
	addRulesFlag(cmd, &o.rules)
	addOutputFlag(cmd, &o.output, findings.Text, findings.Formats())
	return cmd
}

// catalogRules are all rules for catalogs.
func catalogRules() []findings.Rule { return slices.Concat(rules.Rules, rules.AgainstRules) }

// addRulesFlag gives a command that checks rules the flag --rules.
func addRulesFlag(cmd *cobra.Command, list *bool) {
	cmd.Flags().BoolVar(list, "rules", false, "list the rules and check nothing; as text or json")
}

// checkRulesArgs fails unless rules can be listed in the format, and nothing else is asked for.
func checkRulesArgs(cmd *cobra.Command, args []string, format string) error {
	if !slices.Contains(findings.RuleFormats, format) {
		return fmt.Errorf("--output is %q, want one of %s with --rules", format, strings.Join(findings.RuleFormats, ", "))
	}
	return takesNothing(cmd, args)
}

func (o *catalogValidate) run(cmd *cobra.Command, dir string) error {
	choice, err := findings.NewChoice(catalogRules(), o.severities, o.ignored)
	if err != nil {
		return &usageError{command: cmd.CommandPath(), err: err}
	}
	var baseline *findings.Baseline
	if o.baseline != "" {
		if baseline, err = findings.ReadBaseline(o.baseline); err != nil {
			return err
		}
	}
	sayLinks(cmd, dir, o.against)
	report, summary, err := o.check(cmd, dir)
	if err != nil {
		return err
	}
	report = choice.Of(report)
	gone := 0
	if baseline != nil {
		report, gone = baseline.Of(report)
	}
	if err := report.Write(cmd.OutOrStdout(), o.output); err != nil {
		return err
	}
	faults := findings.Count(report.Findings, findings.Error)
	summary += fmt.Sprintf("; %s, %s", count(faults, "error"), count(len(report.Findings)-faults, "warning"))
	if baseline != nil {
		summary += fmt.Sprintf(", and %d known from %s", report.Known, o.baseline)
	}
	cmd.PrintErrln(summary)
	if gone > 0 {
		cmd.PrintErrf("%s: %s no longer found; write it again with -o json, without --baseline\n", o.baseline, are(gone, "finding"))
	}
	if faults > 0 {
		return &exitError{code: exitFound, err: fmt.Errorf("%s is not a valid catalog", dir)}
	}
	return nil
}

// check returns a report of all rules, and what the catalog has.
func (o *catalogValidate) check(cmd *cobra.Command, text string) (report findings.Report, summary string, err error) {
	defer startProgress(cmd.ErrOrStderr(), "reading "+text)()
	ctx := cmd.Context()
	opened, err := source.Open(ctx, text)
	if err != nil {
		return report, "", err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	c, found, err := fbc.Read(ctx, opened.Dir)
	if err != nil {
		return report, "", opened.Named(err)
	}
	c.Dir = text
	report = findings.Report{Tool: cmd.CommandPath(), Subject: text, Rules: rules.Rules, Findings: append(found, rules.Check(c)...)}
	if o.against != "" {
		against, err := o.checkAgainst(ctx, c)
		if err != nil {
			return report, "", err
		}
		report.Rules = catalogRules()
		report.Findings = append(report.Findings, against...)
	}
	opened.NameFindings(report.Findings)
	findings.Sort(report.Findings)
	return report, text + ": " + contents(c), nil
}

// checkAgainst compares the catalog with the one that it replaces.
func (o *catalogValidate) checkAgainst(ctx context.Context, c *fbc.Catalog) (found []*findings.Finding, err error) {
	opened, err := source.Open(ctx, o.against)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	before, err := rules.Load(ctx, opened.Dir)
	if err != nil {
		return nil, &headed{"the catalog to compare with is not valid:", opened.Named(err)}
	}
	found = rules.Against(c, before)
	opened.NameFindings(found)
	return found, nil
}

// contents summarizes a catalog.
func contents(c *fbc.Catalog) string {
	channels, bundles := 0, 0
	for _, p := range c.Packages {
		channels, bundles = channels+len(p.Channels), bundles+len(p.Bundles)
	}
	return fmt.Sprintf("%s, %s, %s", count(len(c.Packages), "package"), count(channels, "channel"), count(bundles, "bundle"))
}
