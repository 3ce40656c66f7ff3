package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// choiceFlags are the flags that say which findings of a command to report.
type choiceFlags struct {
	severities []string
	ignored    []string
	baseline   string
}

func (c *choiceFlags) addFlags(cmd *cobra.Command, rules []findings.Rule) {
	flags := cmd.Flags()
	flags.StringArrayVar(&c.severities, "severity", nil, "`RULE=SEVERITY` how bad it is to break a rule: error, warning or off (repeatable)")
	flags.StringArrayVar(&c.ignored, "ignore", nil, "`RULE[:PACKAGE]` rule to leave out, for one package or for all (repeatable)")
	flags.StringVar(&c.baseline, "baseline", "", "`file` with known findings, which -o json has written; they are left out")
	completeFlag(cmd, "severity", severitiesOf(rules))
	completeFlag(cmd, "ignore", scopesOf(rules))
}

// read reads the flags. The baseline is nil if none is given.
func (c *choiceFlags) read(cmd *cobra.Command, rules []findings.Rule) (findings.Choice, *findings.Baseline, error) {
	choice, err := findings.NewChoice(rules, c.severities, c.ignored)
	if err != nil {
		return choice, nil, &usageError{command: cmd.CommandPath(), err: err}
	}
	if c.baseline == "" {
		return choice, nil, nil
	}
	baseline, err := findings.ReadBaseline(c.baseline)
	return choice, baseline, err
}

// warnUnused warns of packages to ignore that are neither among those that were checked, nor in a finding.
func warnUnused(cmd *cobra.Command, choice findings.Choice, packages []string, found []*findings.Finding) {
	for _, f := range found {
		if f.Package != "" {
			packages = append(packages, f.Package)
		}
	}
	for _, said := range choice.Unused(packages) {
		cmd.PrintErrf("warning: %s\n", escape.Line(said))
	}
}

// printGone prints the number of findings in the baseline that are gone.
func (c *choiceFlags) printGone(cmd *cobra.Command, gone int) {
	if gone > 0 {
		cmd.PrintErrf("%s: %s no longer found; write it again with -o json, without --baseline\n", c.baseline, are(gone, "finding"))
	}
}

// knownFrom says in a summary how many findings a baseline has left out.
func (c *choiceFlags) knownFrom(known int) string {
	if c.baseline == "" {
		return ""
	}
	return fmt.Sprintf(", and %d known from %s", known, c.baseline)
}
