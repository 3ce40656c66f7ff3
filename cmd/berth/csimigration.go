package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/csimigration"
)

func newCSIMigrationCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "csi-migration",
		Short: "Switch CSI migration on and off in the right order",
		Long: `Switch CSI migration on and off in the right order. With it, Kubernetes hands volumes with in-tree sources to CSI
drivers. When it is switched on, the control plane has to come before the nodes; when it is switched off, after
them. Otherwise volumes stay attached for ever. The machine-config operator drains and restarts the nodes one by
one. No driver is installed or removed.

"status" shows where each component stands, and what a wrong order has stranded. "plan" shows what will happen.
"enable" and "disable" do it; "resume" continues after an interruption. While one direction is in progress, the
command of the other one undoes it.`,
		Example: `  berth csi-migration status
  berth csi-migration plan enable
  berth csi-migration enable`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCSIMigrationStatusCommand(), newCSIMigrationPlanCommand(), newCSIMigrationSwitchCommand(csimigration.Enable),
		newCSIMigrationSwitchCommand(csimigration.Disable), newCSIMigrationResumeCommand())
	return cmd
}

func newCSIMigrationStatusCommand() *cobra.Command {
	f, watch := &journalFlags{}, &watchFlag{}
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show where each component stands, and whether it is safe to go on",
		Long: `Show for each plugin where each component of the control plane and the kubelets stand, what differs, and which
volumes a wrong order has stranded, with the way out; then the migration in progress, if there is one.`,
		Example:           `  berth csi-migration status -o json`,
		Annotations:       found("it is not safe to go on"),
		Args:              takesNothing,
		ValidArgsFunction: nothing,
		RunE: f.onCluster(func(cmd *cobra.Command, _ []string, cluster migrate.Cluster) error {
			return showReport(cmd, watch, output, func(ctx context.Context) (migrate.Report, bool, error) {
				report, err := csimigration.Observe(ctx, cluster)
				switch {
				case err != nil:
					return nil, false, err
				case !report.Safe:
					err = &exitError{code: exitFound}
				}
				return report, report.Migration != nil || report.Waits != "", err
			})
		}),
	}
	addAdoptFlags(cmd, f)
	watch.add(cmd, untilDone)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

// csiMigrationFlags hold the flags that describe a switch of CSI migration.
type csiMigrationFlags struct {
	journalFlags
	way         string
	downgradeTo string
}

func (f *csiMigrationFlags) add(cmd *cobra.Command) {
	addAdoptFlags(cmd, &f.journalFlags)
	cmd.Flags().StringVar(&f.way, "way", "", fmt.Sprintf("`way` to tell the cluster, one of %q (default the first that the cluster allows)", csimigration.Ways))
}

func (f *csiMigrationFlags) addDowngrade(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.downgradeTo, "downgrade-to", "", "`version` of OpenShift that the cluster will be downgraded to: keep its nodes migrated meanwhile")
}

// request returns the request of the command line. The arguments are names of drivers.
func (f *csiMigrationFlags) request(direction csimigration.Direction, args []string) (csimigration.Request, error) {
	r := csimigration.Request{Direction: direction, Way: csimigration.Way(f.way), To: f.downgradeTo, Plugins: slices.Sorted(slices.Values(args))}
	if f.way != "" && !slices.Contains(csimigration.Ways, r.Way) {
		return r, fmt.Errorf("--way is %q, want one of %q", f.way, csimigration.Ways)
	}
	if f.downgradeTo != "" {
		if _, err := semver.Parse(f.downgradeTo); err != nil {
			return r, fmt.Errorf("--downgrade-to is %q, want a version, as in 4.11.0: %w%s", f.downgradeTo, err, nearest.Version(f.downgradeTo))
		}
		if len(args) > 0 || f.way != "" || direction != csimigration.Enable {
			return r, errors.New("--downgrade-to decides on all plugins and on the way: omit DRIVER and --way")
		}
		r.Direction = csimigration.Downgrade
	}
	known := csimigration.Drivers()
	for i, name := range r.Plugins {
		if !slices.Contains(known, name) || slices.Index(r.Plugins, name) != i {
			return r, fmt.Errorf("driver is %q, want some of %s, each once", name, strings.Join(known, ", "))
		}
	}
	return r, nil
}

func newCSIMigrationPlanCommand() *cobra.Command {
	f := &csiMigrationFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   "plan [enable | disable] [DRIVER...]",
		Short: "Show the plan: checks, steps, and the objects that will change",
		Long: `Show what it takes to switch CSI migration on, or with "disable" off. Nothing is written to the cluster. Without
names of drivers, all plugins are switched that the version of the cluster can switch. With --downgrade-to, show what
has to be done before the cluster is downgraded to that version.`,
		Example: `  berth csi-migration plan enable
  berth csi-migration plan disable -o json
  berth csi-migration plan --downgrade-to 4.11.0`,
		Annotations:       found("the plan is not safe to apply"),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completing(oneOf(append([]string{string(csimigration.Enable), string(csimigration.Disable)}, csimigration.Drivers()...)...), oneOf(csimigration.Drivers()...)),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.plan(cmd, args)
			return showPlan(cmd, output, p, err)
		},
	}
	f.add(cmd)
	f.addDowngrade(cmd)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

func (f *csiMigrationFlags) plan(cmd *cobra.Command, args []string) (*csimigration.Plan, error) {
	direction := csimigration.Enable
	if len(args) > 0 && slices.Contains([]csimigration.Direction{csimigration.Enable, csimigration.Disable}, csimigration.Direction(args[0])) {
		direction, args = csimigration.Direction(args[0]), args[1:]
	}
	r, err := f.request(direction, args)
	if err != nil {
		return nil, err
	}
	cluster, err := f.connect(cmd)
	if err != nil {
		return nil, err
	}
	defer startProgress(cmd.ErrOrStderr(), "reading the cluster")()
	return csimigration.Switch.Plan(cmd.Context(), cluster, r)
}

// csiMigrationSwitch is the command "berth csi-migration enable" or "disable".
type csiMigrationSwitch struct {
	csiMigrationFlags
	direction csimigration.Direction
	how       applyFlags
	accepted  bool
}

func newCSIMigrationSwitchCommand(direction csimigration.Direction) *cobra.Command {
	o := &csiMigrationSwitch{direction: direction}
	word, order := "on", "first in the control plane, and then on the nodes, which are drained one by one"
	if direction == csimigration.Disable {
		word, order = "off", "first on the nodes, which are drained one by one, and then in the control plane"
	}
	cmd := &cobra.Command{
		Use:        fmt.Sprintf("%s [DRIVER...]", direction),
		SuggestFor: []string{"rollback"}, // each undoes the other
		Short:      fmt.Sprintf("Switch CSI migration %s", word),
		Long: fmt.Sprintf(`Switch CSI migration %s: %s.
Nothing is changed if the plan is not safe. A journal in the cluster holds the plan; after an interruption, the same
command continues, or "resume". If the other direction is in progress, this command undoes it. When nothing is left
to do, it changes nothing.

Before it does what cannot be undone, it says so, and asks on a terminal; elsewhere it needs
--accept-irreversible.`, word, order),
		Example:           fmt.Sprintf("  berth csi-migration %s", direction),
		Annotations:       found("the plan is not safe, and nothing was changed"),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completing(oneOf(csimigration.Drivers()...)),
		RunE:              o.run,
	}
	o.add(cmd)
	o.how.run.add(cmd)
	cmd.Flags().BoolVar(&o.how.dryRun, "dry-run", false, "print the plan, send the first write to the API server as a dry run, and change nothing")
	if direction == csimigration.Enable {
		o.addDowngrade(cmd)
		cmd.Flags().BoolVar(&o.accepted, "accept-irreversible", false, "accept what cannot be taken back, without being asked")
	}
	return cmd
}

func (o *csiMigrationSwitch) run(cmd *cobra.Command, args []string) error {
	r, err := o.request(o.direction, args)
	if err != nil {
		return err
	}
	cluster, err := o.connect(cmd)
	if err != nil {
		return err
	}
	open, err := csimigration.Open(cmd.Context(), cluster)
	if err != nil {
		return err
	}
	if open != nil && r.Undoes(open) {
		return rollBack(cmd, csimigration.Switch, cluster, r, o.how.run, func(p *csimigration.Plan) string {
			return "CSI migration is as before: the migration is undone"
		})
	}
	ensure := func(ctx context.Context) (*csimigration.Plan, *migrate.Status[*csimigration.Plan], error) {
		p, status, err := csimigration.Switch.Ensure(ctx, cluster, r)
		if err == nil && status == nil && p.Safe && !o.how.dryRun {
			err = o.accept(cmd, p)
		}
		return p, status, err
	}
	return apply(cmd, csimigration.Switch, cluster, o.how, ensure, csiMigrationDone)
}

// accept asks the administrator to accept what cannot be undone. It fails unless the flag or the answer accepts it.
func (o *csiMigrationSwitch) accept(cmd *cobra.Command, p *csimigration.Plan) error {
	what := p.Irreversible()
	if what == "" || o.accepted {
		return nil
	}
	input, isFile := cmd.InOrStdin().(*os.File)
	if !isFile || !term.IsTerminal(int(input.Fd())) {
		return fmt.Errorf("%s: accept that with --accept-irreversible", what)
	}
	cmd.PrintErrf("%s.\nType yes to accept that: ", what)
	answer, err := bufio.NewReader(input).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return errors.New("it was not accepted; nothing was changed")
	}
	return nil
}

func csiMigrationDone(_ context.Context, _ migrate.Cluster, p *csimigration.Plan) string {
	switch {
	case len(p.Plugins) == 0:
		return "nothing to switch"
	case p.Direction == csimigration.Downgrade:
		return "the nodes stay migrated while the cluster is downgraded to version " + p.To
	case p.Direction == csimigration.Enable:
		return "CSI migration is on, in the control plane and on all nodes"
	}
	return "CSI migration is off, on all nodes and in the control plane; the drivers are still installed"
}

func newCSIMigrationResumeCommand() *cobra.Command {
	f, how := &journalFlags{}, applyFlags{}
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Continue what was interrupted",
		Long: `Continue what was interrupted, with the plan in its journal, in the direction in which it was going. The status is
shown first, on standard error. This command begins nothing.`,
		Example:           `  berth csi-migration resume`,
		Annotations:       found("the plan is not safe, and nothing was changed"),
		Args:              takesNothing,
		ValidArgsFunction: nothing,
		RunE: f.onCluster(func(cmd *cobra.Command, _ []string, cluster migrate.Cluster) error {
			s, err := csimigration.Switch.Status(cmd.Context(), cluster, csimigration.Request{})
			if err != nil {
				return err
			}
			if s.Phase == migrate.RollingBack {
				return rollBack(cmd, csimigration.Switch, cluster, csimigration.Request{}, how.run, func(*csimigration.Plan) string {
					return "CSI migration is as before: the migration is undone"
				})
			}
			if s.Phase == migrate.RolledBack {
				return errors.New("nothing was interrupted: the last migration was undone")
			}
			return apply(cmd, csimigration.Switch, cluster, how, func(context.Context) (*csimigration.Plan, *migrate.Status[*csimigration.Plan], error) {
				return s.Plan, s, nil
			}, csiMigrationDone)
		}),
	}
	addAdoptFlags(cmd, f)
	how.run.add(cmd)
	return cmd
}
