package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

// switchApply is the command "berth switch apply".
type switchApply struct {
	switchFlags
	run    runFlags
	file   string
	dryRun bool
}

func newSwitchApplyCommand() *cobra.Command {
	o := &switchApply{}
	cmd := &cobra.Command{
		Use:   "apply (PACKAGE --to CATALOG_SOURCE | -f PLAN)",
		Short: "Switch an operator to another catalog",
		Long: `Switch an operator to another catalog, as "berth switch plan" predicts. Nothing is changed if the plan is
not safe, or if the cluster has changed since the plan in a file was made.

Each write fails if the object has changed since it was observed. A journal in the cluster, a ConfigMap in
a namespace that only administrators can write to, holds the plan. After an interruption, the same command
continues, and shows on standard error what it continues. It stops if the journal differs from the command
line or the cluster. When the switch is complete, it changes nothing.

Until the switch is complete, OLM asks for approval for all Subscriptions of the namespace. It installs
nothing that is not in the plan.

Exit codes: 0 if the switch is complete, or with --wait=false if there is nothing to do but to wait; 1 if it
is not safe, or cannot continue; 2 if the command line or the plan in the file is invalid; 124 if it timed out.`,
		Example: `  # Switch, and have the operator adopt the driver
  berth switch apply aws-efs-operator --to certified-operators --create-driver

  # Apply exactly the plan that was reviewed
  berth switch apply -f plan.json`,
		Args: o.checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.complete(args[0])
			}
			return o.apply(cmd)
		},
	}
	o.switchFlags.add(cmd)
	o.run.add(cmd)
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "`FILE` with a plan that \"berth switch plan -o json\" has written, or - for standard input")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the plan, send the first write to the API server as a dry run, and change nothing")
	return cmd
}

func (o *switchApply) checkArgs(cmd *cobra.Command, args []string) error {
	if o.file == "" {
		return o.switchFlags.checkArgs(cmd, args)
	}
	if len(args) > 0 || o.to != "" || o.request != (subscription.Request{}) || o.namespace != "" {
		return errors.New("--filename names a complete plan: omit PACKAGE, --to, --channel, --new-package, --create-driver and --namespace")
	}
	return nil
}

func (o *switchApply) apply(cmd *cobra.Command) error {
	given, err := o.readPlan(cmd.InOrStdin())
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	cluster, err := o.connect(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := o.run.limit(cmd.Context())
	defer cancel()
	stop := startProgress(cmd.ErrOrStderr(), "reading the cluster and its catalogs")
	p, resumed, err := o.ensure(ctx, cluster, given)
	stop()
	if err != nil {
		return finish(ctx, cmd, err, "", "")
	}
	if resumed != nil {
		if err := migrate.Write(cmd.ErrOrStderr(), "text", resumed, palette(cmd.ErrOrStderr())); err != nil {
			return err
		}
	}
	if !p.Safe || o.dryRun {
		if err := migrate.Write(cmd.OutOrStdout(), "text", p, palette(cmd.OutOrStdout())); err != nil {
			return err
		}
	}
	if !p.Safe {
		return &exitError{code: exitFailed}
	}
	shown := newProgress(cmd)
	err = subscription.Switch.Apply(ctx, cluster, p, migrate.Options{DryRun: o.dryRun, NoWait: !o.run.wait, Report: shown.report})
	shown.end()
	done := fmt.Sprintf("Subscription %s is to %s: the switch is complete", p.Subject, p.To)
	if o.dryRun {
		done = "dry run: the API server has accepted the first write, and nothing was changed"
	}
	if err == nil && !o.dryRun {
		remark, err := p.Remark(ctx, cluster.Client)
		if err != nil {
			remark = fmt.Sprintf("; not known on which nodes the driver is not up to date: %v", err)
		}
		done += remark
	}
	return finish(ctx, cmd, err, done, subscription.Switch.Command(cluster, p, "status"))
}

// ensure returns the plan to apply, with its status if it is resumed. given may be nil.
func (o *switchApply) ensure(ctx context.Context, cluster migrate.Cluster, given *subscription.Plan) (*subscription.Plan, *migrate.Status[*subscription.Plan], error) {
	if given == nil {
		return subscription.Switch.Ensure(ctx, cluster, o.request)
	}
	return subscription.Switch.EnsureGiven(ctx, cluster, given.Request(), given)
}

// readPlan returns the plan in the file, or nil if there is no file.
func (o *switchApply) readPlan(stdin io.Reader) (*subscription.Plan, error) {
	if o.file == "" {
		return nil, nil
	}
	from, reader := "standard input", stdin
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from, reader = o.file, file
	}
	p, err := subscription.Switch.Read(reader)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return p, nil
}
