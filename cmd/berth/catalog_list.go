package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/list"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings/nearest"
)

// newCatalogListCommand returns the command catalog list, which prints what package catalog/list finds.
func newCatalogListCommand() *cobra.Command {
	var output string
	kinds := strings.Join(list.Kinds(), "|")
	cmd := &cobra.Command{
		Use:   "list " + kinds + " CATALOG [PACKAGE]",
		Short: "List the packages, channels or bundles of a catalog",
		Long: `List the packages, channels or bundles of a catalog, for all packages or for one.
Bundles are listed once for each of their channels, the latest first.

The table is for people and may change. On a terminal, it is as wide as that, and long values are cut; -o wide
cuts none, and has more columns. Programs should use JSON.

` + aboutSources,
		Example: `  berth catalog list packages catalog

  # The upgrade edges of one package
  berth catalog list bundles catalog aws-efs-operator

  # Of an image
  berth catalog list channels quay.io/operatorhubio/catalog:latest -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(list.Kinds(), args[0]) {
				return fmt.Errorf("there is no list of %q, want one of %s%s", args[0], strings.Join(list.Kinds(), ", "), nearest.Hint(args[0], list.Kinds()))
			}
			return takes(kinds, "CATALOG", "[PACKAGE]")(cmd, args)
		},
		ValidArgsFunction: completing(oneOf(list.Kinds()...), folders, packagesOf(1), nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			only := append(args, "")[2]
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[1])
			defer stop()
			return withCatalog(cmd.Context(), args[1], func(c *fbc.Catalog) error {
				stop()
				return list.Write(cmd.OutOrStdout(), output, args[0], c, only, columnsOf(cmd.OutOrStdout()))
			})
		},
	}
	addOutputFlag(cmd, &output, "text", list.Formats)
	return cmd
}
