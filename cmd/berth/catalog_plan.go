//go:build !light

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
		Short: catalogPlanShort,
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
			predictions, err := o.predict(cmd, args)
			if err == nil {
				err = prediction.Write(cmd.OutOrStdout(), o.output, predictions)
			}
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			if !prediction.Good(predictions) {
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

func (o *catalogPlan) predict(cmd *cobra.Command, args []string) ([]*prediction.Prediction, error) {
	defer startProgress(cmd.ErrOrStderr(), "foretelling")()
	c, err := rules.Load(cmd.Context(), args[0])
	if err != nil {
		return nil, notValid(args[0], err)
	}
	if len(args) == 1 {
		return o.predictCluster(cmd.Context(), c)
	}
	pkg, version, _ := strings.Cut(args[1], "@")
	state, err := prediction.Installed(c, pkg, version, o.channel)
	if err != nil {
		return nil, err
	}
	return state.Predict(cmd.Context())
}

func (o *catalogPlan) predictCluster(ctx context.Context, c *fbc.Catalog) (all []*prediction.Prediction, err error) {
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("%w; name a PACKAGE to do without one", err)
	}
	states, err := prediction.Observe(ctx, config, o.namespace)
	if err != nil {
		return nil, err
	}
	for _, state := range states {
		if state.SubstituteCatalog(c) == 0 {
			continue
		}
		predictions, err := state.Predict(ctx)
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", state.Namespace, err)
		}
		all = append(all, predictions...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the cluster at %s has no Subscription to a package of %s", config.Host, c.Dir)
	}
	return all, nil
}
