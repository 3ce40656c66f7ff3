package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
)

// catalogRender holds the flags of "berth catalog render".
type catalogRender struct {
	output       string
	migrateLevel string
	imageRef     string
	split        string
}

func newCatalogRenderCommand() *cobra.Command {
	o := &catalogRender{}
	cmd := &cobra.Command{
		Use:   "render SOURCE...",
		Short: "Write catalogs and bundles as one stream of documents",
		Long: `Write catalogs and bundles to standard output as one stream of documents in canonical
form, sorted by package, channel and bundle. The output equals that of "opm render" byte by byte, except
for long integers, of which opm drops digits. With --split there is a file for each package, as
"opm migrate" writes them.

A source is the folder or the image of a catalog or of a bundle. An image is docker://REFERENCE, or just
REFERENCE, and is pulled without a container engine, with the credentials of ~/.docker/config.json or
Podman's auth.json. oci:DIR is a folder in the OCI layout, as "berth catalog mirror"
and "berth catalog image --layout" write it.

Bundles of folders carry all their objects, so that OLM installs them from the catalog without an image,
unless --image-ref-template says where their images will be. Those of images are described only, and OLM
pulls the image. Bundles of catalogs stay as they are. --migrate-level chooses for all bundles with an image.

This command does not check whether documents fit together; "berth catalog validate" does.`,
		Example: `  # A catalog in one file
  berth catalog render catalog > catalog.json

  # Add a bundle to a catalog that is published
  berth catalog render quay.io/example/catalog:v1 \
    quay.io/example/aws-efs-operator-bundle:v1.0.1 -o yaml > new/catalog.yaml

  # Add a bundle to a catalog
  berth catalog render catalog bundle/aws-efs-operator/1.0.0 -o yaml > new/catalog.yaml

  # A published catalog as a folder for each package, for OpenShift 4.17 and later
  berth catalog render quay.io/example/catalog:v1 \
    --migrate-level bundle-object-to-csv-metadata -o yaml --split catalog`,
		Args:              takes("SOURCE..."),
		ValidArgsFunction: folders,
		RunE:              o.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.migrateLevel, "migrate-level", "", "`level` of all bundles with an image: "+strings.Join(migrateLevels, ", "))
	flags.StringVar(&o.imageRef, "image-ref-template", "", "`template` of the images of bundles in folders, such as quay.io/example/{{.Package}}-bundle:v{{.Version}}")
	flags.StringVar(&o.split, "split", "", "`DIR` empty folder to write a file for each package to, instead of standard output")
	completeFlag(cmd, "migrate-level", oneOf(migrateLevels...))
	addOutputFlag(cmd, &o.output, "json", render.Formats)
	return cmd
}

func (o *catalogRender) run(cmd *cobra.Command, args []string) error {
	options := render.Options{Output: o.output, Level: render.Format(o.migrateLevel)}
	if o.migrateLevel != "" && !slices.Contains(migrateLevels, o.migrateLevel) {
		return &usageError{command: cmd.CommandPath(), err: fmt.Errorf("--migrate-level is %q, want one of %s", o.migrateLevel, strings.Join(migrateLevels, ", "))}
	}
	if o.imageRef != "" {
		var err error
		if options.Image, err = render.ParseImageTemplate(o.imageRef); err != nil {
			return &usageError{command: cmd.CommandPath(), err: fmt.Errorf("--image-ref-template: %w", err)}
		}
	}
	if o.split != "" || !isTerminal(cmd.OutOrStdout()) { // progress would get in the way of the documents
		defer startProgress(cmd.ErrOrStderr(), "rendering")()
	}
	var found []*findings.Finding
	var err error
	if o.split != "" {
		found, err = render.Split(cmd.Context(), o.split, options, args)
	} else {
		found, err = render.Write(cmd.Context(), render.ForLog(cmd.OutOrStdout(), o.output), options, args)
	}
	printFindings(cmd, found)
	if err != nil {
		return cmp.Or(mistaken(args, source.WantEither), err)
	}
	return nil
}
