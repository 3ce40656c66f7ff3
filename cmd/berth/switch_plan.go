package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

// newSwitchPlanCommand returns the command switch plan, which shows the plan of a migration and writes nothing.
func newSwitchPlanCommand() *cobra.Command {
	f := &switchFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   "plan PACKAGE --to CATALOG_SOURCE",
		Short: "Predict a switch: checks, steps, and the objects that will change",
		Long: `Predict what a switch to another catalog does. OLM's own resolver runs in this process, with the cluster
and the catalogs as they are. Nothing is written to the cluster.

The plan lists the checks, with what to do if one fails, then the steps, with the point of no return, and
the objects that will change.`,
		Example: `  berth switch plan aws-efs-operator --to certified-operators

  # Have a plan reviewed, and apply exactly that one
  berth switch plan aws-efs-operator --to certified-operators -o json > plan.json
  berth switch apply -f plan.json`,
		Annotations:       found("the plan is not safe to apply"),
		Args:              f.checkArgs,
		ValidArgsFunction: nothing,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.complete(args[0])
			p, err := f.plan(cmd)
			return showPlan(cmd, output, p, err)
		},
	}
	f.add(cmd)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

func (f *switchFlags) plan(cmd *cobra.Command) (*subscription.Plan, error) {
	defer startProgress(cmd.ErrOrStderr(), "reading the cluster and its catalogs")()
	cluster, err := f.connect(cmd)
	if err != nil {
		return nil, err
	}
	return subscription.Switch.Plan(cmd.Context(), cluster, f.request)
}
