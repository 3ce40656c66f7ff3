package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

func newSwitchRollbackCommand() *cobra.Command {
	f, run := &journalFlags{}, &runFlags{}
	cmd := &cobra.Command{
		Use:   "rollback PACKAGE",
		Short: "Undo a switch, up to the point of no return",
		Long: `Undo a switch: the Subscription becomes what it was. OLM gets 20 seconds to finish what it has started for
the other catalog; an InstallPlan that results from it, and that nobody has approved, is deleted. The
status of the switch is shown first, on standard error.

Beyond the point of no return, which the plan shows, a switch cannot be undone, because OLM never installs
an earlier version. This command says so then, and changes nothing.`,
		Example:           `  berth switch rollback aws-efs-operator`,
		Args:              takes("PACKAGE"),
		ValidArgsFunction: nothing,
		RunE: f.onCluster(func(cmd *cobra.Command, args []string, cluster migrate.Cluster) error {
			return rollBack(cmd, subscription.Switch, cluster, f.existing(args[0]), *run, func(p *subscription.Plan) string {
				return fmt.Sprintf("Subscription %s is for %s, as before", p.Subject, p.From)
			})
		}),
	}
	f.add(cmd)
	run.add(cmd)
	return cmd
}
