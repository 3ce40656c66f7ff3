package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
)

func newAdoptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Hand over a driver from OLM to the cluster storage operator",
		Long: `Hand over a driver, whose operator the Operator Lifecycle Manager (OLM) runs, to the cluster storage operator,
which runs the drivers of the cluster's platform. The operator is removed from OLM; the driver, its volumes and
the operator's configuration stay. Then the cluster storage operator, which has waited for this, starts its own
operator, which takes over the driver in place.

The cluster storage operator does all this by itself when it starts. These commands show beforehand what it will
do, show how far it is, work with it at the same time, and remove what OLM has installed again since.

"plan" shows what will happen and changes nothing. "apply" carries out the plan; "resume" continues after an
interruption. "status" shows how far it is. "rollback" ends it, as long as nothing was removed from OLM.
Later, "cleanup" lists the objects that the former operator left and that nothing needs. It deletes them if
you confirm it.`,
		Example: `  berth adopt plan ebs
  berth adopt apply ebs`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAdoptPlanCommand(), newAdoptApplyCommand(), newAdoptResumeCommand(), newAdoptStatusCommand(), newAdoptRollbackCommand(), newAdoptCleanupCommand())
	return cmd
}

// adoptable returns the drivers that may have been installed with OLM.
func adoptable() []drivers.Driver {
	return slices.DeleteFunc(registry.Packaged(), func(d drivers.Driver) bool { return len(d.Predecessors()) == 0 })
}

func adoptableNames() (names []string) {
	for _, d := range adoptable() {
		names = append(names, d.Name)
	}
	return names
}

// adoptRequest returns the request for the driver that the command line names.
func adoptRequest(args []string) (adoption.Request, error) {
	if err := takes("DRIVER")(nil, args); err != nil {
		return adoption.Request{}, fmt.Errorf("%w, one of %s", err, strings.Join(adoptableNames(), ", "))
	}
	for _, d := range adoptable() {
		if d.Name == args[0] {
			return adoption.Request{Driver: d}, nil
		}
	}
	return adoption.Request{}, fmt.Errorf("driver is %q, want one of %s", args[0], strings.Join(adoptableNames(), ", "))
}

// checkDriver fails unless the only argument is a driver that can be handed over.
func checkDriver(_ *cobra.Command, args []string) error {
	_, err := adoptRequest(args)
	return err
}

// addAdoptFlags adds the flags that all commands of adopt and csi-migration have.
func addAdoptFlags(cmd *cobra.Command, f *journalFlags) {
	f.addConnection(cmd)
	f.addJournals(cmd)
}

// adoption returns the request for the driver that the command line names, and the cluster.
func (f *journalFlags) adoption(cmd *cobra.Command, args []string) (adoption.Request, migrate.Cluster, error) {
	r, err := adoptRequest(args)
	if err != nil {
		return r, migrate.Cluster{}, err
	}
	cluster, err := f.connect(cmd)
	return r, cluster, err
}

func newAdoptPlanCommand() *cobra.Command {
	f := &journalFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   "plan DRIVER",
		Short: "Show the plan of a hand-over: checks, steps, and the objects that will change",
		Long: `Show what it takes to hand a driver over to the cluster storage operator. Nothing is written to the cluster.

The plan lists the checks, with what to do if one fails, then the steps, with the point of no return, and
the objects that will change.`,
		Example: `  berth adopt plan ebs

  # Have a plan reviewed, and apply exactly that one
  berth adopt plan ebs -o json > plan.json
  berth adopt apply -f plan.json`,
		Annotations:       found("the plan is not safe to apply"),
		Args:              checkDriver,
		ValidArgsFunction: completing(oneOf(adoptableNames()...), nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.planAdoption(cmd, args)
			return showPlan(cmd, output, p, err)
		},
	}
	addAdoptFlags(cmd, f)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

func (f *journalFlags) planAdoption(cmd *cobra.Command, args []string) (*adoption.Plan, error) {
	defer startProgress(cmd.ErrOrStderr(), "reading the cluster")()
	r, cluster, err := f.adoption(cmd, args)
	if err != nil {
		return nil, err
	}
	return adoption.Adopt.Plan(cmd.Context(), cluster, r)
}

func newAdoptStatusCommand() *cobra.Command {
	f, watch := &journalFlags{}, &watchFlag{}
	var output string
	cmd := &cobra.Command{
		Use:   "status DRIVER",
		Short: "Show how far a hand-over is",
		Long: `Show how far a hand-over is: which steps were started when, according to its journal, and which step is next,
according to the cluster.

The command fails if no hand-over of the driver has been started.`,
		Example:           `  berth adopt status ebs`,
		Args:              checkDriver,
		ValidArgsFunction: completing(oneOf(adoptableNames()...), nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, cluster, err := f.adoption(cmd, args)
			if err != nil {
				return err
			}
			return showStatus(cmd, adoption.Adopt, cluster, r, watch, output)
		},
	}
	addAdoptFlags(cmd, f)
	watch.add(cmd, untilDone)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

func newAdoptRollbackCommand() *cobra.Command {
	f, run := &journalFlags{}, &runFlags{}
	cmd := &cobra.Command{
		Use:   "rollback DRIVER",
		Short: "End a hand-over, as long as nothing was removed from OLM",
		Long: `End a hand-over, as long as nothing was removed from OLM. The status is shown first, on standard error.

Beyond the point of no return, which the plan shows, OLM no longer has the Subscription, and does not take back an
operator that none of its Subscriptions has installed. This command then says so, and changes nothing. The driver
runs on in any case.`,
		Example:           `  berth adopt rollback ebs`,
		Args:              checkDriver,
		ValidArgsFunction: completing(oneOf(adoptableNames()...), nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, cluster, err := f.adoption(cmd, args)
			if err != nil {
				return err
			}
			return rollBack(cmd, adoption.Adopt, cluster, r, *run, func(p *adoption.Plan) string {
				return fmt.Sprintf("OLM runs the operator of driver %s, as before", p.Driver)
			})
		},
	}
	addAdoptFlags(cmd, f)
	run.add(cmd)
	return cmd
}
