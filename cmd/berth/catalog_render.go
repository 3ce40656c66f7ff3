package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/render"
)

func newCatalogRenderCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "render DIR...",
		Short: "Write catalogs and bundles as one stream of documents",
		Long: `Write the catalogs and bundles in folders to standard output as one stream of documents in canonical
form, sorted by package, channel and bundle. The output equals that of "opm render" byte by byte, except
for long integers, of which opm drops digits.

Bundles carry all their objects, so that OLM installs them from the catalog without an image. This
command does not check whether documents fit together; "berth catalog validate" does.`,
		Example: `  # A catalog in one file
  berth catalog render catalog > catalog.json

  # Add a bundle to a catalog
  berth catalog render catalog bundle/aws-efs-operator/1.0.0 -o yaml > new/catalog.yaml`,
		Args:              takes("DIR..."),
		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isTerminal(cmd.OutOrStdout()) { // progress would get in the way of the documents
				defer startProgress(cmd.ErrOrStderr(), "rendering")()
			}
			return render.Write(cmd.Context(), cmd.OutOrStdout(), output, args)
		},
	}
	addOutputFlag(cmd, &output, "json", render.Formats)
	return cmd
}
