package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate/switchover"
)

func newSwitchPlanCommand() *cobra.Command {
	f := &switchFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   "plan PACKAGE --to CATALOG_SOURCE",
		Short: "Foretell a switch: what OLM will do, what is in the way, each step, and the objects that it changes",
		Long: `Foretell what a switch to another catalog does. OLM's own resolver decides, in this process, from the
cluster and the catalogs as they are; nothing is written to the cluster.

The plan lists what was checked, with what to do where something is in the way, then the steps, with
the point of no return, and the objects that will be changed, and by whom.

Exit codes: 0 if it is safe to switch; 1 if it is not; 2 if that cannot be told.`,
		Example: `  berth switch plan aws-efs-operator --to certified-operators

  # A plan to be looked at by others, and applied as it is or not at all
  berth switch plan aws-efs-operator --to certified-operators -o json > plan.json
  berth switch apply -f plan.json`,
		Args: f.checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.complete(args[0])
			p, err := f.plan(cmd)
			if err == nil {
				err = switchover.Write(cmd.OutOrStdout(), output, p, palette(cmd))
			}
			switch {
			case err != nil:
				return &exitError{code: exitUsage, err: err}
			case !p.Safe:
				return &exitError{code: exitFailed}
			}
			return nil
		},
	}
	f.add(cmd)
	addOutputFlag(cmd, &output, "text", switchover.Formats)
	return cmd
}

func (f *switchFlags) plan(cmd *cobra.Command) (*switchover.Plan, error) {
	defer startProgress(cmd.ErrOrStderr(), "reading the cluster and its catalogs")()
	cluster, err := f.connect(cmd)
	if err != nil {
		return nil, err
	}
	return switchover.New(cmd.Context(), cluster, f.request)
}
