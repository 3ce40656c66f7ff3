package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/image"
	"github.com/berth-csi/berth/registryv1"
)

// newBundleBumpCommand returns the command bundle bump, which a release runs when images have new versions.
func newBundleBumpCommand() *cobra.Command {
	var output string
	var digests bool
	content := bundleContent{}
	cmd := &cobra.Command{
		Use:   "bump DIR",
		Short: "Write the next version of a bundle, with other images",
		Long: `Write the bundle that follows the one in DIR: with the next z-version, which replaces the one in DIR and,
by its skipRange, updates each earlier version of the same minor version at once.

Images that are not named stay as they are in DIR. Everything else comes from the driver's current
definition. The differences are printed to standard output. Without any, nothing is written.

With --digests, every image gets the digest that its tag has in its registry now. The tag is that of --image
or --images, or else the one in DIR, or else the one in the driver's definition. If a registry cannot be
asked for one of them, nothing is written.`,
		Example: `  # When the image of a sidecar has changed
  berth bundle bump bundle/aws-efs-operator/1.0.0 \
    --image LIVENESS_PROBE_IMAGE=quay.io/example/livenessprobe@sha256:…

  # When several images have changed: images.yaml has lines NAME: PULLSPEC
  berth bundle bump bundle/aws-efs-operator/1.0.1 --images images.yaml --pinned

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
	cmd.Flags().StringVar(&output, "output", "", "`DIR` to write (default a folder named after the version, next to the earlier one)")
	cmd.Flags().BoolVar(&digests, "digests", false, "take the digests of all images from their registries")
	content.addFlags(cmd)
	return cmd
}

func bumpBundle(cmd *cobra.Command, dir, output string, digests bool, opts bundle.Options) error {
	earlier, err := registryv1.Load(dir)
	if err != nil {
		return err
	}
	driver, err := driverOf(earlier.Package)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if digests {
		if err := pinAll(cmd, earlier.Bundle, driver, opts.Images); err != nil {
			return err
		}
	}
	bumped, err := bundle.Bump(earlier.Bundle, driver, opts)
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

// pinAll sets all images of a bundle to what their registries have now. It asks for all before it reports those that it has
// no answer for.
func pinAll(cmd *cobra.Command, earlier *registryv1.Bundle, driver drivers.Driver, images map[string]string) error {
	references, err := bundle.References(earlier, driver)
	if err != nil {
		return err
	}
	maps.Copy(references, images)
	stop := startProgress(cmd.ErrOrStderr(), "asking registries for digests")
	defer stop()
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(references)) {
		pinned, err := image.Pin(cmd.Context(), references[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		images[name] = pinned
	}
	return errors.Join(faults...)
}

// driverOf returns the driver whose operator a package installs.
func driverOf(packageName string) (drivers.Driver, error) {
	for _, d := range registry.Packaged() {
		if d.Package.Name == packageName {
			return d, nil
		}
	}
	return drivers.Driver{}, fmt.Errorf("no driver of this build has package %s", packageName)
}
