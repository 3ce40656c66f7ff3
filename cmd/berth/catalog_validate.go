package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/olmv1"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/cmd/internal/memory"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
)

// catalogValidate holds the flags of "berth catalog validate".
type catalogValidate struct {
	profiles   []string
	against    string
	severities []string
	ignored    []string
	baseline   string
	fix        fixFlag
	rules      bool
	output     string
	v1         v1Check
	packages   []string // of all catalogs
}

func newCatalogValidateCommand() *cobra.Command {
	o := &catalogValidate{}
	cmd := &cobra.Command{
		Use:   "validate CATALOG...",
		Short: "Check catalogs",
		Long: `Check catalogs and print all findings. Files that an .indexignore file excludes are left
out, as OLM does. --rules lists what is checked.

Findings are printed to standard output, one per line, as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and to standard error a summary of each catalog, and what the errors mean for clusters. On a terminal, findings
are wrapped and have colours, unless NO_COLOR is set. The other formats are for CI systems: json, yaml, sarif and
junit.

With --against, the catalog is also compared with one that it replaces: what happens to clusters that
installed from that one, if the CatalogSource or the Subscription changes. CATALOG may be a pattern of several.

With --profile, findings for which the named gates refuse a catalog are errors, too. ` + aboutProfiles + ` A folder
such as v4.20 above a package says which version of OpenShift the package is for; elsewhere, profiles do.

With --for olm-v1, it also finds which bundles OLM v1 refuses, at which updates it refuses changed
CustomResourceDefinitions and, with --against, for which installed versions it does less than before.

With --baseline, findings that an earlier report in JSON has are left out, wherever their lines are now.

` + aboutFix + ` Catalogs must be folders.

` + aboutSources + `
Files of an image are named by their paths in it.`,
		Example: `  berth catalog validate catalog

  # No cluster that installed from the community catalog may be stranded
  berth catalog validate catalog/certified --against catalog/community

  # What OLM v1 of OpenShift 4.21 refuses, also of bundles that the catalog only describes
  berth catalog validate catalog --for olm-v1 --olm-version 4.21 --images

  # What is published
  berth catalog validate quay.io/operatorhubio/catalog:latest

  # For a CI system that shows findings next to the lines of a pull request
  berth catalog validate catalog -o sarif > catalog.sarif

  # Accept what is known today, and fail for what is new
  berth catalog validate catalog -o json > known.json
  berth catalog validate catalog --baseline known.json

  # What Konflux will say of a catalog for OpenShift 4.20 that replaces the released one
  berth catalog validate catalog --profile konflux --profile openshift-4.20 \
    --against quay.io/example/catalog:v4.20

  # Accept downgrades, and what one package does with its channels
  berth catalog validate catalog --severity replaces-downgrade=off --ignore channel-path:tide`,
		Annotations: found("it found an error that the baseline does not have; warnings alone do not count"),
		Args: func(cmd *cobra.Command, args []string) error {
			if o.rules {
				return checkRulesArgs(cmd, args, o.output)
			}
			if o.against != "" && len(args) > 1 {
				return errors.New("--against compares one CATALOG with another; name one")
			}
			if err := o.v1.check(); err != nil {
				return err
			}
			if err := o.fix.check(o.output); err != nil {
				return err
			}
			return takes("CATALOG...")(cmd, args)
		},
		ValidArgsFunction: completing(folders),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.rules {
				return findings.WriteRules(cmd.OutOrStdout(), o.output, catalogRules())
			}
			return o.run(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.against, "against", "", "`catalog` that this one replaces")
	addProfileFlag(cmd, &o.profiles)
	flags.StringArrayVar(&o.severities, "severity", nil, "`RULE=SEVERITY` how bad it is to break a rule: error, warning or off (repeatable)")
	flags.StringArrayVar(&o.ignored, "ignore", nil, "`RULE[:PACKAGE]` rule to leave out, for one package or for all (repeatable)")
	flags.StringVar(&o.baseline, "baseline", "", "`file` with known findings, which -o json has written; they are left out")
	o.fix.add(cmd)
	completeFlag(cmd, "against", folders)
	completeFlag(cmd, "severity", severitiesOf(catalogRules()))
	completeFlag(cmd, "ignore", scopesOf(catalogRules()))
	o.v1.add(cmd)
	addRulesFlag(cmd, &o.rules)
	addOutputFlag(cmd, &o.output, findings.Text, findings.Formats())
	return cmd
}

// catalogRules returns all rules for catalogs.
func catalogRules() []findings.Rule {
	return slices.Concat(rules.Rules, rules.GateRules, rules.AgainstRules, olmv1.Rules)
}

// addRulesFlag adds the flag --rules to a command that checks rules.
func addRulesFlag(cmd *cobra.Command, list *bool) {
	cmd.Flags().BoolVar(list, "rules", false, "list the rules and check nothing; as text or json")
}

// checkRulesArgs fails unless rules can be listed in the format, and there are no arguments: with --rules, nothing is checked.
func checkRulesArgs(cmd *cobra.Command, args []string, format string) error {
	if !slices.Contains(findings.RuleFormats, format) {
		return fmt.Errorf("--output is %q, want one of %s with --rules", format, strings.Join(findings.RuleFormats, ", "))
	}
	return takesNothing(cmd, args)
}

// checkGarbage is the garbage collector's target percentage while catalogs are checked: they are read once, so a higher target would only
// take memory.
const checkGarbage = 60

func (o *catalogValidate) run(cmd *cobra.Command, catalogs []string) error {
	memory.Tune(checkGarbage, 0)
	profile, err := parseProfiles(cmd, o.profiles)
	if err != nil {
		return err
	}
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
	catalogs = expanded(catalogs)
	sayLinks(cmd, append(slices.Clone(catalogs), o.against)...)
	whole := findings.Report{Tool: cmd.CommandPath(), Subject: strings.Join(catalogs, " ")}
	var checked []checkedCatalog
	var all []*findings.Finding
	for _, catalog := range catalogs {
		if err := o.fix.checkFolder(catalog); err != nil {
			return err
		}
		report, contents, err := o.check(cmd, catalog, profile)
		if err != nil {
			return err
		}
		all = append(all, report.Findings...)
		report = choice.Of(report)
		whole.Rules, whole.Findings = report.Rules, append(whole.Findings, report.Findings...)
		checked = append(checked, checkedCatalog{catalog, contents, report.Findings})
	}
	warnUnused(cmd, choice, o.packages, all)
	gone := 0
	if baseline != nil {
		whole, gone = baseline.Of(whole)
	}
	unknown := setOf(whole.Findings)
	whole, shown, err := o.fix.apply(cmd, whole, catalogs)
	if err != nil {
		return err
	}
	if !shown {
		if err := writeFindings(cmd, whole, o.output); err != nil {
			return err
		}
	}
	remaining := setOf(whole.Findings)
	var failed []error
	for _, c := range checked {
		left := slices.DeleteFunc(slices.Clone(c.found), func(f *findings.Finding) bool { return !remaining[f] })
		known := slices.DeleteFunc(slices.Clone(c.found), func(f *findings.Finding) bool { return unknown[f] })
		faults := findings.Count(left, findings.Error)
		summary := fmt.Sprintf("%s: %s; %s, %s", c.name, c.contents, count(faults, "error"), count(len(left)-faults, "warning"))
		if baseline != nil {
			summary += fmt.Sprintf(", and %d known from %s", len(known), o.baseline)
		}
		cmd.PrintErrln(summary)
		if faults > 0 {
			failed = append(failed, fmt.Errorf("%s: %s", c.name, strings.Join(rules.Verdict(left, o.profiles), "; ")))
		}
	}
	if gone > 0 {
		cmd.PrintErrf("%s: %s no longer found; write it again with -o json, without --baseline\n", o.baseline, are(gone, "finding"))
	}
	if len(failed) > 0 {
		return &exitError{code: exitFound, err: errors.Join(failed...)}
	}
	return nil
}

// checkedCatalog is a catalog with its report.
type checkedCatalog struct {
	name, contents string
	found          []*findings.Finding
}

func setOf(found []*findings.Finding) map[*findings.Finding]bool {
	set := map[*findings.Finding]bool{}
	for _, f := range found {
		set[f] = true
	}
	return set
}

// expanded returns the names of catalogs, with the matches of each pattern in its place. A pattern without a match stays.
func expanded(catalogs []string) (all []string) {
	for _, name := range catalogs {
		found, err := filepath.Glob(name)
		if _, missing := os.Lstat(name); err != nil || missing == nil || len(found) == 0 {
			found = []string{name}
		}
		all = append(all, found...)
	}
	return all
}

// check returns a report of all rules, and a summary of the catalog.
func (o *catalogValidate) check(cmd *cobra.Command, text string, profile gates.Profile) (report findings.Report, has string, err error) {
	defer startProgress(cmd.ErrOrStderr(), "reading "+text)()
	ctx := cmd.Context()
	opened, err := source.Open(ctx, text)
	if err != nil {
		return report, "", err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	c, found, err := fbc.Read(ctx, opened.Dir)
	if err != nil {
		return report, "", cmp.Or(source.Mistaken(text, source.WantCatalog), opened.Named(err))
	}
	if len(c.Packages) == 0 {
		if err := source.Mistaken(text, source.WantCatalog); err != nil {
			return report, "", err
		}
	}
	found = append(found, rules.Check(c)...)
	rules.Raise(found, profile)
	found = append(found, rules.CheckGates(c, rules.Options{Profile: profile})...)
	c.Dir = text
	for _, p := range c.Packages {
		o.packages = append(o.packages, p.Name)
	}
	report = findings.Report{Tool: cmd.CommandPath(), Subject: text, Rules: profile.Applied(slices.Concat(rules.Rules, rules.GateRules)), Findings: found}
	v1, done, err := o.v1.checker(cmd)
	if err != nil {
		return report, "", err
	}
	defer done()
	if v1 != nil {
		found, err := v1.Check(ctx, c)
		if err != nil {
			return report, "", opened.Named(err)
		}
		report.Rules = profile.Applied(catalogRules())
		report.Findings = append(report.Findings, found...)
	}
	if o.against != "" {
		against, err := o.checkAgainst(ctx, c, profile, v1)
		if err != nil {
			return report, "", err
		}
		report.Rules = profile.Applied(catalogRules())
		report.Findings = append(report.Findings, against...)
	}
	opened.NameFindings(report.Findings)
	findings.Sort(report.Findings)
	return report, contents(c), nil
}

// checkAgainst compares the catalog with the catalog of --against, which it will replace.
func (o *catalogValidate) checkAgainst(ctx context.Context, c *fbc.Catalog, profile gates.Profile, v1 *olmv1.Checker) (found []*findings.Finding, err error) {
	opened, err := source.Open(ctx, o.against)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	before, err := rules.Load(ctx, opened.Dir)
	if err != nil {
		return nil, cmp.Or[error](source.Mistaken(o.against, source.WantCatalog), &faults.Listed{Head: "the catalog to compare with is not valid:", Faults: opened.Named(err)})
	}
	found = append(rules.Against(c, before), rules.AgainstGates(c, before, profile)...)
	if v1 != nil {
		lost, err := v1.Against(ctx, c, before)
		if err != nil {
			return nil, opened.Named(err)
		}
		found = append(found, lost...)
	}
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
