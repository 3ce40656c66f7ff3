package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
)

func newMoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move",
		Short: "Move an operator from OLM v0 to OLM v1, or back",
		Long: `Move an operator from OLM v0, the Operator Lifecycle Manager with Subscriptions, to OLM v1, with ClusterExtensions,
or back. OLM v0 leaves the operator, and OLM v1 takes it over at exactly the same version. The APIs with all their
objects, the Deployments with their pods, and what the operator manages stay.

"plan" shows what will happen, or why it cannot, and changes nothing. "apply" carries out the plan; "resume" continues
after an interruption. "status" shows how far it is. "rollback" undoes it until the point of no return; after that,
--to olm-v0 moves the operator back.`,
		Example: `  berth move plan aws-efs-operator
  berth move apply aws-efs-operator

  # Back to OLM v0
  berth move apply aws-efs-operator --to olm-v0`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMovePlanCommand(), newMoveApplyCommand(), newMoveResumeCommand(), newMoveStatusCommand(), newMoveRollbackCommand())
	return cmd
}

// existingMove returns a request for a package's move that was started earlier.
func (f *journalFlags) existingMove(pkg string) move.Request {
	return move.Request{Package: pkg, Namespace: f.namespace}
}

// moveFlags hold the flags that describe a move, which need not have been started.
type moveFlags struct {
	journalFlags
	v1Flags
	to        string
	request   move.Request
	authority string
}

func (f *moveFlags) add(cmd *cobra.Command) {
	f.journalFlags.add(cmd)
	f.v1Flags.add(cmd)
	cmd.Flags().StringVar(&f.to, "to", string(move.ToV1), "`OLM` where to move the operator: "+string(move.ToV1)+", or "+string(move.ToV0)+" for the way back")
	cmd.Flags().StringVar(&f.request.Catalog, "catalog", "", "`name` of the only ClusterCatalog from which OLM v1 may take versions (default any)")
	cmd.Flags().StringVar(&f.request.ServiceAccount, "service-account", "", "`name` of the service account that versions of OLM v1 before operator-controller 1.11 may need, in the operator's namespace")
	cmd.Flags().StringSliceVar(&f.request.Accepted, "accept", nil, "`code` of a check whose refusal is accepted: "+strings.Join(move.Acceptable(), ", "))
	cmd.Flags().StringVar(&f.authority, "catalogd-ca", "", "`file` with the certificate authority of catalogd (default OpenShift's for Services)")
	completeFlag(cmd, "to", oneOf(string(move.ToV1), string(move.ToV0)))
	completeFlag(cmd, "accept", oneOf(move.Acceptable()...))
}

// checkArgs fails unless one package is given, and the flags fit together.
func (f *moveFlags) checkArgs(_ *cobra.Command, args []string) error {
	if err := takes("PACKAGE")(nil, args); err != nil {
		return fmt.Errorf("%w, as the Subscription has it in spec.name", err)
	}
	return f.checkFlags()
}

func (f *moveFlags) checkFlags() error {
	if f.to != string(move.ToV1) && f.to != string(move.ToV0) {
		return fmt.Errorf("--to is %q, want %s or %s", f.to, move.ToV1, move.ToV0)
	}
	for _, code := range f.request.Accepted {
		if !slices.Contains(move.Acceptable(), code) {
			return fmt.Errorf("--accept is %q, want one of %s", code, strings.Join(move.Acceptable(), ", "))
		}
	}
	if f.to == string(move.ToV0) && (f.request.Catalog != "" || f.request.ServiceAccount != "" || len(f.request.Accepted) > 0 || f.v1Flags.given()) {
		return fmt.Errorf("--catalog, --service-account, --accept, --olm-version, --feature-gates and --images are for the way to OLM v1; omit them with --to %s", move.ToV0)
	}
	_, err := f.gates(nil)
	return err
}

// complete adds to a request what only a plan needs: feature gates and readers of catalogs and bundles. The returned function closes these.
func (f *moveFlags) complete(cmd *cobra.Command, r move.Request) (move.Request, func(), error) {
	config, err := f.limited()
	if err != nil {
		return r, nil, err
	}
	var ofCluster featuregates.Set
	if f.version == "" {
		if ofCluster, err = prediction.GatesOf(cmd.Context(), config); err != nil {
			return r, nil, err
		}
	}
	if r.Gates, err = f.gates(ofCluster); err != nil {
		return r, nil, err
	}
	var authority []byte
	if f.authority != "" {
		if authority, err = os.ReadFile(f.authority); err != nil {
			return r, nil, err
		}
	}
	r.Catalogs = func(ctx context.Context) ([]*prediction.ClusterCatalog, func() error, error) {
		return readClusterCatalogs(ctx, config, authority)
	}
	reader, done := f.reader(cmd)
	r.Content = reader.Read
	return r, done, nil
}

// requested returns the request of the command line.
func (f *moveFlags) requested(pkg string) move.Request {
	r := f.request
	r.Package, r.Namespace, r.To = pkg, f.namespace, move.Target(f.to)
	return r
}

func newMovePlanCommand() *cobra.Command {
	f := &moveFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   "plan PACKAGE",
		Short: "Show the plan of a move: checks, steps, and the objects that will change",
		Long: `Show what it takes to move an operator to OLM v1, or back. Nothing is written to the cluster.

The plan lists the checks, with what to do if one fails, then the steps, with the point of no return, and the objects
that will change. Whether OLM v1 takes exactly the installed version is predicted as "berth catalog plan" does.`,
		Example: `  berth move plan aws-efs-operator

  # Have a plan reviewed, and apply exactly that one
  berth move plan aws-efs-operator -o json > plan.json
  berth move apply -f plan.json`,
		Annotations:       found("the plan is not safe to apply"),
		Args:              f.checkArgs,
		ValidArgsFunction: nothing,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.plan(cmd, args[0])
			return showPlan(cmd, output, p, err)
		},
	}
	f.add(cmd)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

func (f *moveFlags) plan(cmd *cobra.Command, pkg string) (*move.Plan, error) {
	defer startProgress(cmd.ErrOrStderr(), "reading the cluster and its catalogs")()
	cluster, err := f.connect(cmd)
	if err != nil {
		return nil, err
	}
	r, done, err := f.complete(cmd, f.requested(pkg))
	if err != nil {
		return nil, err
	}
	defer done()
	return move.Move.Plan(cmd.Context(), cluster, r)
}

// moveApply is the command "berth move apply".
type moveApply struct {
	moveFlags
	how applyFlags
}

func newMoveApplyCommand() *cobra.Command {
	o := &moveApply{}
	cmd := &cobra.Command{
		Use:   "apply (PACKAGE... | -f PLAN)",
		Short: "Move operators to OLM v1, or back",
		Long: `Move an operator to OLM v1, or back, as "berth move plan" shows. Nothing is changed if the plan is not safe, or if
the cluster has changed since the plan in a file was made. Several operators are moved one after the other, each by a
move of its own, in the order of their dependencies and not of the arguments: to OLM v1, an operator moves before those
that it needs, and back after them. None is moved if the plan of one is not safe, or if they need each other.

Each write fails if the object has changed since it was observed. A journal in the cluster, a ConfigMap in a namespace
that only administrators can write to, holds the plan. After an interruption, the same command continues, and shows on
standard error what it continues. It stops if an API or a Deployment is not the same object any more. When the move is
complete, it changes nothing.

With --wait=false, the command ends successfully as soon as it can only wait.`,
		Example: `  berth move apply aws-efs-operator

  # One after the other, in the order of their dependencies
  berth move apply aws-efs-operator aws-ebs-csi-driver-operator

  # Apply exactly the plan that was reviewed
  berth move apply -f plan.json`,
		Annotations:       found("the plan is not safe, and nothing was changed"),
		Args:              o.checkArgs,
		ValidArgsFunction: nothing,
		RunE:              o.apply,
	}
	o.moveFlags.add(cmd)
	o.how.add(cmd, move.Move.Name)
	return cmd
}

func (o *moveApply) checkArgs(cmd *cobra.Command, args []string) error {
	if o.how.file == "" {
		if err := takes("PACKAGE...")(nil, args); err != nil {
			return fmt.Errorf("%w, as the Subscription has it in spec.name", err)
		}
		return o.checkFlags()
	}
	if len(args) > 0 || o.namespace != "" || cmd.Flags().Changed("to") || o.request.Catalog != "" || o.request.ServiceAccount != "" || len(o.request.Accepted) > 0 {
		return errors.New("--filename names a complete plan: omit PACKAGE, --to, --catalog, --service-account, --accept and --namespace")
	}
	return o.checkFlags()
}

func (o *moveApply) apply(cmd *cobra.Command, args []string) error {
	if o.how.file != "" {
		return o.applyOne(cmd, "")
	}
	if len(args) > 1 {
		var err error
		if args, err = o.inOrder(cmd, args); err != nil {
			return err
		}
		if o.how.dryRun { // each plan assumes that the others move, too, although none does
			o.request.With = args
		}
	}
	for _, pkg := range args {
		if err := o.applyOne(cmd, pkg); err != nil {
			return err
		}
	}
	return nil
}

// inOrder returns packages in the order in which they can be moved. Unless all plans are safe, it shows those that are not, and fails.
func (o *moveApply) inOrder(cmd *cobra.Command, pkgs []string) ([]string, error) {
	ctx, cancel := o.how.run.limit(cmd.Context())
	defer cancel()
	cluster, err := o.connect(cmd)
	if err != nil {
		return nil, err
	}
	safe := true
	var plans []*move.Plan
	for _, pkg := range pkgs {
		r, done, err := o.complete(cmd, o.requested(pkg))
		if err != nil {
			return nil, err
		}
		r.With = pkgs
		stop := startProgress(cmd.ErrOrStderr(), "reading the cluster and its catalogs for "+pkg)
		p, _, err := move.Move.Ensure(ctx, cluster, r)
		stop()
		done()
		if err != nil {
			return nil, finish(ctx, cmd, err, "", "")
		}
		plans = append(plans, p)
		if p.Safe {
			continue
		}
		safe = false
		if err := migrate.Write(cmd.OutOrStdout(), "text", p, palette(cmd.OutOrStdout())); err != nil {
			return nil, err
		}
	}
	if !safe {
		return nil, &exitError{code: exitFound}
	}
	if plans, err = move.Order(plans); err != nil {
		return nil, err
	}
	var ordered []string
	for _, p := range plans {
		ordered = append(ordered, p.Package)
	}
	cmd.PrintErrf("moving one after the other: %s\n", strings.Join(ordered, ", "))
	return ordered, nil
}

// applyOne applies the plan in the file, or a package's plan.
func (o *moveApply) applyOne(cmd *cobra.Command, pkg string) error {
	end := func() {}
	defer func() { end() }()
	complete := func(r move.Request) (migrate.Request[*move.Plan], error) {
		r, done, err := o.complete(cmd, r)
		if err == nil {
			end = done
		}
		return r, err
	}
	requested := func() (migrate.Request[*move.Plan], error) { return complete(o.requested(pkg)) }
	of := func(p *move.Plan) (migrate.Request[*move.Plan], error) { return complete(p.Request()) }
	return applyPlan(cmd, move.Move, o.journalFlags, o.how, requested, of, moved)
}

func moved(_ context.Context, _ migrate.Cluster, p *move.Plan) string {
	if p.To == move.ToV0 {
		return fmt.Sprintf("OLM v0 has %s, for Subscription %s/%s: the move is complete", p.Version.Name, p.Namespace, p.Subscription.Name)
	}
	return fmt.Sprintf("OLM v1 has %s, for ClusterExtension %s: the move is complete", p.Version.Name, p.Subject.Name)
}

func newMoveResumeCommand() *cobra.Command {
	f, how := &journalFlags{}, applyFlags{}
	cmd := &cobra.Command{
		Use:   "resume PACKAGE",
		Short: "Continue a move that was interrupted",
		Long: `Continue a move that was interrupted, with the plan in its journal, from wherever the cluster is. The status is shown
first, on standard error. Unlike "apply", this command begins nothing.

With --wait=false, the command ends successfully as soon as it can only wait. It fails if nobody
has started a move.`,
		Example:           `  berth move resume aws-efs-operator`,
		Annotations:       found("the plan is not safe, and nothing was changed"),
		Args:              takes("PACKAGE"),
		ValidArgsFunction: nothing,
		RunE: f.onCluster(func(cmd *cobra.Command, args []string, cluster migrate.Cluster) error {
			return apply(cmd, move.Move, cluster, how, func(ctx context.Context) (*move.Plan, *migrate.Status[*move.Plan], error) {
				s, err := move.Move.Status(ctx, cluster, f.existingMove(args[0]))
				switch {
				case err != nil:
					return nil, nil, err
				case s.Phase == migrate.RolledBack:
					return nil, nil, fmt.Errorf("the move was rolled back: begin another one with `%s`", move.Move.Command(cluster, s.Plan, "apply"))
				}
				return s.Plan, s, nil
			}, moved)
		}),
	}
	f.add(cmd)
	how.run.add(cmd)
	return cmd
}

func newMoveStatusCommand() *cobra.Command {
	f, watch := &journalFlags{}, &watchFlag{}
	var output string
	cmd := &cobra.Command{
		Use:   "status [PACKAGE]",
		Short: "Show how far a move is, or all moves",
		Long: `Show how far a move is: which steps were started when, according to its journal, and which step is next, according to
the cluster. Without PACKAGE, show a line for each operator that was moved or is being moved.

The command fails if no move of the package has been started.`,
		Example: `  berth move status aws-efs-operator

  # All moves
  berth move status`,
		Args:              takes("[PACKAGE]"),
		ValidArgsFunction: nothing,
		RunE: f.onCluster(func(cmd *cobra.Command, args []string, cluster migrate.Cluster) error {
			if len(args) == 1 {
				return showStatus(cmd, move.Move, cluster, f.existingMove(args[0]), watch, output)
			}
			return showReport(cmd, watch, output, func(ctx context.Context) (migrate.Report, bool, error) {
				all, err := move.Observe(ctx, cluster)
				if err != nil {
					return nil, false, err
				}
				return all, slices.ContainsFunc(all.Moves, func(s *migrate.Status[*move.Plan]) bool { return inProgress(s.Phase) }), nil
			})
		}),
	}
	f.add(cmd)
	watch.add(cmd, untilDone)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

func newMoveRollbackCommand() *cobra.Command {
	f, run := &journalFlags{}, &runFlags{}
	cmd := &cobra.Command{
		Use:   "rollback PACKAGE",
		Short: "Undo a move, up to the point of no return",
		Long: `Undo a move that is in progress: the OLM that had the operator gets it back, at the same version. The status is shown
first, on standard error.

Beyond the point of no return, which the plan shows, the other OLM may have updated the operator. This command says so
then, and changes nothing. A move to OLM v1 that is complete can be undone by another move, with --to olm-v0.`,
		Example:           `  berth move rollback aws-efs-operator`,
		Args:              takes("PACKAGE"),
		ValidArgsFunction: nothing,
		RunE: f.onCluster(func(cmd *cobra.Command, args []string, cluster migrate.Cluster) error {
			return rollBack(cmd, move.Move, cluster, f.existingMove(args[0]), *run, func(p *move.Plan) string {
				return fmt.Sprintf("operator %s is where it was before, at %s", p.Package, p.Version.Name)
			})
		}),
	}
	f.add(cmd)
	run.add(cmd)
	return cmd
}
