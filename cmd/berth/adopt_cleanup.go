package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
)

// adoptCleanup is the command "berth adopt cleanup".
type adoptCleanup struct {
	journalFlags
	run     runFlags
	output  string
	confirm bool
}

func newAdoptCleanupCommand() *cobra.Command {
	o := &adoptCleanup{}
	cmd := &cobra.Command{
		Use:   "cleanup DRIVER",
		Short: "List objects that the former operator left and nothing needs, and delete them if confirmed",
		Long: `List what the former operators of a driver left, once the driver has been handed over: roles, bindings,
service accounts, SecurityContextConstraints, CredentialsRequests, the object that configured the operator, its
API, and the operator's namespace if nothing else is in it. For each object there is the proof that nothing
needs it. With --confirm, all of them are deleted; otherwise nothing is.

If one of them is still in use, if the hand-over is not complete, or if a former operator is left or can be
started again, nothing is deleted. Finalizers are removed first, so that no controller acts on a deletion.
Volumes, Secrets, workloads and the driver's namespace are never touched.

Each write fails if the object has changed since it was observed. After an interruption, the same command deletes
what is left. When nothing is left, it changes nothing.

With --wait=false, the command ends successfully as soon as it can only wait.`,
		Example: `  berth adopt cleanup ebs

  # Delete what it lists
  berth adopt cleanup ebs --confirm`,
		Annotations:       found("it is not safe to delete anything, and nothing was deleted"),
		Args:              checkDriver,
		ValidArgsFunction: completing(oneOf(adoptableNames()...), nothing),
		RunE:              o.cleanUp,
	}
	addAdoptFlags(cmd, &o.journalFlags)
	o.run.add(cmd)
	cmd.Flags().BoolVar(&o.confirm, "confirm", false, "delete what is listed")
	addOutputFlag(cmd, &o.output, "text", migrate.Formats)
	return cmd
}

func (o *adoptCleanup) cleanUp(cmd *cobra.Command, args []string) error {
	r, cluster, err := o.adoption(cmd, args)
	if err != nil {
		return err
	}
	ctx, cancel := o.run.limit(cmd.Context())
	defer cancel()
	stop := startProgress(cmd.ErrOrStderr(), "reading the cluster")
	c, err := r.Cleanup(ctx, cluster)
	stop()
	if err != nil {
		return finish(ctx, cmd, err, "", "")
	}
	if err := migrate.Write(cmd.OutOrStdout(), o.output, c, palette(cmd.OutOrStdout())); err != nil {
		return err
	}
	switch {
	case !c.Safe:
		return &exitError{code: exitFound}
	case len(c.Remains) == 0:
		return nil
	case !o.confirm:
		cmd.PrintErrf("nothing was deleted; to delete these objects, run `%s --confirm`\n", adoption.Adopt.Command(cluster, &adoption.Plan{Driver: r.Driver.Name}, "cleanup"))
		return nil
	}
	shown := newProgress(cmd)
	err = r.CleanUp(ctx, cluster, c, migrate.Options{NoWait: !o.run.wait, Report: shown.report})
	shown.end()
	return finish(ctx, cmd, err, fmt.Sprintf("nothing is left of the former operators of driver %s that can be deleted", c.Subject.Name), "")
}
