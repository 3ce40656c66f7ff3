package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog"
)

func newCatalogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Build, check and serve catalogs of bundles",
		Long: `A catalog tells the Operator Lifecycle Manager (OLM) which packages there are, by which channels
they are updated, and what their bundles hold. It is a folder of YAML or JSON files: a file-based
catalog. These commands make such folders, check them, and answer OLM from them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCatalogBuildCommand(), newCatalogValidateCommand(), newCatalogRenderCommand(), newCatalogListCommand(),
		newCatalogDiffCommand(), newCatalogPlanCommand(), newCatalogGraphCommand(), newCatalogServeCommand(), newCatalogImageCommand())
	return cmd
}

func newCatalogBuildCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "build BUNDLE_DIR... --output DIR",
		Short: "Make the catalog of one package from its bundle folders",
		Long: `Write DIR/PACKAGE/catalog.yaml from the folders of a package's bundles, which must be in the
registry+v1 format. List the folder of every version that the catalog is to hold, in any order.

The bundles' annotations say which channels they are part of and which one is the default. Their
ClusterServiceVersions say how versions update each other: spec.replaces, spec.skips and the
annotation olm.skipRange. The newest version in the default channel gives the package its icon and
its description.

Bundles carry all their objects, so that OLM installs them from the catalog without pulling a
bundle image. The same folders always give the same bytes. A catalog.yaml that this command made
before is replaced; anything else that stands in its place is left alone and is an error.

To put several packages into one catalog, build each of them with the same --output.`,
		Example: `  # Write catalog/aws-efs-operator/catalog.yaml
  berth catalog build bundle/aws-efs-operator/1.0.0 --output catalog

  # Every version that is to be on offer has to be listed
  berth catalog build bundles/1.0.0 bundles/1.0.1 --output catalog`,
		Args: cobra.MatchAll(cobra.MinimumNArgs(1), requiredFlags),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := catalog.Build(cmd.Context(), args)
			if err != nil {
				return err
			}
			file, err := catalog.Write(config, output)
			if err != nil {
				return err
			}
			cmd.PrintErrf("wrote %s: %s, %s, %s\n", file, count(len(config.Packages), "package"),
				count(len(config.Channels), "channel"), count(len(config.Bundles), "bundle"))
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "`DIR` of the catalog; it is made if it does not exist (required)")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // no such flag
	}
	return cmd
}

// requiredFlags makes a missing flag a fault of the command line, like a missing argument.
func requiredFlags(cmd *cobra.Command, _ []string) error { return cmd.ValidateRequiredFlags() }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
