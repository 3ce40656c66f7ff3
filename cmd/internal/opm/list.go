package opm

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// lists are the tables of opm alpha list: the header of each, and a function that returns the lines of a package.
var lists = []struct {
	kind, args string
	header     []string
	lines      func(*fbc.Package) ([][]string, error)
}{
	{"packages", "REF", []string{"NAME", "DISPLAY NAME", "DEFAULT CHANNEL"}, packageLines},
	{"channels", "REF [PACKAGE]", []string{"PACKAGE", "CHANNEL", "HEAD"}, channelLines},
	{"bundles", "REF [PACKAGE]", []string{"PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"}, bundleLines},
}

func newListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List what is in a catalog, for people"}
	for _, l := range lists {
		cmd.AddCommand(&cobra.Command{
			Use:   l.kind + " " + l.args,
			Short: "List the " + l.kind + " of a catalog",
			Args:  cobra.RangeArgs(1, 1+strings.Count(l.args, " ")),
			RunE: func(cmd *cobra.Command, args []string) error {
				return withCatalog(cmd, args[0], func(c *fbc.Catalog) error {
					if len(args) > 1 {
						p, err := c.Named(args[1])
						if err != nil {
							return err
						}
						c.Packages = []*fbc.Package{p}
					}
					table := [][]string{l.header}
					for _, p := range c.Packages {
						lines, err := l.lines(p)
						if err != nil {
							return err
						}
						table = append(table, lines...)
					}
					return writeTable(cmd, table)
				})
			},
		})
	}
	return cmd
}

func writeTable(cmd *cobra.Command, table [][]string) error {
	buffered := bufio.NewWriter(cmd.OutOrStdout()) // a tabwriter writes each cell by itself
	aligned := tabwriter.NewWriter(buffered, 0, 4, 2, ' ', 0)
	for _, line := range table {
		for i, cell := range line {
			line[i] = escape.Visible(cell)
		}
		if _, err := fmt.Fprintln(aligned, strings.Join(line, "\t")); err != nil {
			return err
		}
	}
	return cmp.Or(aligned.Flush(), buffered.Flush())
}

// withCatalog calls do with the catalog that a reference names. It fails if the catalog is not valid, and so could not be served.
func withCatalog(cmd *cobra.Command, ref string, do func(*fbc.Catalog) error) (err error) {
	opened, err := source.Open(cmd.Context(), ref)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if isEmpty(opened.Dir) {
		return do(&fbc.Catalog{Dir: ref})
	}
	c, err := rules.Load(cmd.Context(), opened.Dir)
	if err != nil {
		return opened.Named(err)
	}
	c.Dir = ref
	return opened.Named(do(c))
}

func packageLines(p *fbc.Package) ([][]string, error) {
	var name string
	head := upgrade.Of(p, p.FindChannel(p.DefaultChannel)).Heads[0]
	details, err := p.FindBundle(head.Name).Details()
	if err != nil {
		return nil, err
	}
	if details.CSV != nil && details.Carried { // opm reads the ClusterServiceVersion itself, but not its description in the catalog
		name = details.CSV.Spec.DisplayName
	}
	return [][]string{{p.Name, name, p.DefaultChannel}}, nil
}

// channelsOf returns the channels of a package by name.
func channelsOf(p *fbc.Package) []*fbc.Channel {
	return slices.SortedFunc(slices.Values(p.Channels), func(a, b *fbc.Channel) int { return strings.Compare(a.Name, b.Name) })
}

func channelLines(p *fbc.Package) (lines [][]string, err error) {
	for _, c := range channelsOf(p) {
		lines = append(lines, []string{p.Name, c.Name, upgrade.Of(p, c).Heads[0].Name})
	}
	return lines, nil
}

func bundleLines(p *fbc.Package) (lines [][]string, err error) {
	for _, c := range channelsOf(p) {
		for _, e := range slices.SortedFunc(slices.Values(c.Entries), func(a, b declcfg.ChannelEntry) int { return strings.Compare(a.Name, b.Name) }) {
			lines = append(lines, []string{p.Name, c.Name, e.Name, e.Replaces, strings.Join(e.Skips, ","), e.SkipRange, p.FindBundle(e.Name).Image})
		}
	}
	return lines, nil
}

func newRenderGraphCommand() *cobra.Command {
	var from, pkg string
	var semantics bool
	cmd := &cobra.Command{
		Use:   "render-graph REF",
		Short: "Print the upgrade graphs of a catalog as Mermaid",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, refs []string) error {
			var all declcfg.DeclarativeConfig
			for _, ref := range refs {
				if err := addGraphs(cmd, ref, &all); err != nil {
					return err
				}
			}
			return declcfg.NewMermaidWriter(declcfg.WithMinEdgeName(from), declcfg.WithSpecifiedPackageName(pkg), declcfg.WithV0Semantics(semantics)).
				WriteChannels(all, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&from, "minimum-edge", "", "`BUNDLE` with the lowest version to draw")
	cmd.Flags().StringVarP(&pkg, "package-name", "p", "", "`PACKAGE` to draw (default all)")
	cmd.Flags().BoolVar(&semantics, "draw-v0-semantics", false, "show which edges OLM v0 takes")
	return cmd
}

// addGraphs adds the documents of a catalog that a drawing needs. Like opm, it does not check whether they fit together.
func addGraphs(cmd *cobra.Command, ref string, to *declcfg.DeclarativeConfig) (err error) {
	opened, err := source.Open(cmd.Context(), ref)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if isEmpty(opened.Dir) {
		return nil
	}
	c, found, err := fbc.Read(cmd.Context(), opened.Dir)
	if err != nil {
		return opened.Named(err)
	}
	var faulty []error
	for _, f := range found {
		if f.Severity == findings.Error {
			faulty = append(faulty, f)
		}
	}
	for _, p := range c.Packages {
		for _, c := range p.Channels {
			to.Channels = append(to.Channels, c.Channel)
		}
		for _, b := range p.Bundles {
			to.Bundles = append(to.Bundles, drawn(b.Bundle))
		}
		for _, d := range p.Deprecations {
			to.Deprecations = append(to.Deprecations, d.Deprecation)
		}
	}
	return opened.Named(errors.Join(faulty...))
}

// drawn returns a bundle without the payload: a drawing does not need that, and opm's library would decode it.
func drawn(b declcfg.Bundle) declcfg.Bundle {
	b.Properties = slices.DeleteFunc(slices.Clone(b.Properties), func(p property.Property) bool { return fbc.IsPayload(p.Type) })
	return b
}
