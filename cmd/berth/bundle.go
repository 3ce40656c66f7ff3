package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

func newBundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Generate and validate bundles",
		Long: `A bundle is a folder from which the Operator Lifecycle Manager installs one version of a
driver's operator: manifests/ with a ClusterServiceVersion and the CustomResourceDefinitions
it owns, metadata/ for catalogs, and bundle.Dockerfile to build its image.`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBundleGenerateCommand(), newBundleBumpCommand(), newBundleValidateCommand(), newBundlePermissionsCommand(), newBundleImageCommand())
	return cmd
}

// bundleGenerate holds the flags of "berth bundle generate".
type bundleGenerate struct {
	version   string
	output    string
	replaces  string
	skipRange string
	content   bundleContent
}

// bundleContent holds the flags for the images of a bundle and its release date.
type bundleContent struct {
	images   []string
	file     string
	pinned   bool
	released string
}

func (c *bundleContent) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&c.images, "image", nil, "`NAME=PULLSPEC` image to use; NAME is its environment variable, or "+
		bundle.OperatorImage+" for the operator's own (repeatable)")
	flags.StringVar(&c.file, "images", "", "YAML `file` with lines NAME: PULLSPEC; --image takes precedence")
	flags.BoolVar(&c.pinned, "pinned", false, "fail unless every image is given by digest, as releases require")
	flags.StringVar(&c.released, "released", "", "`date` of the release to show in a console, as YYYY-MM-DD (default none)")
}

// options converts the flags to the options of package bundle.
func (c *bundleContent) options() (bundle.Options, error) {
	opts := bundle.Options{Images: map[string]string{}, Pinned: c.pinned}
	if c.file != "" {
		data, err := boundedyaml.ReadFile(c.file)
		if err != nil {
			return opts, fmt.Errorf("--images: %w; want a file with lines NAME: PULLSPEC", err)
		}
		if err := boundedyaml.UnmarshalStrict(data, &opts.Images); err != nil {
			return opts, fmt.Errorf("--images: %s: want lines NAME: PULLSPEC: %w", c.file, err)
		}
	}
	for _, image := range c.images {
		name, pullSpec, ok := strings.Cut(image, "=")
		if !ok {
			return opts, fmt.Errorf("--image is %q, want NAME=PULLSPEC", image)
		}
		opts.Images[name] = pullSpec
	}
	if c.released == "" {
		return opts, nil
	}
	var err error
	if opts.Released, err = time.Parse(time.DateOnly, c.released); err != nil {
		return opts, fmt.Errorf("--released is %q, want a date such as 2026-01-31: %w", c.released, err)
	}
	return opts, nil
}

func newBundleGenerateCommand() *cobra.Command {
	o := &bundleGenerate{}
	cmd := &cobra.Command{
		Use:   "generate DRIVER --version VERSION",
		Short: "Write the bundle of one version of a driver's operator",
		Long: `Write the bundle of one version of a driver's operator, from the driver's definition. The
same definition and flags always give the same bytes.

The drivers are: ` + strings.Join(packaged(), ", ") + `.

A bundle in the output folder is replaced as a whole. A folder that holds anything but a bundle
of the same package is rejected and left unchanged.`,
		Example: `  # Write bundle/aws-efs-operator/1.0.0
  berth bundle generate efs --version 1.0.0

  # The next version, with another image of the driver, in a folder of choice
  berth bundle generate efs --version 1.0.1 --replaces aws-efs-operator.v1.0.0 \
    --image DRIVER_IMAGE=quay.io/example/aws-efs-csi-driver@sha256:… --output-dir bundles/1.0.1

  # Then check it
  berth bundle validate bundles/1.0.1`,
		Args:              cobra.MatchAll(takes("DRIVER"), requiredFlags),
		ValidArgsFunction: completing(oneOf(packaged()...), nothing),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.version, "version", "", "`version` of the package, such as 1.0.0 (required)")
	addOutputDir(cmd, &o.output, "`DIR` folder to write (default bundle/PACKAGE/VERSION)")
	flags.StringVar(&o.replaces, "replaces", "", "`name` of the ClusterServiceVersion that this one updates (default chosen by the package)")
	flags.StringVar(&o.skipRange, "skip-range", "", "`versions` that this one updates at once, such as \">=1.0.0 <1.0.3\" (default none)")
	o.content.addFlags(cmd)
	if err := cmd.MarkFlagRequired("version"); err != nil {
		panic(err) // no such flag
	}
	return cmd
}

// packaged returns the names of the drivers that have bundles.
func packaged() (names []string) {
	for _, d := range registry.Packaged() {
		names = append(names, d.Name)
	}
	return names
}

func (o *bundleGenerate) run(cmd *cobra.Command, name string) error {
	driver, err := registry.Get(name)
	switch {
	case err != nil:
		err = fmt.Errorf("unknown driver %q: want one of %s%s", name, strings.Join(packaged(), ", "), nearest.Hint(name, packaged()))
	case !driver.HasPackage():
		err = fmt.Errorf("driver %q has no package: the cluster storage operator runs it; want one of %s", name, strings.Join(packaged(), ", "))
	}
	if err != nil {
		return &usageError{command: cmd.CommandPath(), err: err}
	}
	opts, err := o.options()
	if err != nil {
		return &usageError{command: cmd.CommandPath(), err: err}
	}
	b, err := bundle.Generate(driver, opts)
	if err != nil {
		return err
	}
	dir := o.output
	if dir == "" {
		dir = filepath.Join("bundle", b.Package, opts.Version.String())
	}
	if err := b.Write(dir); err != nil {
		return err
	}
	cmd.PrintErrf("wrote %s: bundle %s\n", dir, b.Name)
	return nil
}

// options converts the flags to the options of package bundle.
func (o *bundleGenerate) options() (bundle.Options, error) {
	opts, err := o.content.options()
	if err != nil {
		return opts, err
	}
	opts.Replaces, opts.SkipRange = o.replaces, o.skipRange
	if opts.Version, err = semver.Parse(o.version); err != nil {
		return opts, fmt.Errorf("--version is %q, want a semantic version such as 1.0.0: %w%s", o.version, err, nearest.Version(o.version))
	}
	return opts, nil
}
