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

// newCatalogBuildCommand returns the command catalog build, which runs package catalog/build.
func newCatalogBuildCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "build (TEMPLATE... | BUNDLE_DIR...) --output DIR",
		Short: "Build a catalog from templates, or from the bundle folders of one package",
		Long: `Write DIR/PACKAGE/catalog.yaml for each package, from its template or from its bundles alone. Other
packages in DIR are left unchanged. The same input always gives the same bytes. A catalog.yaml that this
command wrote before is replaced; anything else in its place is left alone and reported as an error.

A template is a file that lists the bundles and says what the channels offer:

  schema: berth.template
  package: tide
  defaultChannel: stable             # optional if there is one channel
  bundles:
  - folder: bundles/0.1.0            # relative to the template
  - folder: bundles/0.2.0
  - image: quay.io/example/tide-bundle:v0.3.0
  channels:
  - name: preview                    # without entries: all bundles
  - name: stable
    skipRange: '>=0.1.0-0 <0.2.0'    # the default for entries
    entries:
    - version: 0.1.0                 # or name: tide.v0.1.0
    - version: 0.2.0
  deprecations:                      # of the package, a channel or a bundle
  - bundle: 0.1.0
    message: tide 0.1.0 forgets the moon. Update to 0.2.0.

An entry replaces the latest earlier version that it does not skip. The first entry replaces what its
ClusterServiceVersion says, in this catalog or in another. skips and skipRange are those of the
ClusterServiceVersion. The fields replaces, skips and skipRange of an entry override these; '' and [] mean
none. The package has the icon and the description of the default channel's head, unless the template has
an icon (a file) or a description.

All faults of a template are printed to standard error as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and nothing is written if one of them is an error. The rules of "berth catalog validate" apply, too.

A bundle from a folder carries all its objects, so that OLM installs it from the catalog alone. For a
bundle from an image, the catalog has the image by digest and a description, and OLM pulls the image.
Credentials for registries come from ~/.docker/config.json. Registries on loopback are accessed without
encryption.

Without a template, name the folders of all bundles of one package, in any order. Their annotations name
their channels and the default channel, and their ClusterServiceVersions define the upgrade edges:
spec.replaces, spec.skips and the annotation olm.skipRange.`,
		Example: `  # Write catalog/tide/catalog.yaml and catalog/moon/catalog.yaml
  berth catalog build tide.yaml moon.yaml --output catalog

  # Without a template: list every version that the catalog offers
  berth catalog build bundles/1.0.0 bundles/1.0.1 --output catalog`,
		Args:              cobra.MatchAll(takes("(TEMPLATE... | BUNDLE_DIR...)"), requiredFlags),
		ValidArgsFunction: files,
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
	cmd.Flags().StringVar(&output, "output", "", "`DIR` of the catalog; created if it does not exist (required)")
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
