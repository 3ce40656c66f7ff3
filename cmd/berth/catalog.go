package main

import (
	"fmt"
	"net"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
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
	cmd.AddCommand(newCatalogBuildCommand(), newCatalogValidateCommand(), newCatalogServeCommand(), newCatalogImageCommand())
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
			cmd.PrintErrf("wrote %s: %s\n", file, contents(config))
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "`DIR` of the catalog; it is made if it does not exist (required)")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // no such flag
	}
	return cmd
}

func newCatalogValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a catalog",
		Long: `Read the catalog in a folder and print what is wrong with it, each fault with its file and line.
Files that an .indexignore file excludes are left out, as OLM does.

The exit code is 0 if the catalog is valid, 1 if it is not, and 2 if the command line is wrong.`,
		Example: `  berth catalog validate catalog`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := catalog.Load(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("%s is not a valid catalog:\n%w", args[0], err)
			}
			cmd.PrintErrf("%s is valid: %s\n", args[0], contents(config))
			return nil
		},
	}
}

func newCatalogServeCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Answer OLM from a catalog, over gRPC",
		Long: `Serve the catalog in a folder by the protocol that a CatalogSource of type grpc speaks, until this
command is interrupted. Later changes of the folder are not seen.

The protocol has no encryption and no authentication, so the default address is on loopback. When
the server is ready it prints its address on standard error; port 0 takes a free one. A catalog that
is not valid is not served.`,
		Example: `  berth catalog serve catalog

  # On any free port
  berth catalog serve catalog --address 127.0.0.1:0`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return catalog.Serve(cmd.Context(), args[0], catalog.ServeOptions{
				Address: address,
				Ready:   func(bound net.Addr) { cmd.PrintErrf("serving %s on %s\n", args[0], bound) },
			})
		},
	}
	cmd.Flags().StringVar(&address, "address", catalog.DefaultAddress, "`HOST:PORT` to listen on")
	return cmd
}

// requiredFlags makes a missing flag a fault of the command line, like a missing argument.
func requiredFlags(cmd *cobra.Command, _ []string) error { return cmd.ValidateRequiredFlags() }

// contents says in a few words what a catalog holds.
func contents(config *declcfg.DeclarativeConfig) string {
	return fmt.Sprintf("%s, %s, %s", count(len(config.Packages), "package"),
		count(len(config.Channels), "channel"), count(len(config.Bundles), "bundle"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
