package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/graph"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings/escape"
)

// drawings are the formats that draw one package.
var drawings = map[string]func(*graph.Package) string{
	"mermaid": (*graph.Package).Mermaid,
	"dot":     (*graph.Package).DOT,
	"svg":     (*graph.Package).SVG,
}

func newCatalogGraphCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "graph CATALOG [PACKAGE]",
		Short: "Draw the upgrade graph of a package",
		Long: `Draw the upgrade graph of a package in a catalog: its channels side by side, the default one first and
each with its head at the top, what each version replaces, skips or has in its skipRange, deprecated
versions, versions from which no update leads to the head, and edges that OLM never takes.

mermaid is for Markdown, dot for Graphviz. html is one page that loads nothing else, with all packages
unless one is named. It has a search, and shows for each version what OperatorHub would.

` + aboutSources,
		Example: `  berth catalog graph catalog/certified aws-efs-operator

  # To explore in a browser
  berth catalog graph catalog -o html > catalog.html`,
		Args:              takes("CATALOG", "[PACKAGE]"),
		ValidArgsFunction: completing(folders, packagesOf(0), nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[0])
			defer stop()
			return withCatalog(cmd, args[0], args[1:], func(c *rules.Part) error {
				packages, err := chosenPackages(c.Catalog, args[1:])
				if err != nil {
					return err
				}
				if output == "html" {
					return graph.WritePage(cmd.OutOrStdout(), packages)
				}
				if len(packages) > 1 {
					return fmt.Errorf("%s holds %d packages, and %s draws one; name one that `%s` lists", c.Dir, len(packages), output, escape.Command("berth catalog list packages %s", c.Dir))
				}
				_, err = io.WriteString(cmd.OutOrStdout(), drawings[output](packages[0]))
				return err
			})
		},
	}
	addOutputFlag(cmd, &output, "mermaid", []string{"mermaid", "dot", "svg", "html"})
	return cmd
}

// chosenPackages returns the named package, or all.
func chosenPackages(c *fbc.Catalog, named []string) (all []*graph.Package, err error) {
	if len(named) > 0 {
		p, err := c.Named(named[0])
		if err != nil {
			return nil, err
		}
		return []*graph.Package{graph.Of(p)}, nil
	}
	for _, p := range c.Packages {
		all = append(all, graph.Of(p))
	}
	return all, nil
}
