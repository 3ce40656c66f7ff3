package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/prediction"
)

// catalogPlan is the command line of "berth catalog plan".
type catalogPlan struct {
	clusterFlags
	channel string
	output  string
}

func newCatalogPlanCommand() *cobra.Command {
	o := &catalogPlan{}
	cmd := &cobra.Command{
		Use:   "plan DIR [PACKAGE[@VERSION]]",
		Short: "Predict what OLM will do next with what is installed, and why",
		Long: `Foretell what OLM will do if it has the catalog in a folder to choose from, and say why, or why
nothing. OLM's own resolver decides, in this process.

With PACKAGE@VERSION, that version is installed and nothing else is. VERSION may be the name of a
ClusterServiceVersion, and one that the catalog does not have. Without a version nothing is installed.

Without PACKAGE, what is installed is read from a cluster: all Subscriptions to packages of the catalog,
as if it took the place of the catalogs that they name. Of those of other Subscriptions it is assumed
that they have nothing new. What else stands in OLM's way is read, too: catalogs out of reach, operators of
other namespaces, objects that are not valid by a CRD that comes. Nothing is written to the cluster.

Exit codes: 0 if OLM goes on, or is at the head of the channel; 1 if a Subscription is stranded, refused
or waits for somebody; 2 if that cannot be told.`,
		Example: `  berth catalog plan catalog/certified aws-efs-operator@0.0.8

  # What the Subscriptions of a cluster would do
  berth catalog plan catalog/certified --kubeconfig admin.conf`,
		Args: o.checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			outcomes, err := o.foretell(cmd, args)
			if err == nil {
				err = prediction.Write(cmd.OutOrStdout(), o.output, outcomes)
			}
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			if !prediction.Good(outcomes) {
				return &exitError{code: exitFailed}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.channel, "channel", "", "`CHANNEL` that PACKAGE is subscribed to (default the package's default channel)")
	o.clusterFlags.add(cmd)
	addOutputFlag(cmd, &o.output, "text", prediction.Formats)
	return cmd
}

func (o *catalogPlan) checkArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 2 && o.clusterFlags.given():
		return errors.New("--kubeconfig, --context and --namespace say where to read what is installed; leave them or PACKAGE away")
	case len(args) == 1 && o.channel != "":
		return errors.New("--channel is the one of PACKAGE; Subscriptions of a cluster have theirs")
	}
	return cobra.RangeArgs(1, 2)(cmd, args)
}

func (o *catalogPlan) foretell(cmd *cobra.Command, args []string) ([]*prediction.Outcome, error) {
	defer startProgress(cmd.ErrOrStderr(), "foretelling")()
	c, err := rules.Load(cmd.Context(), args[0])
	if err != nil {
		return nil, notValid(args[0], err)
	}
	if len(args) == 1 {
		return o.foretellCluster(cmd.Context(), c)
	}
	pkg, version, _ := strings.Cut(args[1], "@")
	world, err := prediction.Installed(c, pkg, version, o.channel)
	if err != nil {
		return nil, err
	}
	return world.Foretell(cmd.Context())
}

func (o *catalogPlan) foretellCluster(ctx context.Context, c *fbc.Catalog) (all []*prediction.Outcome, err error) {
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("%w; name a PACKAGE to do without one", err)
	}
	worlds, err := prediction.Observe(ctx, config, o.namespace)
	if err != nil {
		return nil, err
	}
	for _, world := range worlds {
		if world.Put(c) == 0 {
			continue
		}
		outcomes, err := world.Foretell(ctx)
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", world.Namespace, err)
		}
		all = append(all, outcomes...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the cluster at %s has no Subscription to a package of %s", config.Host, c.Dir)
	}
	return all, nil
}
