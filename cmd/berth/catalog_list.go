package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/catalog/list"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

// newCatalogListCommand returns the command catalog list, which prints the results of package
// catalog/list.
func newCatalogListCommand() *cobra.Command {
	var o list.Options
	kinds := strings.Join(list.Kinds(), "|")
	cmd := &cobra.Command{
		Aliases: []string{"ls"},
		Use:     "list " + kinds + " CATALOG [PACKAGE...]",
		Short:   "List the packages, channels or bundles of a catalog",
		Long: `List the packages, channels or bundles of a catalog, for all packages or for the named ones. PACKAGE
and --channel may be patterns, such as 'aws-*'. Bundles are listed once for each of their channels, the latest
first.

The table is for people and may change. It fits the terminal: long values are cut, and columns that are empty or do
not fit are left out. Names are never cut. If the catalog has lifecycles, SUPPORT says how a version is supported
today. -o wide cuts no value, and has more columns. Programs should use JSON or YAML.

` + aboutSources,
		Example: `  berth catalog list packages catalog

  # The upgrade edges of one package
  berth catalog list bundles catalog aws-efs-operator

  # One channel of several packages, the latest versions first
  berth catalog list bundles catalog 'aws-*' --channel stable --sort version

  # Of an image
  berth catalog list channels quay.io/operatorhubio/catalog:latest -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(list.Kinds(), args[0]) {
				return fmt.Errorf("there is no list of %q, want one of %s, and then CATALOG%s", args[0], strings.Join(list.Kinds(), ", "), nearest.Hint(args[0], list.Kinds()))
			}
			if o.Sort != "" && !slices.Contains(list.Orders(), o.Sort) {
				return fmt.Errorf("--sort is %q, want one of %s", o.Sort, strings.Join(list.Orders(), ", "))
			}
			return takes(kinds, "CATALOG", "[PACKAGE...]")(cmd, args)
		},
		ValidArgsFunction: completing(oneOf(list.Kinds()...), folders, packagesOf(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[1])
			defer stop()
			o.Kind, o.Packages, o.Columns, o.Today = args[0], args[2:], columnsOf(cmd.OutOrStdout()), lifecycle.DateOf(time.Now())
			return withCatalog(cmd, args[1], named(o.Packages), func(c *rules.Part) error {
				stop()
				return list.Write(cmd.OutOrStdout(), c.Catalog, o)
			})
		},
	}
	cmd.Flags().StringVar(&o.Channel, "channel", "", "`channel` to list, or a pattern of several")
	cmd.Flags().StringVar(&o.Sort, "sort", "", "`order` of the list: "+strings.Join(list.Orders(), ", ")+" (the latest first)")
	completeFlag(cmd, "channel", nothing)
	completeFlag(cmd, "sort", oneOf(list.Orders()...))
	addOutputFlag(cmd, &o.Format, "text", list.Formats)
	return cmd
}

// named returns the given names, or nil if a pattern is among them, because a pattern may match any package.
func named(packages []string) []string {
	if slices.ContainsFunc(packages, list.IsPattern) {
		return nil
	}
	return packages
}
