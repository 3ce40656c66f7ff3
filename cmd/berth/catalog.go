package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/fbc"
)

func newCatalogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Build, check and serve catalogs of bundles",
		Long: `A catalog tells the Operator Lifecycle Manager (OLM) which packages there are, by which channels
they are updated, and what their bundles hold. It is a folder of YAML or JSON files: a file-based
catalog. These commands make such folders, check them, and answer OLM from them.`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCatalogBuildCommand(), newCatalogValidateCommand(), newCatalogRenderCommand(), newCatalogListCommand(),
		newCatalogDiffCommand(), newCatalogPlanCommand(), newCatalogGraphCommand(), newCatalogServeCommand(), newCatalogImageCommand(), newCatalogMirrorCommand())
	return cmd
}

const aboutSources = `A catalog is a folder, or an image: docker://REFERENCE, or just REFERENCE, such as quay.io/example/catalog:v1.
Images are pulled without a container engine, with the credentials of ~/.docker/config.json or Podman's
auth.json. oci:DIR is a folder that "berth catalog mirror" has written.`

// withCatalog calls do with a catalog that must be valid for serving to OLM, from what the command line names.
func withCatalog(ctx context.Context, text string, do func(*fbc.Catalog) error) (err error) {
	opened, err := source.Open(ctx, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	c, err := rules.Load(ctx, opened.Dir)
	if err != nil {
		return notValid(text, opened.Named(err))
	}
	c.Dir = text
	return opened.Named(do(c))
}

// requiredFlags makes a missing flag a fault of the command line, like a missing argument.
func requiredFlags(cmd *cobra.Command, _ []string) error { return cmd.ValidateRequiredFlags() }

// are returns a number of things as the subject of a sentence, with its verb.
func are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return count(n, noun) + " are"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
