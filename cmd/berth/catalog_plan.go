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
		Long: `Predict what OLM will do with the catalog in a folder, and explain why. OLM's own resolver makes the
choice, in this process.

With PACKAGE@VERSION, the prediction is for a cluster with only that version installed. VERSION may be the
name of a ClusterServiceVersion, and need not be in the catalog. Without a version, nothing is installed.

Without PACKAGE, the installed versions are read from a cluster: all Subscriptions to packages of the
catalog, as if their sources were replaced by it. The catalogs of other Subscriptions are assumed to have
nothing new. What may block OLM is read, too: unreachable catalogs, operators in other namespaces, custom
resources that are invalid under a new CRD. Nothing is written to the cluster.`,
		Example: `  berth catalog plan catalog/certified aws-efs-operator@0.0.8

  # What OLM would do with the Subscriptions of a cluster
  berth catalog plan catalog/certified --kubeconfig admin.conf`,
		Annotations:       found("a Subscription is stranded, refused or waits"),
		Args:              o.checkArgs,
		ValidArgsFunction: completing(folders, versionsOf, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			predictions, err := o.predict(cmd, args)
			if err == nil {
				err = prediction.Write(cmd.OutOrStdout(), o.output, predictions)
			}
			if err != nil {
				return err
			}
			if !prediction.Good(predictions) {
				return &exitError{code: exitFound}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.channel, "channel", "", "`CHANNEL` that PACKAGE is subscribed to (default the package's default channel)")
	completeFlag(cmd, "channel", channelsOf)
	o.clusterFlags.add(cmd)
	addOutputFlag(cmd, &o.output, "text", prediction.Formats)
	return cmd
}

func (o *catalogPlan) checkArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 2 && o.clusterFlags.given():
		return errors.New("--kubeconfig, --context and --namespace say where to read the installed versions; omit them or PACKAGE")
	case len(args) == 1 && o.channel != "":
		return errors.New("--channel is for PACKAGE; Subscriptions of a cluster name their own channel")
	}
	return takes("DIR", "[PACKAGE[@VERSION]]")(cmd, args)
}

func (o *catalogPlan) predict(cmd *cobra.Command, args []string) ([]*prediction.Prediction, error) {
	defer startProgress(cmd.ErrOrStderr(), "predicting")()
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
		return nil, fmt.Errorf("%w; name a PACKAGE to predict without a cluster", err)
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
