package opm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
)

// allMigrations is the level that includes all migrations.
const allMigrations = "all"

// formatOf returns the format of a migrate level. Without a level, bundles carry their objects.
func formatOf(level string) (render.Format, error) {
	formats := []string{allMigrations}
	for _, f := range render.BundleFormats {
		formats = append(formats, string(f))
	}
	switch {
	case level == "":
		return render.Whole, nil
	case level == allMigrations:
		return render.Described, nil
	case !slices.Contains(formats, level):
		return "", &usageError{fmt.Errorf("unknown migration level %q, want one of %s", level, strings.Join(formats, ", "))}
	}
	return render.Format(level), nil
}

func addLevelFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "migrate-level", "", "`LEVEL` of bundles with an image: none (the default), bundle-object-to-csv-metadata, all")
}

func newRenderCommand() *cobra.Command {
	var output, level, imageRef string
	var migrate bool
	cmd := &cobra.Command{
		Use:   "render REF...",
		Short: "Print catalogs and bundles, from folders and images, as one stream of documents",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, refs []string) error {
			if migrate {
				level = allMigrations
			}
			options := render.Options{Output: output, AsWritten: true}
			var err error
			if options.Level, err = formatOf(level); err != nil {
				return err
			}
			if imageRef != "" {
				if options.Image, err = render.ParseImageTemplate(imageRef); err != nil {
					return &usageError{fmt.Errorf("--alpha-image-ref-template: %w", err)}
				}
			}
			refs = slices.DeleteFunc(slices.Clone(refs), isEmpty)
			found, err := render.Write(cmd.Context(), cmd.OutOrStdout(), options, refs)
			sayFound(cmd, found)
			return err
		},
	}
	addOutputFlag(cmd, &output, "json", render.Formats...)
	addLevelFlag(cmd, &level)
	cmd.Flags().BoolVar(&migrate, "migrate", false, "as --migrate-level all")
	cmd.Flags().StringVar(&imageRef, "alpha-image-ref-template", "", "`TEMPLATE` of the images of bundles in folders, with {{.Package}}, {{.Name}} and {{.Version}}")
	cmd.MarkFlagsMutuallyExclusive("migrate", "migrate-level")
	return cmd
}

// isEmpty reports whether a folder has no document: opm takes such a folder for an empty catalog.
func isEmpty(ref string) bool {
	files, err := document.List(ref)
	return err == nil && len(files) == 0
}

func sayFound(cmd *cobra.Command, found []*findings.Finding) {
	for _, f := range found {
		warn(cmd, f.String())
	}
}

func newMigrateCommand() *cobra.Command {
	var output, level string
	cmd := &cobra.Command{
		Use:   "migrate REF DIR",
		Short: "Write a catalog, from a folder or an image, as a file for each package into a new or empty folder",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			options := render.Options{Output: output}
			var err error
			if options.Level, err = formatOf(level); err != nil {
				return err
			}
			if err := mustBeCatalog(cmd, args[0]); err != nil {
				return err
			}
			found, err := render.Split(cmd.Context(), args[1], options, args[:1])
			sayFound(cmd, found)
			return err
		},
	}
	addOutputFlag(cmd, &output, "json", render.Formats...)
	addLevelFlag(cmd, &level)
	return cmd
}

// mustBeCatalog fails if a reference is to a bundle.
func mustBeCatalog(cmd *cobra.Command, ref string) (err error) {
	opened, err := source.Open(cmd.Context(), ref)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if registryv1.IsFolder(opened.Dir) {
		return fmt.Errorf("%s is a bundle; expected a catalog", ref)
	}
	return nil
}
