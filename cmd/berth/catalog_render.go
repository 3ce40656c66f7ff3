package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/findings/escape"
)

func newCatalogRenderCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "render SOURCE...",
		Short: "Write catalogs and bundles as one stream of documents",
		Long: `Write catalogs and bundles to standard output as one stream of documents in canonical
form, sorted by package, channel and bundle. The output equals that of "opm render" byte by byte, except
for long integers, of which opm drops digits.

A source is the folder or the image of a catalog or of a bundle. An image is docker://REFERENCE, or just
REFERENCE, and is pulled without a container engine, with the credentials of ~/.docker/config.json or
Podman's auth.json. oci:DIR is a folder that "berth catalog mirror" has written.

Bundles of folders carry all their objects, so that OLM installs them from the catalog without an image.
Those of images are described only, and OLM pulls the image. This command does not check whether documents
fit together; "berth catalog validate" does.`,
		Example: `  # A catalog in one file
  berth catalog render catalog > catalog.json

  # Add a bundle to a catalog that is published
  berth catalog render quay.io/example/catalog:v1 quay.io/example/aws-efs-operator-bundle:v1.0.1 -o yaml > new/catalog.yaml

  # Add a bundle to a catalog
  berth catalog render catalog bundle/aws-efs-operator/1.0.0 -o yaml > new/catalog.yaml`,
		Args:              takes("SOURCE..."),
		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isTerminal(cmd.OutOrStdout()) { // progress would get in the way of the documents
				defer startProgress(cmd.ErrOrStderr(), "rendering")()
			}
			found, err := render.Write(cmd.Context(), cmd.OutOrStdout(), output, args)
			for _, f := range found {
				cmd.PrintErrln(escape.Line(f.String()))
			}
			return err
		},
	}
	addOutputFlag(cmd, &output, "json", render.Formats)
	return cmd
}
