package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/graph"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// drawings are the formats that draw one package.
var drawings = map[string]func(*graph.Package) string{
	"mermaid": (*graph.Package).Mermaid,
	"dot":     (*graph.Package).DOT,
	"svg":     (*graph.Package).SVG,
}

func newCatalogGraphCommand() *cobra.Command {
	var output string
	v1 := &v1Check{}
	cmd := &cobra.Command{
		Use:     "graph CATALOG [PACKAGE]",
		Aliases: []string{"render-graph"}, // in opm
		Short:   "Draw the upgrade graph of a package",
		Long: `Draw the upgrade graph of a package in a catalog: its channels side by side, each with its head at the top.
The default channel comes first, then the others from newest to oldest. The drawing shows what each
version replaces, skips or has in its skipRange, deprecated versions, versions from which no update
leads to the head, and edges that OLM never takes.

mermaid is for Markdown, dot for Graphviz. html is one page that loads nothing else, with an overview of
all packages unless one is named. It has a search over packages, channels and versions, and shows for
each version what OperatorHub would. With --for olm-v1, it has a switch between OLM v0 and what OLM v1 refuses.

` + aboutSources,
		Example: `  berth catalog graph catalog/certified aws-efs-operator

  # To explore in a browser
  berth catalog graph catalog -o html > catalog.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := v1.check(); err != nil {
				return err
			}
			if v1.target != "" && output != "html" {
				return fmt.Errorf("--for %s is for the page; add -o html", v1.target)
			}
			return takes("CATALOG", "[PACKAGE]")(cmd, args)
		},
		ValidArgsFunction: completing(folders, packagesOf(0), nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[0])
			defer stop()
			return withCatalog(cmd, args[0], args[1:], func(c *rules.Part) error {
				p, err := pageOf(c, args[1:])
				if err != nil {
					return err
				}
				if output == "html" {
					if err := v1.addTo(cmd, p, c, args[1:]); err != nil {
						return err
					}
					return p.Write(cmd.OutOrStdout())
				}
				if len(p.Packages) > 1 {
					return fmt.Errorf("%s holds %d packages, and %s draws one; name one that `%s` lists", c.Dir, len(p.Packages), output, escape.Command("berth catalog list packages %s", c.Dir))
				}
				_, err = io.WriteString(cmd.OutOrStdout(), drawings[output](p.Packages[0]))
				return err
			})
		},
	}
	v1.add(cmd)
	addOutputFlag(cmd, &output, "mermaid", []string{"mermaid", "dot", "svg", "html"})
	return cmd
}

// pageOf returns a page with the named package, or with all.
func pageOf(c *rules.Part, named []string) (*graph.Page, error) {
	if len(named) == 0 {
		return &graph.Page{Packages: graph.Of(c.Packages...), Undrawn: c.LeftOut, Faults: c.Faults}, nil
	}
	p, err := c.Named(named[0])
	if err != nil {
		return nil, err
	}
	others := func(f *findings.Finding) bool { return f.Package != p.Name }
	return &graph.Page{Packages: graph.Of(p), Faults: slices.DeleteFunc(slices.Clone(c.Faults), others)}, nil
}

// addTo adds to a page what OLM v1 refuses in the named package, or in all.
func (f *v1Check) addTo(cmd *cobra.Command, page *graph.Page, c *rules.Part, named []string) error {
	checker, done, err := f.checker(cmd)
	if err != nil || checker == nil {
		return err
	}
	defer done()
	page.OLMv1 = map[string]*graph.V1{}
	for _, p := range c.Packages {
		if len(named) > 0 && p.Name != named[0] {
			continue
		}
		refused, err := checker.Refused(cmd.Context(), p)
		if err != nil {
			return err
		}
		v1 := &graph.V1{Refused: map[string][]string{}}
		for _, b := range refused.Bundles {
			v1.Refused[b.Bundle.Name] = append(v1.Refused[b.Bundle.Name], b.What)
		}
		for _, u := range refused.Updates {
			v1.Updates = append(v1.Updates, graph.V1Update{From: u.From.Name, To: u.Bundle.Name, Why: u.What})
		}
		page.OLMv1[p.Name] = v1
	}
	return nil
}
