package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/diff"
	"github.com/berth-csi/berth/catalog/rules"
)

// newCatalogDiffCommand returns the command catalog diff, which prints what package catalog/diff finds.
func newCatalogDiffCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what changes for clusters from one catalog to another",
		Long: `Show what changes for clusters when the catalog in folder NEW replaces the one in OLD, package by
package: channels, channel heads, entries from which updates no longer lead to the head, the default
channel, deprecations, and how new heads differ from old ones: images, permissions, versions of
CustomResourceDefinitions, install modes.

Permissions are compared only if the catalogs carry them, in properties of type olm.bundle.object.`,
		Example: `  berth catalog diff catalog/certified new/certified

  # For a pull request
  berth catalog diff main/catalog catalog -o markdown`,
		Annotations: found("something changes"),
		Args:        cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := compareCatalogs(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			if err := d.Write(cmd.OutOrStdout(), output); err != nil {
				return err
			}
			if len(d.Packages) > 0 {
				return &exitError{code: exitFound}
			}
			return nil
		},
	}
	addOutputFlag(cmd, &output, "text", diff.Formats)
	return cmd
}

func compareCatalogs(cmd *cobra.Command, old, new string) (*diff.Diff, error) {
	defer startProgress(cmd.ErrOrStderr(), "comparing")()
	before, err := rules.Load(cmd.Context(), old)
	if err != nil {
		return nil, notValid(old, err)
	}
	after, err := rules.Load(cmd.Context(), new)
	if err != nil {
		return nil, notValid(new, err)
	}
	return diff.Compare(before, after)
}
