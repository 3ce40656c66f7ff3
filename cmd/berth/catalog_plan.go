package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
)

// catalogPlan is the command line of "berth catalog plan".
type catalogPlan struct {
	clusterFlags
	v1Flags
	channel   string
	olm       string
	extension string
	authority string
	output    string
}

func newCatalogPlanCommand() *cobra.Command {
	o := &catalogPlan{}
	cmd := &cobra.Command{
		Use:   "plan [CATALOG [PACKAGE[@VERSION]]]",
		Short: "Predict and explain what OLM will do next with the installed operators",
		Long: `Predict what OLM will do with a catalog, and explain why. OLM's own resolver makes the
choice, in this process. For OLM v1, whose resolver is not in a library, Berth chooses and refuses as version
1.11 does: install modes, spec.config, changes of CustomResourceDefinitions, what bundles contain.
--olm-version and --feature-gates say which of its features are on, and --extension has the ClusterExtension.

With PACKAGE@VERSION, the prediction is for a cluster with only that version installed. VERSION may be the
name of a ClusterServiceVersion, and need not be in the catalog. Without a version, nothing is installed.

Without PACKAGE, the installed versions are read from a cluster: all Subscriptions to packages of the
catalog, as if their sources were replaced by it, and all ClusterExtensions of its packages, as if no other
catalog had these. The catalogs of other Subscriptions are assumed to have
nothing new. What may block OLM is read, too: unreachable catalogs, operators in other namespaces, custom
resources that are invalid under a new CRD, or that no webhook converts. Nothing is written to the cluster.

Without CATALOG, the prediction is for all ClusterExtensions of a cluster with its own ClusterCatalogs, which are
read from catalogd, with their priorities.

` + aboutSources,
		Example: `  berth catalog plan catalog/certified aws-efs-operator@0.0.8

  # OLM v1 takes bundles from all channels, and needs their images
  berth catalog plan catalog/certified aws-efs-operator@0.0.8 --olm v1

  # With the features of an OpenShift release, and with settings
  berth catalog plan catalog/certified aws-efs-operator --olm v1 --olm-version 4.21
  berth catalog plan catalog/certified aws-efs-operator@0.0.8 --extension extension.yaml

  # What OLM v1 does with the ClusterExtensions of a cluster
  berth catalog plan --kubeconfig admin.conf

  # What OLM would do with the Subscriptions and ClusterExtensions of a cluster
  berth catalog plan catalog/certified --kubeconfig admin.conf`,
		Annotations:       found("a Subscription or a ClusterExtension is stranded or refused, or waits"),
		Args:              o.checkArgs,
		ValidArgsFunction: completing(folders, versionsOf, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop := startProgress(cmd.ErrOrStderr(), "predicting")
			defer stop()
			if len(args) == 0 {
				predictions, err := o.predictOwn(cmd)
				stop()
				return o.write(cmd, predictions, err)
			}
			return withCatalog(cmd, args[0], packagesIn(args[1:]), func(c *rules.Part) error {
				predictions, err := o.predict(cmd, c.Catalog, args[1:])
				stop()
				return o.write(cmd, predictions, err)
			})
		},
	}
	cmd.Flags().StringVar(&o.channel, "channel", "", "`channel` that PACKAGE is subscribed to (default the package's default channel, and all channels for OLM v1)")
	cmd.Flags().StringVar(&o.olm, "olm", "v0", "`version` of OLM that PACKAGE is for: v0, or v1 with ClusterExtensions")
	cmd.Flags().StringVar(&o.extension, "extension", "", "`file` with the ClusterExtension that OLM v1 gets")
	cmd.Flags().StringVar(&o.authority, "catalogd-ca", "", "`file` with the certificate authority of catalogd (default OpenShift's for Services)")
	o.v1Flags.add(cmd)
	completeFlag(cmd, "olm", oneOf("v0", prediction.V1))
	completeFlag(cmd, "channel", channelsOf)
	o.clusterFlags.add(cmd)
	addOutputFlag(cmd, &o.output, "text", prediction.Formats)
	return cmd
}

// write writes predictions. If one of them is not good, the command exits with exitFound.
func (o *catalogPlan) write(cmd *cobra.Command, predictions []*prediction.Prediction, err error) error {
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
}

func (o *catalogPlan) checkArgs(cmd *cobra.Command, args []string) error {
	hypothetical := len(args) == 2 || o.extension != ""
	switch {
	case hypothetical && o.clusterFlags.given():
		return errors.New("the flags of the connection and --namespace say where to read the installed versions; omit them, or PACKAGE and --extension")
	case o.extension != "" && (o.channel != "" || cmd.Flags().Changed("olm") && o.olm != prediction.V1):
		return errors.New("--extension is for OLM v1, and names the channels itself; omit --channel and --olm")
	case len(args) == 0 && o.extension != "":
		return errors.New("--extension needs CATALOG")
	case !hypothetical && o.channel != "":
		return errors.New("--channel is for PACKAGE; Subscriptions of a cluster name their own channel")
	case !hypothetical && cmd.Flags().Changed("olm"):
		return errors.New("--olm is for PACKAGE; what a cluster has shows which OLM is meant")
	case o.olm != "v0" && o.olm != prediction.V1:
		return fmt.Errorf("--olm is %q, want v0 or v1", o.olm)
	case len(args) == 2 && o.extension == "" && o.olm != prediction.V1 && o.v1Flags.given():
		return errors.New("--olm-version, --feature-gates and --images are for OLM v1; add --olm v1")
	case len(args) > 0 && o.authority != "":
		return errors.New("--catalogd-ca is for the catalogs of a cluster; omit CATALOG")
	}
	if _, err := o.v1Flags.gates(nil); err != nil {
		return err
	}
	if len(args) == 0 {
		return nil
	}
	if err := takes("CATALOG", "[PACKAGE[@VERSION]]")(cmd, args); err != nil || len(args) == 1 {
		return err
	}
	if strings.HasSuffix(args[1], "@") {
		return fmt.Errorf("PACKAGE[@VERSION] is %q, want a version after @, or no @", args[1])
	}
	return nil
}

// packagesIn returns the packages of arguments PACKAGE@VERSION.
func packagesIn(args []string) (packages []string) {
	for _, arg := range args {
		pkg, _, _ := strings.Cut(arg, "@")
		packages = append(packages, pkg)
	}
	return packages
}

// predict predicts for a package, or for the Subscriptions and ClusterExtensions of a cluster.
func (o *catalogPlan) predict(cmd *cobra.Command, c *fbc.Catalog, pkgs []string) ([]*prediction.Prediction, error) {
	if o.extension != "" {
		return o.predictFile(cmd, c, pkgs)
	}
	if len(pkgs) == 0 {
		return o.predictCluster(cmd, c)
	}
	pkg, version, _ := strings.Cut(pkgs[0], "@")
	if o.olm == prediction.V1 {
		extension, err := prediction.InstalledExtension(c, pkg, version, o.channel)
		if err != nil {
			return nil, err
		}
		return o.predictExtension(cmd, c, extension)
	}
	state, err := prediction.Installed(c, pkg, version, o.channel)
	if err != nil {
		return nil, err
	}
	return state.Predict(cmd.Context())
}

// predictFile predicts for the ClusterExtension in a file. If the command line names PACKAGE@VERSION, that version counts as installed.
func (o *catalogPlan) predictFile(cmd *cobra.Command, c *fbc.Catalog, pkgs []string) ([]*prediction.Prediction, error) {
	object, err := readExtension(o.extension)
	if err != nil {
		return nil, err
	}
	extension, err := prediction.ExtensionOf(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.extension, err)
	}
	if len(pkgs) > 0 {
		pkg, version, _ := strings.Cut(pkgs[0], "@")
		if pkg != extension.Package {
			return nil, fmt.Errorf("%s is for package %s, and the command line for %s", o.extension, extension.Package, pkg)
		}
		installed, err := prediction.InstalledExtension(c, pkg, version, "")
		if err != nil {
			return nil, err
		}
		extension.Installed, extension.Release = installed.Installed, nil
	}
	return o.predictExtension(cmd, c, extension)
}

// predictExtension predicts for a ClusterExtension without a cluster.
func (o *catalogPlan) predictExtension(cmd *cobra.Command, c *fbc.Catalog, e *prediction.Extension) (all []*prediction.Prediction, err error) {
	if e.Gates, err = o.gates(nil); err != nil {
		return nil, err
	}
	reader, done := o.reader(cmd)
	defer done()
	e.Content = reader.Read
	p, err := e.Predict(cmd.Context(), c)
	return []*prediction.Prediction{p}, err
}

func (o *catalogPlan) predictCluster(cmd *cobra.Command, c *fbc.Catalog) (all []*prediction.Prediction, err error) {
	ctx := cmd.Context()
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("without PACKAGE, the installed versions are read from a cluster: %w; name a PACKAGE to predict without one", err)
	}
	cmd.PrintErrf("reading what is installed from the cluster at %s\n", config.Host)
	extensions, err := o.predictExtensions(cmd, config, []*prediction.ClusterCatalog{{Name: c.Dir, Content: c}}, true)
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

// predictOwn predicts for the ClusterExtensions of a cluster, with the ClusterCatalogs of the same cluster.
func (o *catalogPlan) predictOwn(cmd *cobra.Command) (all []*prediction.Prediction, err error) {
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("without CATALOG, the catalogs are read from a cluster: %w; name a CATALOG to predict for another", err)
	}
	cmd.PrintErrf("reading ClusterExtensions and ClusterCatalogs from the cluster at %s\n", config.Host)
	var authority []byte
	if o.authority != "" {
		if authority, err = os.ReadFile(o.authority); err != nil {
			return nil, err
		}
	}
	catalogs, done, err := readClusterCatalogs(cmd.Context(), config, authority)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	all, err = o.predictExtensions(cmd, config, catalogs, false)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the cluster at %s has no ClusterExtension", config.Host)
	}
	return all, err
}

// predictExtensions predicts what OLM v1 will do with the ClusterExtensions of a cluster. If having is set, there is one catalog, and only
// ClusterExtensions of its packages count.
func (o *catalogPlan) predictExtensions(cmd *cobra.Command, config *rest.Config, catalogs []*prediction.ClusterCatalog, having bool) (all []*prediction.Prediction, err error) {
	ctx := cmd.Context()
	client, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	objects, err := clusterextension.List(ctx, client)
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	ofCluster, err := prediction.GatesOf(ctx, config)
	if err != nil {
		return nil, err
	}
	gates, err := o.gates(ofCluster)
	if err != nil {
		return nil, err
	}
	live, err := prediction.ClusterOf(config)
	if err != nil {
		return nil, err
	}
	reader, done := o.reader(cmd)
	defer done()
	for _, object := range objects {
		extension, err := prediction.ExtensionOf(object)
		if err != nil {
			return nil, err
		}
		if o.namespace != "" && o.namespace != extension.Namespace || having && catalogs[0].Content.Find(extension.Package) == nil {
			continue
		}
		if having { // the catalog replaces every ClusterCatalog that the ClusterExtension selects
			extension.Catalogs = nil
		}
		extension.Gates, extension.Cluster, extension.Content = gates, live, reader.Read
		p, err := extension.PredictFrom(ctx, catalogs)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
