package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// newBundleBumpCommand returns the command bundle bump, which a release runs when images have new versions.
func newBundleBumpCommand() *cobra.Command {
	var output string
	var digests bool
	content := bundleContent{}
	cmd := &cobra.Command{
		Use:   "bump DIR",
		Short: "Write the next version of a bundle, with other images",
		Long: `Write the bundle that follows the one in DIR: with the next z-version, which replaces the one in DIR. The
differences are printed to standard output. Without any, nothing is written. Images that are not named stay
as they are in DIR.

The bundle of a driver of this project comes from the driver's current definition. By its skipRange, it
updates each earlier version of the same minor version at once.

In any other bundle, only these change: the images, the name and the version, what it replaces, and the end of
a skipRange. Everything else in its files stays, comments included. NAME is the name of an image in
spec.relatedImages, an environment variable RELATED_IMAGE_…, or the name of a container.

With --digests, every image gets the digest that its tag has in its registry now. The tag is that of --image
or --images, or else the one in DIR, or else the one in the driver's definition. If a registry cannot be
asked for one of them, nothing is written.`,
		Example: `  # When the image of a sidecar has changed
  berth bundle bump bundle/aws-efs-operator/1.0.0 \
    --image LIVENESS_PROBE_IMAGE=quay.io/example/livenessprobe@sha256:…

  # When several images have changed: images.yaml has lines NAME: PULLSPEC
  berth bundle bump bundle/aws-efs-operator/1.0.1 --images images.yaml --pinned

  # The bundle of any operator
  berth bundle bump bundle/0.2.0 --image manager=quay.io/example/tide@sha256:…

  # When any image has been rebuilt
  berth bundle bump bundle/aws-efs-operator/1.0.1 --digests`,
		Args:              takes("DIR"),
		ValidArgsFunction: completing(folders, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := content.options()
			if err != nil {
				return &usageError{command: cmd.CommandPath(), err: err}
			}
			return bumpBundle(cmd, args[0], output, digests, opts)
		},
	}
	addOutputDir(cmd, &output, "`DIR` folder to write (default one named after the version, next to the earlier one)")
	cmd.Flags().BoolVar(&digests, "digests", false, "take the digests of all images from their registries")
	content.addFlags(cmd)
	return cmd
}

func bumpBundle(cmd *cobra.Command, dir, output string, digests bool, opts bundle.Options) error {
	earlier, err := registryv1.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; expected the folder of the earlier bundle, with manifests/ and metadata/", err)
	}
	if err != nil {
		return cmp.Or(source.Mistaken(dir, source.WantBundle), err)
	}
	bumped, err := bump(cmd, dir, earlier, digests, opts)
	if err != nil {
		return err
	}
	if bumped == nil {
		cmd.PrintErrf("%s: nothing has changed since %s\n", dir, earlier.Name)
		return nil
	}
	if output == "" {
		output = filepath.Join(dir, "..", bumped.Version())
	}
	if err := bumped.Write(output); err != nil {
		return err
	}
	if _, err := io.WriteString(escape.Screen(cmd.OutOrStdout()), bundle.Diff(earlier.Bundle, bumped)); err != nil {
		return err
	}
	cmd.PrintErrf("wrote %s: bundle %s\n", output, bumped.Name)
	return nil
}

// bump returns the bundle of the next version, or nil if nothing has changed.
func bump(cmd *cobra.Command, dir string, earlier *registryv1.Contents, digests bool, opts bundle.Options) (*registryv1.Bundle, error) {
	driver, ours := driverOf(earlier.Package)
	references := func() (map[string]string, error) { return bundle.References(earlier.Bundle, driver) }
	if !ours {
		references = func() (map[string]string, error) { return taggedImages(earlier) }
	}
	if digests {
		if err := pinAll(cmd, references, opts.Images); err != nil {
			return nil, err
		}
	}
	if ours {
		return bundle.Bump(earlier.Bundle, driver, opts)
	}
	bumped, err := bundle.Follow(earlier, opts.Images, opts.Pinned)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return bumped, nil
}

// taggedImages returns the images of a bundle that are not given by digest: their tags may name other builds by now.
func taggedImages(b *registryv1.Contents) (map[string]string, error) {
	all, err := bundle.ImagesOf(b)
	maps.DeleteFunc(all, func(_, image string) bool { return strings.Contains(image, "@") })
	return all, err
}

// pinAll sets all images of a bundle to their current digests. If registries do not answer for some images, it still asks for all others
// before it fails.
func pinAll(cmd *cobra.Command, referencesOf func() (map[string]string, error), images map[string]string) error {
	references, err := referencesOf()
	if err != nil {
		return err
	}
	maps.Copy(references, images)
	stop := startProgress(cmd.ErrOrStderr(), "asking registries for digests")
	defer stop()
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(references)) {
		pinned, err := oci.Pin(cmd.Context(), references[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		images[name] = pinned
	}
	return errors.Join(faults...)
}

// driverOf returns the driver whose operator a package installs, if the package is this project's.
func driverOf(packageName string) (driver drivers.Driver, ours bool) {
	for _, d := range registry.Packaged() {
		if d.Package.Name == packageName {
			return d, true
		}
	}
	return drivers.Driver{}, false
}
