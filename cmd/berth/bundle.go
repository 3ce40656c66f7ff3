package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/drivers/registry"
)

func newBundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Generate and validate bundles",
		Long: `A bundle is a folder from which the Operator Lifecycle Manager installs one version of a
driver's operator: manifests/ with a ClusterServiceVersion and the CustomResourceDefinitions
it owns, metadata/ for catalogs, and bundle.Dockerfile to make an image of it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBundleGenerateCommand(), newBundleValidateCommand())
	return cmd
}

// bundleGenerate is the command line of "berth bundle generate".
type bundleGenerate struct {
	version  string
	output   string
	images   []string
	replaces string
	released string
}

func newBundleGenerateCommand() *cobra.Command {
	o := &bundleGenerate{}
	cmd := &cobra.Command{
		Use:   "generate DRIVER --version VERSION",
		Short: "Write the bundle of one version of a driver's operator",
		Long: `Write the bundle of one version of a driver's operator, from the driver's definition. The
same definition and flags give the same bytes, on every run.

The drivers are: ` + strings.Join(registry.Names(), ", ") + `.

A bundle that is in the output folder is replaced as a whole. A folder that holds anything
but a bundle of the same package is refused and left as it is.`,
		Example: `  # Write bundle/aws-efs-operator/1.0.0
  berth bundle generate efs --version 1.0.0

  # The next version, with another image of the driver, in a folder of choice
  berth bundle generate efs --version 1.0.1 --replaces aws-efs-operator.v1.0.0 \
    --image DRIVER_IMAGE=quay.io/example/aws-efs-csi-driver@sha256:… --output bundles/1.0.1

  # Then look it over
  berth bundle validate bundles/1.0.1`,
		Args: cobra.MatchAll(cobra.ExactArgs(1), requiredFlags),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.version, "version", "", "`VERSION` of the package, such as 1.0.0 (required)")
	flags.StringVar(&o.output, "output", "", "`DIR` to write (default bundle/PACKAGE/VERSION)")
	flags.StringArrayVar(&o.images, "image", nil, "image to use instead of the definition's, as `NAME=PULLSPEC`; NAME is the image's\n"+
		"environment variable, or "+bundle.OperatorImage+" for the operator's own (repeatable)")
	flags.StringVar(&o.replaces, "replaces", "", "`NAME` of the ClusterServiceVersion that this one updates (default the package's own choice)")
	flags.StringVar(&o.released, "released", "", "`DATE` of the release to show in a console, as YYYY-MM-DD (default none)")
	if err := cmd.MarkFlagRequired("version"); err != nil {
		panic(err) // no such flag
	}
	return cmd
}

func (o *bundleGenerate) run(cmd *cobra.Command, name string) error {
	driver, err := registry.Get(name)
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

// options are the flags that say what the bundle holds.
func (o *bundleGenerate) options() (bundle.Options, error) {
	opts := bundle.Options{Replaces: o.replaces, Images: map[string]string{}}
	for _, image := range o.images {
		name, pullSpec, ok := strings.Cut(image, "=")
		if !ok {
			return opts, fmt.Errorf("--image is %q, want NAME=PULLSPEC", image)
		}
		opts.Images[name] = pullSpec
	}
	var err error
	if opts.Version, err = semver.Parse(o.version); err != nil {
		return opts, fmt.Errorf("--version is %q, want a semantic version such as 1.0.0: %w", o.version, err)
	}
	if o.released != "" {
		if opts.Released, err = time.Parse(time.DateOnly, o.released); err != nil {
			return opts, fmt.Errorf("--released is %q, want a date such as 2026-01-31: %w", o.released, err)
		}
	}
	return opts, nil
}

func newBundleValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate DIR...",
		Short: "Check bundle folders by the rules of OLM and OperatorHub",
		Long: `Run the validators of the Operator Framework on bundle folders, whoever made them.

Findings are printed to standard output, one a line, as
  FILE: SEVERITY: MESSAGE (RULE)
and a summary for each folder to standard error. Exit codes: 0 if there is no error, though
there may be warnings; 1 if there is one, or a folder is no bundle; 2 for a wrong command line.`,
		Example: `  # One bundle
  berth bundle validate bundle/aws-efs-operator/1.0.0

  # All versions of a package
  berth bundle validate bundle/aws-efs-operator/*`,
		Args: cobra.MinimumNArgs(1),
		RunE: validateBundles,
	}
}

func validateBundles(cmd *cobra.Command, dirs []string) error {
	var failures []error
	for _, dir := range dirs {
		findings, err := bundle.Validate(dir)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		severities := map[bundle.Severity]int{}
		for _, f := range findings {
			severities[f.Severity]++
			f.File = filepath.Join(dir, filepath.FromSlash(f.File))
			fmt.Fprintln(cmd.OutOrStdout(), f)
		}
		cmd.PrintErrf("%s: %s, %s\n", dir, count(severities[bundle.SeverityError], "error"), count(severities[bundle.SeverityWarning], "warning"))
		if severities[bundle.SeverityError] > 0 {
			failures = append(failures, fmt.Errorf("bundle %s is not valid", dir))
		}
	}
	return errors.Join(failures...)
}
