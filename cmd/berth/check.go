package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1/cache/store"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/cmd/internal/memory"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/gates"
	"github.com/berth-csi/berth/internal/repository"
)

// check holds the flags of "berth check".
type check struct {
	since      string
	profiles   []string
	choice     choiceFlags
	showConfig bool
	fix        fixFlag
	rules      bool
	output     string
}

// newCheckCommand returns the command check, which checks a repository of operators.
func newCheckCommand() *cobra.Command {
	o := &check{}
	cmd := &cobra.Command{
		Use:   "check [REPOSITORY]",
		Short: "Check a repository of operators, or what a branch changes in it",
		Long: `Check the bundles and the catalogs of a repository of operators: operators/NAME/VERSION with a bundle each,
operators/NAME/ci.yaml, and catalogs/vX.Y/NAME, as the repositories of OpenShift's community and certified
catalogs have them. REPOSITORY is a folder (default the current one).

With --since, only what has changed since the branch left another one is checked, and the change as a whole.
Commits and files that are not committed yet count alike.

Without --profile, the checks of the repository's own pipeline apply, too, if config.yaml names a known organization.
` + aboutProfiles + `

` + repository.SettingsFile + ` in the repository has settings: profiles, severities (by rule), ignore (RULE or RULE:PACKAGE), baseline (a file
of the repository) and packages. --show-config shows what counts. In CI, where the variable CI is set, the settings and
config.yaml are those of the commit at which the branch began, if --since is given: no change decides how it is
checked.

` + aboutFix + `

What was found in bundles is kept in berth/checks of the user's cache, and bundles that have not changed are not
checked again.`,
		Example: `  # What your branch changes, before the pull request
  berth check --since main

  # For a CI system that shows findings next to the lines of a pull request
  berth check --since origin/main -o sarif > findings.sarif

  # What can be corrected mechanically: look at it, and write it
  berth check --since main --fix
  berth check --since main --fix=write

  # Everything, also by what Konflux and OpenShift 4.22 want
  berth check ~/community-operators --profile community --profile konflux --profile openshift-4.22`,
		Annotations: found("it found an error that the baseline does not have; warnings alone do not count"),
		Args: func(cmd *cobra.Command, args []string) error {
			if o.rules {
				return checkRulesArgs(cmd, args, o.output)
			}
			if err := o.fix.check(o.output); err != nil {
				return err
			}
			return takes("[REPOSITORY]")(cmd, args)
		},
		ValidArgsFunction: completing(folders, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.rules {
				return findings.WriteRules(cmd.OutOrStdout(), o.output, repository.Rules())
			}
			return o.run(cmd, append(args, ".")[0])
		},
	}
	cmd.Flags().StringVar(&o.since, "since", "", "`REF` check what has changed since the branch left this branch or commit")
	addProfileFlag(cmd, &o.profiles)
	o.choice.addFlags(cmd, repository.Rules())
	o.fix.add(cmd)
	cmd.Flags().BoolVar(&o.showConfig, "show-config", false, "show the settings that count, and check nothing")
	addRulesFlag(cmd, &o.rules)
	addOutputFlag(cmd, &o.output, findings.Text, findings.Formats())
	return cmd
}

// aboutProfiles is part of the help of commands with the flag --profile.
const aboutProfiles = `A profile is what a gate refuses: community (OpenShift's community catalog), certified (its certified
catalog, with preflight), konflux (catalogs that Konflux builds), operatorhub (operatorhub.io), and openshift-4.20 or
another version of OpenShift that has to install the bundles.`

// addProfileFlag gives a command that checks bundles or catalogs the flag --profile.
func addProfileFlag(cmd *cobra.Command, profiles *[]string) {
	cmd.Flags().StringArrayVar(profiles, "profile", nil, "`name` of a gate whose rules count, too: community, certified, konflux, operatorhub or openshift-4.20 with any version (repeatable)")
	completeFlag(cmd, "profile", oneOf(gates.Names()...))
}

// parseProfiles returns the profile that the flag --profile names.
func parseProfiles(cmd *cobra.Command, names []string) (gates.Profile, error) {
	p, err := gates.Parse(names)
	if err != nil {
		return p, &usageError{command: cmd.CommandPath(), err: fmt.Errorf("--profile: %w", err)}
	}
	return p, nil
}

// checkPlan says which parts are checked, and how.
type checkPlan struct {
	repository *repository.Repository
	settings   repository.Settings
	from       string             // where the settings were read, for --show-config
	file       repository.File    // reads files of the repository: its settings and the baseline
	base       *repository.Commit // nil if everything is checked
	profile    gates.Profile
	choice     findings.Choice
	baseline   *findings.Baseline
}

// bundlesGarbage is the garbage collector's target percentage while bundles are checked: at the default, 100, collection takes a fifth of
// the time.
const bundlesGarbage = 200

func (o *check) run(cmd *cobra.Command, dir string) error {
	memory.Tune(bundlesGarbage, 0)
	p, err := o.plan(cmd, dir)
	if err != nil {
		return err
	}
	if o.showConfig {
		return p.show(cmd)
	}
	report, change, summary, err := o.report(cmd, p)
	if err != nil {
		return err
	}
	all := len(report.Findings)
	gone := 0
	if p.baseline != nil {
		report, gone = p.baseline.Of(report)
	}
	known := ""
	if p.baseline != nil {
		known = fmt.Sprintf(", and %d known", all-len(report.Findings))
	}
	report, shown, err := o.fix.apply(cmd, report, []string{dir})
	if err != nil {
		return err
	}
	if !shown {
		if err := writeFindings(cmd, report, o.output); err != nil {
			return err
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), change); err != nil {
			return err
		}
	}
	faults := findings.Count(report.Findings, findings.Error)
	cmd.PrintErrf("%s: %s; %s, %s%s\n", dir, summary, count(faults, "error"), count(len(report.Findings)-faults, "warning"), known)
	o.choice.printGone(cmd, gone)
	if faults > 0 {
		return &exitError{code: exitFound, err: fmt.Errorf("%s: %s", dir, refusedBy(p.profile, faults))}
	}
	return nil
}

// refusedBy says which gates refuse the files because of the errors.
func refusedBy(p gates.Profile, faults int) string {
	by := "OLM or an API server"
	if names := p.Names(); len(names) > 0 {
		by = strings.Join(names, ", ") + ", " + by
	}
	return fmt.Sprintf("%s, for which %s will refuse the files", count(faults, "error"), by)
}

// plan decides from the flags and the repository's settings which parts are checked, and how.
func (o *check) plan(cmd *cobra.Command, dir string) (p checkPlan, err error) {
	p.file = repository.In(dir)
	p.from = "the folder"
	var config []byte
	if o.since != "" {
		if p.base, err = repository.Since(cmd.Context(), dir, o.since); err != nil {
			return p, err
		}
		if os.Getenv("CI") != "" {
			p.file, p.from = p.base.Read, "the commit at which the branch left "+o.since
			if config, err = p.base.Read(repository.ConfigFile); errors.Is(err, fs.ErrNotExist) {
				config = []byte{}
			} else if err != nil {
				return p, err
			}
		}
	}
	if p.repository, err = repository.Open(dir, config); err != nil {
		if errors.As(err, new(repository.WithinError)) {
			return p, err
		}
		return p, cmp.Or(source.Mistaken(dir, source.WantRepository), err)
	}
	given := false
	if p.settings, given, err = repository.ReadSettings(p.file); err != nil {
		return p, err
	}
	if !given {
		p.from = "no file " + repository.SettingsFile + " in " + p.from
	}
	names := o.profiles
	if len(names) == 0 {
		names = p.settings.Profiles
	}
	if len(names) == 0 {
		names = p.repository.Profiles()
	}
	if p.profile, err = parseProfiles(cmd, names); err != nil {
		return p, err
	}
	p.settings.Profiles = p.profile.Names()
	for rule, severity := range p.settings.Severities {
		o.choice.severities = append([]string{rule + "=" + string(severity)}, o.choice.severities...)
	}
	slices.Sort(o.choice.severities[:len(p.settings.Severities)])
	o.choice.ignored = append(slices.Clone(p.settings.Ignore), o.choice.ignored...)
	if p.choice, p.baseline, err = o.choice.read(cmd, repository.Rules()); err != nil || p.baseline != nil || p.settings.Baseline == "" {
		return p, err
	}
	o.choice.baseline = p.settings.Baseline
	data, err := p.file(p.settings.Baseline)
	if err != nil {
		return p, fmt.Errorf("%s: baseline: %w", repository.SettingsFile, err)
	}
	p.baseline, err = findings.ParseBaseline(p.settings.Baseline, data)
	return p, err
}

// show prints the settings that are in effect.
func (p checkPlan) show(cmd *cobra.Command) error {
	var severities []string
	for _, rule := range slices.Sorted(maps.Keys(p.settings.Severities)) {
		severities = append(severities, rule+"="+string(p.settings.Severities[rule]))
	}
	out := cmd.OutOrStdout()
	_, err := fmt.Fprintf(out, "from: %s\n", escape.Line(p.from))
	for _, setting := range []struct {
		name   string
		values []string
	}{{"profiles", p.settings.Profiles}, {"severities", severities}, {"ignore", p.settings.Ignore}, {"baseline", []string{p.settings.Baseline}}, {"packages", p.settings.Packages}} {
		if text := strings.Join(setting.values, ", "); text != "" {
			_, err = fmt.Fprintf(out, "%s: %s\n", setting.name, escape.Line(text))
		}
	}
	return err
}

// report checks the selected parts. It also returns a description of the change, for Markdown, and a summary of what it checked.
func (o *check) report(cmd *cobra.Command, p checkPlan) (report findings.Report, changed, summary string, err error) {
	report = findings.Report{Tool: cmd.CommandPath(), Subject: p.repository.Dir, Rules: p.profile.Applied(repository.Rules())}
	selection := p.repository.All()
	var shape []*findings.Finding
	var change repository.Change
	if p.base != nil {
		files, err := p.base.Changed()
		if err != nil {
			return report, "", "", err
		}
		if change, err = p.repository.ChangeOf(files, p.base); err != nil {
			return report, "", "", err
		}
		selection, shape = p.repository.Selection(change), p.repository.CheckChange(change, p.profile)
	}
	selection = selection.Only(p.settings.Packages)
	operators, bundles, packages := selection.Count()
	summary = fmt.Sprintf("%s, %s, %s", count(operators, "operator"), count(bundles, "bundle"), count(packages, "package")+" in catalogs")
	stop := startProgress(cmd.ErrOrStderr(), "checking "+summary)
	defer stop()
	kept, closeStore, err := keptChecks()
	if err != nil {
		return report, "", "", err
	}
	found, err := p.repository.Check(cmd.Context(), selection, repository.Options{Profile: p.profile, Kept: kept})
	if err == nil && p.base != nil && o.output == findings.Markdown {
		changed, err = p.repository.Summary(cmd.Context(), change, p.base, kept)
	}
	if err := closeStore(); err != nil {
		cmd.PrintErrf("warning: %v\n", err)
	}
	if err != nil {
		return report, "", "", err
	}
	report.Findings = append(found, shape...)
	findings.Sort(report.Findings)
	stop()
	all := p.repository.All()
	known := slices.Collect(maps.Keys(all.Bundles))
	for _, of := range all.Packages {
		known = append(known, of.Name)
	}
	warnUnused(cmd, p.choice, known, report.Findings)
	return p.choice.Of(report), changed, summary, nil
}

// The limits of the cache, in bytes: in total, and for one result.
const (
	checksLimit  = 256 << 20
	longestCheck = 4 << 20
)

// keptChecks returns the results of earlier checks, and a function that closes their store. Without a cache folder, the results are nil.
func keptChecks() (kept *repository.Kept, closeStore func() error, err error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, func() error { return nil }, nil // everything is checked again each time
	}
	// Another build of the program may have other results. Time and size of the file identify the build, even one from uncommitted changes.
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	info, err := os.Stat(program)
	if err != nil {
		return nil, nil, err
	}
	checks := &store.Store{What: "checks", Dir: filepath.Join(base, "berth", "checks"), Suffix: ".v1.json", Limit: checksLimit, Longest: longestCheck}
	return &repository.Kept{Program: fmt.Sprintf("%s %d %d", program, info.Size(), info.ModTime().UnixNano()), Store: checks}, checks.Close, nil
}
