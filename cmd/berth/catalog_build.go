package main

import (
	"fmt"
	"os"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings"
)

func newCatalogBuildCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "build (TEMPLATE... | BUNDLE_DIR...) --output DIR",
		Short: "Make a catalog from templates, or from the bundle folders of one package",
		Long: `Write DIR/PACKAGE/catalog.yaml for each package, from a template of it or from its bundles alone. What
is in DIR of other packages stays. The same input always gives the same bytes. A catalog.yaml that this
command made before is replaced; anything else that stands in its place is left alone and is an error.

A template is a file that says which bundles there are and what the channels offer:

  schema: berth.template
  package: tide
  defaultChannel: stable             # may be left out where there is one channel
  bundles:
  - folder: bundles/0.1.0            # beside the template
  - folder: bundles/0.2.0
  - image: quay.io/example/tide-bundle:v0.3.0
  channels:
  - name: preview                    # without entries: all bundles
  - name: stable
    skipRange: '>=0.1.0-0 <0.2.0'    # of all entries that have none of their own
    entries:
    - version: 0.1.0                 # or name: tide.v0.1.0
    - version: 0.2.0
  deprecations:                      # of the package, a channel or a bundle
  - bundle: 0.1.0
    message: tide 0.1.0 forgets the moon. Update to 0.2.0.

An entry replaces the one before it, by version, that it does not skip. The first one replaces what its
ClusterServiceVersion says, in this catalog or in another. skips and skipRange are those of its
ClusterServiceVersion. Fields replaces, skips and skipRange of an entry take the place of that; '' and []
say that there is none. The package has the icon and the description of the default channel's newest
version, unless the template has an icon (a file) or a description.

Everything that is wrong with a template is printed to standard error, as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and if one of that is an error nothing is written. It has to keep the rules of "berth catalog validate".

A bundle from a folder carries all its objects, so that OLM installs it from the catalog alone. Of one from an
image the catalog has the image, by digest, and a description; OLM pulls the image. Registries are logged
in to with what container tools have been told of them (~/.docker/config.json); those on loopback are
spoken to without encryption.

Without a template, name the folders of all bundles of one package that are to be on offer, in any order.
Their annotations say which channels they are part of and which one is the default, and their
ClusterServiceVersions how they update each other: spec.replaces, spec.skips and the annotation
olm.skipRange.`,
		Example: `  # Write catalog/tide/catalog.yaml and catalog/moon/catalog.yaml
  berth catalog build tide.yaml moon.yaml --output catalog

  # Without a template: every version that is to be on offer has to be listed
  berth catalog build bundles/1.0.0 bundles/1.0.1 --output catalog`,
		Args: cobra.MatchAll(cobra.MinimumNArgs(1), requiredFlags),
		RunE: func(cmd *cobra.Command, args []string) error {
			configs, err := buildCatalogs(cmd, args)
			if err != nil {
				return err
			}
			for _, config := range configs {
				file, err := fbc.Write(config, output)
				if err != nil {
					return err
				}
				cmd.PrintErrf("wrote %s: %s, %s, %s\n", file, count(len(config.Packages), "package"),
					count(len(config.Channels), "channel"), count(len(config.Bundles), "bundle"))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "`DIR` of the catalog; it is made if it does not exist (required)")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // no such flag
	}
	return cmd
}

// buildCatalogs returns the catalogs of packages, from templates or from bundle folders.
func buildCatalogs(cmd *cobra.Command, args []string) ([]*declcfg.DeclarativeConfig, error) {
	templates := 0
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("expected a template or a bundle folder: %w", err)
		}
		if !info.IsDir() {
			templates++
		}
	}
	stop := startProgress(cmd.ErrOrStderr(), "reading bundles")
	defer stop()
	switch templates {
	case 0:
		config, err := build.Folders(cmd.Context(), args)
		return []*declcfg.DeclarativeConfig{config}, err
	case len(args):
	default:
		return nil, fmt.Errorf("some of %q are files and some are folders; want templates only, or bundle folders only", args)
	}
	configs, found, err := build.Templates(cmd.Context(), args)
	stop()
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		cmd.PrintErrln(f.String())
	}
	if faults := findings.Count(found, findings.Error); faults > 0 {
		return nil, fmt.Errorf("no catalog is written: %s", count(faults, "error"))
	}
	return configs, nil
}
