package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/addition"
	"github.com/berth-csi/berth/internal/findings/escape"
)

func newCatalogAddCommand() *cobra.Command {
	var request addition.Request
	cmd := &cobra.Command{
		Use:   "add FILE BUNDLE",
		Short: "Add a bundle to a catalog or a template",
		Long: `Add a bundle to FILE, and leave all other text there as it is, comments included. BUNDLE is the folder or
the image of a bundle. FILE is

  a template of Berth, which gets the bundle and, in channels that list their entries, an entry
  olm.template.basic of opm, which gets the image and, in each channel, an entry that replaces the
    head
  olm.semver of opm, whose lists candidate, fast and stable get the image; --channel names them
  olm.template.substitutes of opm, in which a later release of a bundle takes its place; another
    version gets its document, and such entries
  a file of a catalog, which gets the bundle's document and such entries

Templates get an image as it is named here, catalogs get its digest. olm.semver and templates of Berth without
entries list no updates: those follow from the versions. An entry replaces the head or what --replaces says;
the CSV's own replaces, skips and skipRange are not taken over.`,
		Example: `  # The next version, in the only channel
  berth catalog add catalog/tide/catalog.yaml quay.io/example/tide-bundle:v0.3.0

  berth catalog add operators/tide/catalog-templates/semver.yaml \
    quay.io/example/tide-bundle:v0.3.0 --channel candidate --channel fast`,
		Args:              takes("FILE", "BUNDLE"),
		ValidArgsFunction: completing(files, folders),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.File, request.Bundle = args[0], args[1]
			stop := startProgress(cmd.ErrOrStderr(), "reading the bundle")
			defer stop()
			added, err := addition.Add(cmd.Context(), request)
			stop()
			for _, what := range added {
				cmd.PrintErrf("%s: added %s\n", request.File, escape.Line(what))
			}
			found, others := registryv1.Faults(err)
			if len(found) == 0 {
				return err
			}
			printFindings(cmd, found)
			return errors.Join(append(others, fmt.Errorf("nothing is added: %s", count(len(found), "error")))...)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&request.Channels, "channel", nil, "`name` of a channel that gets an entry, or of a list (repeatable; default the only one)")
	flags.StringVar(&request.Replaces, "replaces", "", "`name` of the bundle that the entry replaces (default the head of each channel)")
	return cmd
}
