package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate/switchover"
)

func newSwitchStatusCommand() *cobra.Command {
	f := &journalFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   "status PACKAGE",
		Short: "Say how far a switch is",
		Long: `Say how far a switch is: what has been done and when, as its journal tells, and what comes next, as the
cluster shows.

Exit codes: 0 if it is said; 1 if it is not, or no switch of the package has been begun.`,
		Example: `  berth switch status aws-efs-operator`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := f.connect(cmd)
			if err != nil {
				return err
			}
			s, err := switchover.Find(cmd.Context(), cluster, f.namespace, args[0])
			if err != nil {
				return err
			}
			return switchover.Write(cmd.OutOrStdout(), output, s, palette(cmd))
		},
	}
	f.add(cmd)
	addOutputFlag(cmd, &output, "text", switchover.Formats)
	return cmd
}

func newSwitchRollbackCommand() *cobra.Command {
	f, run := &journalFlags{}, &runFlags{}
	cmd := &cobra.Command{
		Use:   "rollback PACKAGE",
		Short: "Take a switch back, up to the point of no return",
		Long: `Take a switch back: the Subscription becomes what it was. OLM gets 20 seconds to end what it has begun for
the other catalog; an InstallPlan that came of it, and that nobody has approved, is deleted. What the
journal says of the switch is shown first, on standard error.

Beyond the point of no return, which the plan names, there is no way back, as OLM installs no earlier
version; this command says so then and changes nothing.

Exit codes: 0 if all is as it was; 1 if it is not; 124 if time ran out.`,
		Example: `  berth switch rollback aws-efs-operator`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := f.connect(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := run.limit(cmd.Context())
			defer cancel()
			s, err := switchover.Find(ctx, cluster, f.namespace, args[0])
			if err != nil {
				return ended(ctx, cmd, err, "")
			}
			if err := switchover.Write(cmd.ErrOrStderr(), "text", s, paletteOf(cmd.ErrOrStderr())); err != nil {
				return err
			}
			told := narrate(cmd, s.Plan)
			err = switchover.Rollback(ctx, cluster, s.Plan, switchover.Options{NoWait: !run.wait, Report: told.report})
			told.end()
			return ended(ctx, cmd, err, "Subscription "+s.Plan.Subscription.String()+" is to "+s.Plan.From.String()+", as before")
		},
	}
	f.add(cmd)
	run.add(cmd)
	return cmd
}
