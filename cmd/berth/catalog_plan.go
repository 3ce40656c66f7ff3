package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
)

// catalogPlan is the command line of "berth catalog plan".
type catalogPlan struct {
	clusterFlags
	channel string
	olm     string
	output  string
}

func newCatalogPlanCommand() *cobra.Command {
	o := &catalogPlan{}
	cmd := &cobra.Command{
		Use:   "plan CATALOG [PACKAGE[@VERSION]]",
		Short: "Predict what OLM will do next with what is installed, and why",
		Long: `Predict what OLM will do with a catalog, and explain why. OLM's own resolver makes the
choice, in this process. For OLM v1, whose resolver is not in a library, the choice is as in its version 1.11.

With PACKAGE@VERSION, the prediction is for a cluster with only that version installed. VERSION may be the
name of a ClusterServiceVersion, and need not be in the catalog. Without a version, nothing is installed.

Without PACKAGE, the installed versions are read from a cluster: all Subscriptions to packages of the
catalog, as if their sources were replaced by it, and all ClusterExtensions of its packages, as if no other
catalog had these. The catalogs of other Subscriptions are assumed to have
nothing new. What may block OLM is read, too: unreachable catalogs, operators in other namespaces, custom
resources that are invalid under a new CRD. Nothing is written to the cluster.

` + aboutSources,
		Example: `  berth catalog plan catalog/certified aws-efs-operator@0.0.8

  # OLM v1 takes bundles from all channels, and needs their images
  berth catalog plan catalog/certified aws-efs-operator@0.0.8 --olm v1

  # What OLM would do with the Subscriptions and ClusterExtensions of a cluster
  berth catalog plan catalog/certified --kubeconfig admin.conf`,
		Annotations:       found("a Subscription or a ClusterExtension is stranded, refused or waits"),
		Args:              o.checkArgs,
		ValidArgsFunction: completing(folders, versionsOf, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop := startProgress(cmd.ErrOrStderr(), "predicting")
			defer stop()
			return withCatalog(cmd, args[0], packagesIn(args[1:]), func(c *rules.Part) error {
				predictions, err := o.predict(cmd, c.Catalog, args[1:])
				stop()
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
			})
		},
	}
	cmd.Flags().StringVar(&o.channel, "channel", "", "`CHANNEL` that PACKAGE is subscribed to (default the package's default channel, and all channels for OLM v1)")
	cmd.Flags().StringVar(&o.olm, "olm", "v0", "`VERSION` of OLM that PACKAGE is for: v0, or v1 with ClusterExtensions")
	completeFlag(cmd, "olm", oneOf("v0", prediction.V1))
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
	case len(args) == 1 && cmd.Flags().Changed("olm"):
		return errors.New("--olm is for PACKAGE; what a cluster has shows which OLM is meant")
	case o.olm != "v0" && o.olm != prediction.V1:
		return fmt.Errorf("--olm is %q, want v0 or v1", o.olm)
	}
	return takes("CATALOG", "[PACKAGE[@VERSION]]")(cmd, args)
}

// packagesIn returns the package of PACKAGE@VERSION, if there is one.
func packagesIn(args []string) (packages []string) {
	for _, arg := range args {
		pkg, _, _ := strings.Cut(arg, "@")
		packages = append(packages, pkg)
	}
	return packages
}

// predict predicts for a package, or for what a cluster has.
func (o *catalogPlan) predict(cmd *cobra.Command, c *fbc.Catalog, pkgs []string) ([]*prediction.Prediction, error) {
	if len(pkgs) == 0 {
		return o.predictCluster(cmd, c)
	}
	pkg, version, _ := strings.Cut(pkgs[0], "@")
	if o.olm == prediction.V1 {
		extension, err := prediction.InstalledExtension(c, pkg, version, o.channel)
		if err != nil {
			return nil, err
		}
		p, err := extension.Predict(c)
		return []*prediction.Prediction{p}, err
	}
	state, err := prediction.Installed(c, pkg, version, o.channel)
	if err != nil {
		return nil, err
	}
	return state.Predict(cmd.Context())
}

func (o *catalogPlan) predictCluster(cmd *cobra.Command, c *fbc.Catalog) (all []*prediction.Prediction, err error) {
	ctx := cmd.Context()
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("without PACKAGE, the installed versions are read from a cluster: %w; name a PACKAGE to predict without one", err)
	}
	cmd.PrintErrf("reading what is installed from the cluster at %s\n", config.Host)
	extensions, err := o.predictExtensions(ctx, config, c)
	if err != nil {
		return nil, err
	}
	states, err := prediction.Observe(ctx, config, o.namespace)
	if errors.Is(err, prediction.ErrNoOLM) && len(extensions) > 0 {
		return extensions, nil
	}
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
	if all = append(all, extensions...); len(all) == 0 {
		return nil, fmt.Errorf("the cluster at %s has no Subscription to a package of %s, and no ClusterExtension of one", config.Host, c.Dir)
	}
	return all, nil
}

// predictExtensions predicts what OLM v1 will do with the ClusterExtensions of a catalog's packages.
func (o *catalogPlan) predictExtensions(ctx context.Context, config *rest.Config, c *fbc.Catalog) (all []*prediction.Prediction, err error) {
	reader, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	objects, err := clusterextension.List(ctx, reader)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		extension, err := prediction.ExtensionOf(object)
		if err != nil {
			return nil, err
		}
		if c.Find(extension.Package) == nil || o.namespace != "" && o.namespace != extension.Namespace {
			continue
		}
		p, err := extension.Predict(c)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
