package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/list"
	"github.com/berth-csi/berth/catalog/rules"
)

func newCatalogListCommand() *cobra.Command {
	var output string
	kinds := strings.Join(list.Kinds(), "|")
	cmd := &cobra.Command{
		Use:   "list " + kinds + " DIR [PACKAGE]",
		Short: "List what a catalog holds",
		Long: `List the packages of the catalog in a folder, the channels or the bundles, of all packages or of one.
Bundles are listed once for each channel that they are in, the latest first.

The table is for people and may change. Programs should ask for JSON: an array of objects, in which
fields keep their names.`,
		Example: `  berth catalog list packages catalog

  # How versions of one package update each other
  berth catalog list bundles catalog aws-efs-operator

  berth catalog list channels catalog -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.RangeArgs(2, 3)(cmd, args); err != nil {
				return err
			}
			if !slices.Contains(list.Kinds(), args[0]) {
				return fmt.Errorf("there is no list of %q, want one of %s", args[0], strings.Join(list.Kinds(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			only := append(args, "")[2]
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[1])
			c, err := rules.Load(cmd.Context(), args[1])
			stop()
			if err != nil {
				return notValid(args[1], err)
			}
			return list.Write(cmd.OutOrStdout(), output, args[0], c, only)
		},
	}
	addOutputFlag(cmd, &output, "text", list.Formats)
	return cmd
}
