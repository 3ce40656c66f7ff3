package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate/switchover"
)

// switchApply is the command line of "berth switch apply".
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
		Long: `Switch an operator to another catalog, as "berth switch plan" foretells. A switch that is not safe is
not begun, and neither is one by a plan in a file if the cluster is not as it was when that was made.

Each write is made only if what it changes is as it was last seen. A journal in the cluster, a ConfigMap
in a namespace that only administrators write to, holds the plan: the same command goes on where it was
stopped, however that came, and shows on standard error what it goes on with. It does not if the journal
says something else than the command line or the cluster. Where all is done, it changes nothing.

While it lasts, OLM asks for approval for all Subscriptions of the namespace. OLM installs nothing that
was not foretold.

Exit codes: 0 if all is done, or with --wait=false all that can be done now; 1 if it is not safe, or
cannot go on; 2 if the command line is wrong, or the file has no plan; 124 if time ran out.`,
		Example: `  # Switch, and have the operator take over the driver
  berth switch apply aws-efs-operator --to certified-operators --create-driver

  # As it was planned, or not at all
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
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "`FILE` with the plan, as \"berth switch plan -o json\" writes it, or - for standard input")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the plan, have the API server check the first write, and change nothing")
	return cmd
}

func (o *switchApply) checkArgs(cmd *cobra.Command, args []string) error {
	if o.file == "" {
		return o.switchFlags.checkArgs(cmd, args)
	}
	if len(args) > 0 || o.to != "" || o.request != (switchover.Request{}) || o.namespace != "" {
		return errors.New("--filename names a plan, which says all: leave PACKAGE, --to, --channel, --new-package, --create-driver and --namespace away")
	}
	return nil
}

func (o *switchApply) apply(cmd *cobra.Command) error {
	given, err := o.given(cmd.InOrStdin())
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
	p, resumed, err := switchover.Ensure(ctx, cluster, o.request, given)
	stop()
	if err != nil {
		return ended(ctx, cmd, err, "")
	}
	if resumed != nil {
		if err := switchover.Write(cmd.ErrOrStderr(), "text", resumed, paletteOf(cmd.ErrOrStderr())); err != nil {
			return err
		}
	}
	if !p.Safe || o.dryRun {
		if err := switchover.Write(cmd.OutOrStdout(), "text", p, palette(cmd)); err != nil {
			return err
		}
	}
	if !p.Safe {
		return &exitError{code: exitFailed}
	}
	told := narrate(cmd, p)
	err = switchover.Apply(ctx, cluster, p, switchover.Options{DryRun: o.dryRun, NoWait: !o.run.wait, Report: told.report})
	told.end()
	done := fmt.Sprintf("Subscription %s is to %s, and %s runs", p.Subscription, p.To, p.Target)
	if o.dryRun {
		done = "nothing was changed: the API server has only checked the first write"
	}
	return ended(ctx, cmd, err, done)
}

// given returns the plan of a file, and takes the request from it; nil if there is no file.
func (o *switchApply) given(standard io.Reader) (*switchover.Plan, error) {
	if o.file == "" {
		return nil, nil
	}
	from := "standard input"
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		standard, from = file, o.file
	}
	p, err := switchover.Read(standard)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	o.request = p.Request()
	return p, nil
}
