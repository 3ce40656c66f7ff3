package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/catalog/olmv1"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
)

// bundleValidate holds the flags of "berth bundle validate".
type bundleValidate struct {
	profiles []string
	choice   choiceFlags
	fix      fixFlag
	rules    bool
	output   string
	v1       v1Check
}

// newBundleValidateCommand returns the command bundle validate, which runs the rules of package bundle/rules.
func newBundleValidateCommand() *cobra.Command {
	o := &bundleValidate{}
	cmd := &cobra.Command{
		Use:   "validate BUNDLE...",
		Short: "Check bundles by the rules of the API server, OLM and OperatorHub",
		Long: `Check bundles of any origin by what the API server, OLM and consoles require, and with the validators of the
Operator Framework. --rules lists what is checked. An error is what OLM, its tools or the API server refuse;
everything else is a warning.

With --profile, findings for which the named gates refuse a bundle are errors, too. ` + aboutProfiles + `
"berth check" also looks at all bundles of an operator together.

A bundle is a folder or an image: docker://REFERENCE, or just REFERENCE. Images are pulled without a container
engine, with the credentials of ~/.docker/config.json or Podman's auth.json.

Findings are printed to standard output, one per line, as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and a summary for each bundle to standard error. On a terminal, findings are wrapped and have colours, unless NO_COLOR
is set. The other formats are for CI systems: json, yaml, sarif and junit. Files of an image are named by the reference and their paths in it.

With --for olm-v1, it also finds why OLM v1 refuses the bundle.

With --baseline, findings that an earlier report in JSON has are left out, wherever their lines are now.

` + aboutFix + ` Bundles must be folders.`,
		Example: `  # One bundle
  berth bundle validate bundle/aws-efs-operator/1.0.0

  # All versions of a package
  berth bundle validate bundle/aws-efs-operator/*

  # Whether OLM v1 of OpenShift 4.21 installs it
  berth bundle validate bundle/aws-efs-operator/1.0.0 --for olm-v1 --olm-version 4.21

  # What is published
  berth bundle validate quay.io/example/aws-efs-operator-bundle:v1.0.1

  # For a CI system that shows findings next to the lines of a pull request
  berth bundle validate bundle/*-operator/* -o sarif > bundles.sarif

  # Accept what is known today, and fail for what is new
  berth bundle validate bundle/aws-efs-operator/1.0.0 -o json > known.json
  berth bundle validate bundle/aws-efs-operator/1.0.0 --baseline known.json

  # What the pipeline of OpenShift's certified catalog will say
  berth bundle validate bundle/tide/1.0.0 --profile certified

  # Insist on what OperatorHub shows, and accept the annotations of one package
  berth bundle validate bundle/tide/1.0.0 --severity operatorhubv2=error \
    --ignore olm-annotations:tide`,
		Annotations: found("it found an error that the baseline does not have; warnings alone do not count"),
		Args: func(cmd *cobra.Command, bundles []string) error {
			if o.rules {
				return checkRulesArgs(cmd, bundles, o.output)
			}
			if err := o.v1.check(); err != nil {
				return err
			}
			if err := o.fix.check(o.output); err != nil {
				return err
			}
			return takes("BUNDLE...")(cmd, bundles)
		},
		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, bundles []string) error {
			if o.rules {
				return findings.WriteRules(cmd.OutOrStdout(), o.output, bundleRules())
			}
			return o.run(cmd, bundles)
		},
	}
	addProfileFlag(cmd, &o.profiles)
	o.choice.addFlags(cmd, bundleRules())
	o.fix.add(cmd)
	o.v1.addTarget(cmd)
	o.v1.addGates(cmd)
	addRulesFlag(cmd, &o.rules)
	addOutputFlag(cmd, &o.output, findings.Text, findings.Formats())
	return cmd
}

func (o *bundleValidate) run(cmd *cobra.Command, bundles []string) error {
	profile, err := parseProfiles(cmd, o.profiles)
	if err != nil {
		return err
	}
	choice, baseline, err := o.choice.read(cmd, bundleRules())
	if err != nil {
		return err
	}
	report := findings.Report{Tool: cmd.CommandPath(), Subject: strings.Join(bundles, " "), Rules: profile.Applied(bundleRules())}
	var said []error
	failed := false
	of := map[*findings.Finding]string{} // the bundle that has a finding
	chosen := map[string]int{}
	var checked []string
	for _, text := range bundles {
		if err := o.fix.checkFolder(text); err != nil {
			return err
		}
		stop := startProgress(cmd.ErrOrStderr(), "checking "+text)
		found, err := o.check(cmd.Context(), text, rules.Options{Profile: profile})
		stop()
		if err != nil {
			said, failed = append(said, err), true
			continue
		}
		checked = append(checked, text)
		reported := choice.Of(findings.Report{Findings: found}).Findings
		for _, f := range reported {
			of[f] = text
		}
		chosen[text] = len(reported)
		report.Findings = append(report.Findings, reported...)
	}
	report.Rules = choice.Of(findings.Report{Rules: report.Rules}).Rules
	gone := 0
	if baseline != nil {
		report, gone = baseline.Of(report)
	}
	unknown := map[string]int{}
	for _, f := range report.Findings {
		unknown[of[f]]++
	}
	report, shown, err := o.fix.apply(cmd, report, checked)
	if err != nil {
		return err
	}
	if !shown {
		if err := writeFindings(cmd, report, o.output); err != nil {
			return err
		}
	}
	left := map[string][]*findings.Finding{}
	for _, f := range report.Findings {
		left[of[f]] = append(left[of[f]], f)
	}
	for _, text := range checked {
		faults := findings.Count(left[text], findings.Error)
		cmd.PrintErrf("%s: %s, %s%s\n", text, count(faults, "error"), count(len(left[text])-faults, "warning"), o.choice.knownFrom(chosen[text]-unknown[text]))
		if faults > 0 {
			said = append(said, fmt.Errorf("bundle %s is not valid", text))
		}
	}
	o.choice.printGone(cmd, gone)
	if err := errors.Join(said...); failed || err == nil {
		return err
	}
	return &exitError{code: exitFound, err: errors.Join(said...)}
}

// bundleRules returns all rules for bundles.
func bundleRules() []findings.Rule { return append(rules.Rules(), olmv1.Refused) }

// check checks a folder or an image.
func (o *bundleValidate) check(ctx context.Context, text string, options rules.Options) (found []*findings.Finding, err error) {
	opened, err := source.OpenAny(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	load, validate := func() (*registryv1.Contents, error) { return registryv1.Load(opened.Dir) }, func() ([]*findings.Finding, error) { return rules.Check(opened.Dir, options) }
	if pulled := opened.Bundle; pulled != nil {
		load = func() (*registryv1.Contents, error) { return registryv1.LoadImage(pulled.Reference, pulled.Files) }
		validate = func() ([]*findings.Finding, error) { return rules.CheckImage(pulled.Reference, pulled.Files, options) }
	}
	if found, err = validate(); err != nil {
		return nil, cmp.Or(source.Mistaken(text, source.WantBundle), err)
	}
	if o.v1.target == "" {
		return found, nil
	}
	contents, err := load()
	if err != nil { // validate has already reported why
		return found, nil
	}
	refused, err := o.v1.refusedByV1(contents)
	if err != nil {
		return nil, err
	}
	found = append(found, refused...)
	findings.Sort(found)
	return found, nil
}
