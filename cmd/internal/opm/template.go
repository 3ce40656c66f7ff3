package opm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1/cache"
	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/conversion"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
)

// schemas are the schemas of templates, by the names of their types.
var schemas = map[string]string{"basic": "olm.template.basic", "semver": "olm.semver", "substitutes": "olm.template.substitutes"}

// mermaid is the format of a drawing, in addition to the formats of documents.
const mermaid = "mermaid"

func newRenderTemplateCommand() *cobra.Command {
	var output, level string
	cmd := &cobra.Command{
		Use:   "render-template [TYPE] [FILE]",
		Short: "Print the catalog that a template describes",
		Long: `Print the catalog that a template describes. TYPE is basic, semver or substitutes; without it, the schema of the
template counts. Without FILE, or with -, the template is read from standard input.

All faults are reported at once, with their lines. A template whose catalog cannot be served is one.`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			options := build.Options{Stdin: cmd.InOrStdin(), JSON: output == "json"}
			var err error
			if options.Format, err = formatOf(level); err != nil {
				return err
			}
			file := build.Stdin
			if len(args) > 0 && (schemas[args[0]] != "" || len(args) == 2) {
				if options.Schema = schemas[args[0]]; options.Schema == "" {
					return &usageError{fmt.Errorf("TYPE is %q, want one of %s", args[0], strings.Join(slices.Sorted(maps.Keys(schemas)), ", "))}
				}
				args = args[1:]
			}
			if len(args) > 0 {
				file = args[0]
			}
			return renderTemplate(cmd, file, output, options)
		},
	}
	addOutputFlag(cmd, &output, "json", "json", "yaml", mermaid)
	addLevelFlag(cmd, &level)
	return cmd
}

// renderTemplate builds the catalog from a template, and prints it. Pulled bundles are kept in the user's cache.
func renderTemplate(cmd *cobra.Command, file, output string, options build.Options) (err error) {
	if dir, err := cache.Dir(); err == nil { // without a cache folder, bundles are pulled each time
		kept := cache.New(dir, cache.Limit)
		options.Keeper = kept
		defer func() {
			if err := kept.Close(); err != nil {
				warn(cmd, err.Error())
			}
		}()
	}
	built, err := build.Templates(cmd.Context(), []string{file}, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, built.Close()) }()
	for _, f := range built.Found {
		cmd.PrintErrln(f.String())
	}
	if faulty := findings.Count(built.Found, findings.Error); faulty > 0 {
		return fmt.Errorf("the template %s makes no catalog that can be served: errors above: %d", file, faulty)
	}
	if output == mermaid {
		return draw(cmd, built.Catalogs)
	}
	for _, c := range built.Catalogs {
		if err := c.WriteDocuments(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	return nil
}

// draw draws the upgrade graphs of catalogs with opm's library.
func draw(cmd *cobra.Command, catalogs []*build.Catalog) error {
	var all declcfg.DeclarativeConfig
	for _, c := range catalogs {
		all.Channels = append(all.Channels, c.Config.Channels...)
		for _, b := range c.Config.Bundles {
			all.Bundles = append(all.Bundles, drawn(b))
		}
		all.Deprecations = append(all.Deprecations, c.Config.Deprecations...)
	}
	return declcfg.NewMermaidWriter().WriteChannels(all, cmd.OutOrStdout())
}

func newConvertTemplateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "convert-template", Short: "Print the template of a catalog"}
	for _, kind := range []conversion.Kind{conversion.Basic, conversion.Substitutes} {
		var output string
		convert := &cobra.Command{
			Use:   string(kind) + " [FILE]",
			Short: "Print the template of the kind olm.template." + string(kind) + " of the catalog in a file, or in standard input",
			Args:  cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) (err error) {
				file := source.Stdin
				if len(args) > 0 {
					file = args[0]
				}
				opened, err := source.Open(cmd.Context(), file)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, opened.Close()) }()
				text, _, err := conversion.Template(cmd.Context(), opened.Dir, kind, output)
				if err != nil {
					return opened.Named(err)
				}
				if output == "yaml" {
					text = append(text, '\n') // opm ends it with an empty line
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			},
		}
		addOutputFlag(convert, &output, "json", conversion.Formats...)
		cmd.AddCommand(convert)
	}
	return cmd
}
