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
		Long: `Write the catalogs and bundles in folders to standard output as one stream of documents, in the one
form that equal catalogs have: sorted by package, channel and bundle. It is what "opm render" writes,
to the byte, but for long integers, of which that drops digits.

Bundles carry all their objects, so that OLM installs them from the catalog without an image. The
documents are not held against each other; "berth catalog validate" does that.`,
		Example: `  # A catalog in one file
  berth catalog render catalog > catalog.json

  # Add a bundle to a catalog
  berth catalog render catalog bundle/aws-efs-operator/1.0.0 -o yaml > new/catalog.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isTerminal(cmd.OutOrStdout()) { // or else it would get in the way
				defer startProgress(cmd.ErrOrStderr(), "rendering")()
			}
			return render.Write(cmd.Context(), cmd.OutOrStdout(), output, args)
		},
	}
	addOutputFlag(cmd, &output, "json", render.Formats)
	return cmd
}
