package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

func newSwitchStatusCommand() *cobra.Command {
	f, watch := &journalFlags{}, &watchFlag{}
	var output string
	cmd := &cobra.Command{
		Use:   "status PACKAGE",
		Short: "Show how far a switch is",
		Long: `Show how far a switch is: which steps were started when, according to its journal, and which step is next,
according to the cluster.

The command fails if no switch of the package has been started.`,
		Example:           `  berth switch status aws-efs-operator`,
		Args:              takes("PACKAGE"),
		ValidArgsFunction: nothing,
		RunE: f.onCluster(func(cmd *cobra.Command, args []string, cluster migrate.Cluster) error {
			return showStatus(cmd, subscription.Switch, cluster, f.existing(args[0]), watch, output)
		}),
	}
	f.add(cmd)
	watch.add(cmd, untilDone)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}
