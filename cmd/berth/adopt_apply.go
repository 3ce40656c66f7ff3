package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
)

// adoptApply is the command "berth adopt apply".
type adoptApply struct {
	journalFlags
	how applyFlags
}

func newAdoptApplyCommand() *cobra.Command {
	o := &adoptApply{}
	cmd := &cobra.Command{
		Use:   "apply (DRIVER | -f PLAN)",
		Short: "Hand a driver over to the cluster storage operator",
		Long: `Hand a driver over to the cluster storage operator, as "berth adopt plan" shows. Nothing is changed if the plan
is not safe, or if the cluster has changed since the plan in a file was made.

Each deletion fails if the object has changed since it was observed. A journal in the cluster, a ConfigMap in
a namespace that only administrators can write to, holds the plan. After an interruption, the same command
continues, and shows on standard error what it continues. It stops if the journal differs from the cluster. When
the hand-over is complete, it changes nothing.

With --wait=false, the command ends successfully as soon as it can only wait.`,
		Example: `  berth adopt apply ebs

  # Apply exactly the plan that was reviewed
  berth adopt apply -f plan.json`,
		Annotations:       found("the plan is not safe, and nothing was changed"),
		Args:              o.checkArgs,
		ValidArgsFunction: completing(oneOf(adoptableNames()...), nothing),
		RunE:              o.apply,
	}
	addAdoptFlags(cmd, &o.journalFlags)
	o.how.add(cmd, adoption.Adopt.Name)
	return cmd
}

func (o *adoptApply) checkArgs(cmd *cobra.Command, args []string) error {
	switch {
	case o.how.file == "":
		return checkDriver(cmd, args)
	case len(args) > 0:
		return errors.New("--filename names a complete plan: omit DRIVER")
	}
	return nil
}

func (o *adoptApply) apply(cmd *cobra.Command, args []string) error {
	requested := func() (migrate.Request[*adoption.Plan], error) { return adoptRequest(args) }
	of := func(p *adoption.Plan) (migrate.Request[*adoption.Plan], error) { return p.Request() }
	return applyPlan(cmd, adoption.Adopt, o.journalFlags, o.how, requested, of, adopted)
}

func adopted(_ context.Context, _ migrate.Cluster, p *adoption.Plan) string {
	return fmt.Sprintf("the cluster storage operator manages driver %s: the hand-over is complete", p.Subject.Name)
}

func newAdoptResumeCommand() *cobra.Command {
	f, how := &journalFlags{}, applyFlags{}
	cmd := &cobra.Command{
		Use:   "resume DRIVER",
		Short: "Continue a hand-over that was interrupted",
		Long: `Continue a hand-over that was interrupted, with the plan in its journal, from wherever the cluster is. The status
is shown first, on standard error. Unlike "apply", this command begins nothing.

With --wait=false, the command ends successfully as soon as it can only wait. It fails if nobody
has started a hand-over.`,
		Example:           `  berth adopt resume ebs`,
		Annotations:       found("the plan is not safe, and nothing was changed"),
		Args:              checkDriver,
		ValidArgsFunction: completing(oneOf(adoptableNames()...), nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, cluster, err := f.adoption(cmd, args)
			if err != nil {
				return err
			}
			return apply(cmd, adoption.Adopt, cluster, how, func(ctx context.Context) (*adoption.Plan, *migrate.Status[*adoption.Plan], error) {
				s, err := adoption.Adopt.Status(ctx, cluster, r)
				switch {
				case err != nil:
					return nil, nil, err
				case s.Phase == migrate.RolledBack:
					return nil, nil, fmt.Errorf("the hand-over was rolled back: begin another one with `%s`", adoption.Adopt.Command(cluster, s.Plan, "apply"))
				}
				return s.Plan, s, nil
			}, adopted)
		},
	}
	addAdoptFlags(cmd, f)
	how.run.add(cmd)
	return cmd
}
