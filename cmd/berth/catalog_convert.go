package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/conversion"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// kindsOfTemplates are the kinds of templates that "berth catalog convert-template" can write.
var kindsOfTemplates = texts(conversion.Kinds)

func newCatalogConvertCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "convert-template KIND CATALOG [PACKAGE...]",
		Short: "Make a template from a catalog",
		Long: `Print a template from which "berth catalog build" builds the catalog, or some of its packages, again. KIND is

  basic        olm.template.basic of opm: the catalog's documents, but only the images of bundles
  substitutes  olm.template.substitutes of opm: all documents, to which substitutions can be added
  berth        the template of Berth, for one package

The first two are what "opm alpha convert-template" makes. What a template of Berth cannot express is reported
on standard error.

` + aboutSources,
		Example: `  # Maintain what is published
  berth catalog convert-template berth quay.io/example/catalog:v1 tide -o yaml > tide.yaml

  # The template of a catalog that was written by hand
  berth catalog convert-template basic catalog -o yaml > basic.yaml`,
		Args: cobra.MatchAll(takes("KIND", "CATALOG", "[PACKAGE...]"), func(_ *cobra.Command, args []string) error {
			if !slices.Contains(kindsOfTemplates, args[0]) {
				return fmt.Errorf("KIND is %q, want one of %s", args[0], strings.Join(kindsOfTemplates, ", "))
			}
			return nil
		}),
		ValidArgsFunction: completing(oneOf(kindsOfTemplates...), folders, packagesOf(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[1])
			defer stop()
			opened, err := source.Open(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, opened.Close()) }()
			text, lost, err := conversion.Template(cmd.Context(), opened.Dir, conversion.Kind(args[0]), output, args[2:]...)
			stop()
			if err != nil {
				return cmp.Or(source.Mistaken(args[1], source.WantCatalog), opened.Named(err))
			}
			for _, what := range lost {
				cmd.PrintErrf("warning: the template leaves out %s\n", escape.Line(what))
			}
			_, err = render.ForLog(cmd.OutOrStdout(), output).Write(text)
			return err
		},
	}
	addOutputFlag(cmd, &output, "json", conversion.Formats)
	return cmd
}
