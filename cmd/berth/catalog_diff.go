package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/diff"
	"github.com/berth-csi/berth/catalog/rules"
)

// failsOn has the values of --fail-on, each with a function that reports whether the command exits with 1 for a difference.
var failsOn = map[string]func(*diff.Diff) bool{
	"any":   func(d *diff.Diff) bool { return d.Summary.Added+d.Summary.Removed+d.Summary.Changed+len(d.OLMv1) > 0 },
	"lost":  func(d *diff.Diff) bool { return d.Summary.Lost+len(d.OLMv1) > 0 },
	"never": func(*diff.Diff) bool { return false },
}

// newCatalogDiffCommand returns the command catalog diff, which prints the results of package
// catalog/diff.
func newCatalogDiffCommand() *cobra.Command {
	var output, failOn string
	v1 := &v1Check{}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW [PACKAGE...]",
		Short: "Show what changes for clusters from one catalog to another",
		Long: `Show what changes for clusters when the catalog NEW replaces OLD: first the entries
from which updates no longer lead to the head of their channel. Then, package by package, or for the named
packages only: channels, channel heads, the default channel, deprecations, and how new heads differ from
old ones: images, permissions, versions of CustomResourceDefinitions, install modes.

Permissions are compared only if the catalogs carry them, in properties of type olm.bundle.object. Long
lists and digests are shortened, but not in JSON.

With --for olm-v1, the command also lists the installed versions for which OLM v1 does less than before, because it
refuses the update that it chooses, or finds none.

` + aboutSources,
		Example: `  berth catalog diff catalog/certified new/certified

  # From the catalog that a cluster has today
  berth catalog diff quay.io/operatorhubio/catalog:latest catalog aws-efs-operator

  # In a pull request: fail only if clusters would be stranded
  berth catalog diff main/catalog catalog -o markdown --fail-on lost`,
		Annotations: found("something changes, or with --fail-on=lost if updates are lost"),
		Args: func(cmd *cobra.Command, args []string) error {
			if failsOn[failOn] == nil {
				return fmt.Errorf("--fail-on is %q, want one of %s", failOn, strings.Join(failOnValues, ", "))
			}
			if err := v1.check(); err != nil {
				return err
			}
			return takes("OLD", "NEW", "[PACKAGE...]")(cmd, args)
		},
		ValidArgsFunction: completing(folders, folders, packagesOf(0, 1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			sayLinks(cmd, args[0], args[1])
			d, err := compareCatalogs(cmd, v1, args[0], args[1], args[2:])
			if err != nil {
				return err
			}
			if err := d.Write(cmd.OutOrStdout(), output); err != nil {
				return err
			}
			if failsOn[failOn](d) {
				return &exitError{code: exitFound}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&failOn, "fail-on", "any", "`changes` to exit with 1 for: "+strings.Join(failOnValues, ", "))
	completeFlag(cmd, "fail-on", oneOf(failOnValues...))
	v1.add(cmd)
	addOutputFlag(cmd, &output, "text", diff.Formats)
	return cmd
}

// failOnValues are the values of --fail-on.
var failOnValues = slices.Sorted(maps.Keys(failsOn))

func compareCatalogs(cmd *cobra.Command, v1 *v1Check, old, new string, only []string) (d *diff.Diff, err error) {
	defer startProgress(cmd.ErrOrStderr(), "comparing")()
	err = withCatalog(cmd, old, only, func(before *rules.Part) error {
		return withCatalog(cmd, new, only, func(after *rules.Part) (err error) {
			was, is := before.Without(after.LeftOut), after.Without(before.LeftOut)
			if d, err = diff.Compare(was, is, only...); err != nil {
				return err
			}
			checker, done, err := v1.checker(cmd)
			if err != nil || checker == nil {
				return err
			}
			defer done()
			d.OLMv1, err = checker.LostAgainst(cmd.Context(), is, was, only...)
			return err
		})
	})
	return d, err
}
