package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/findings"
)

// newBundleValidateCommand returns the command bundle validate, which runs the rules of package bundle/rules.
func newBundleValidateCommand() *cobra.Command {
	var output string
	var list bool
	cmd := &cobra.Command{
		Use:   "validate DIR...",
		Short: "Check bundle folders by the rules of OLM and OperatorHub",
		Long: `Check bundle folders of any origin: with the validators of the Operator Framework, and against what OLM
and consoles require in addition. --rules lists what is checked.

Findings are printed to standard output, one per line, as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and a summary for each folder to standard error. The other formats are for CI systems: json, sarif
and junit.`,
		Example: `  # One bundle
  berth bundle validate bundle/aws-efs-operator/1.0.0

  # All versions of a package
  berth bundle validate bundle/aws-efs-operator/*

  # For a CI system that shows findings next to the lines of a pull request
  berth bundle validate bundle/*-operator/* -o sarif > bundles.sarif`,
		Annotations: found("it found an error; warnings alone do not count"),
		Args: func(cmd *cobra.Command, dirs []string) error {
			if list {
				return checkRulesArgs(cmd, dirs, output)
			}
			return takes("DIR...")(cmd, dirs)
		},
		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if list {
				return findings.WriteRules(cmd.OutOrStdout(), output, rules.Rules())
			}
			return validateBundles(cmd, dirs, output)
		},
	}
	addRulesFlag(cmd, &list)
	addOutputFlag(cmd, &output, findings.Text, findings.Formats())
	return cmd
}

func validateBundles(cmd *cobra.Command, dirs []string, format string) error {
	report := findings.Report{Tool: cmd.CommandPath(), Subject: strings.Join(dirs, " "), Rules: rules.Rules()}
	var failures, invalid []error
	var summaries []string
	for _, dir := range dirs {
		stop := startProgress(cmd.ErrOrStderr(), "checking "+dir)
		found, err := rules.Check(dir)
		stop()
		if err != nil {
			failures = append(failures, err)
			continue
		}
		report.Findings = append(report.Findings, found...)
		faults := findings.Count(found, findings.Error)
		summaries = append(summaries, fmt.Sprintf("%s: %s, %s\n", dir, count(faults, "error"), count(len(found)-faults, "warning")))
		if faults > 0 {
			invalid = append(invalid, fmt.Errorf("bundle %s is not valid", dir))
		}
	}
	if err := report.Write(cmd.OutOrStdout(), format); err != nil {
		return err
	}
	for _, summary := range summaries {
		cmd.PrintErr(summary)
	}
	said := errors.Join(append(failures, invalid...)...)
	if len(failures) == 0 && said != nil {
		return &exitError{code: exitFound, err: said}
	}
	return said
}
