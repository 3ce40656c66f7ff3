package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

// switchApply is the command "berth switch apply".
type switchApply struct {
	switchFlags
	how applyFlags
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

With --wait=false, the command ends successfully as soon as it can only wait.`,
		Example: `  # Switch, and have the operator adopt the driver
  berth switch apply aws-efs-operator --to certified-operators --create-driver

  # Apply exactly the plan that was reviewed
  berth switch apply -f plan.json`,
		Annotations:       found("the plan is not safe, and nothing was changed"),
		Args:              o.checkArgs,
		ValidArgsFunction: nothing,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.complete(args[0])
			}
			return o.apply(cmd)
		},
	}
	o.switchFlags.add(cmd)
	o.how.add(cmd, subscription.Switch.Name)
	return cmd
}

func (o *switchApply) checkArgs(cmd *cobra.Command, args []string) error {
	if o.how.file == "" {
		return o.switchFlags.checkArgs(cmd, args)
	}
	if len(args) > 0 || o.to != "" || o.request != (subscription.Request{}) || o.namespace != "" {
		return errors.New("--filename names a complete plan: omit PACKAGE, --to, --channel, --new-package, --create-driver and --namespace")
	}
	return nil
}

func (o *switchApply) apply(cmd *cobra.Command) error {
	requested := func() (migrate.Request[*subscription.Plan], error) { return o.request, nil }
	of := func(p *subscription.Plan) (migrate.Request[*subscription.Plan], error) { return p.Request(), nil }
	return applyPlan(cmd, subscription.Switch, o.journalFlags, o.how, requested, of, switched)
}

func switched(ctx context.Context, cluster migrate.Cluster, p *subscription.Plan) string {
	remark, err := p.Remark(ctx, cluster.Client)
	if err != nil {
		remark = fmt.Sprintf("; not known on which nodes the driver is not up to date: %v", err)
	}
	return fmt.Sprintf("Subscription %s is for %s: the switch is complete", p.Subject, p.To) + remark
}
