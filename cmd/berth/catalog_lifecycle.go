package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/support"
)

// newCatalogLifecycleCommand returns the command catalog lifecycle, which prints the results of package
// catalog/support.
func newCatalogLifecycleCommand() *cobra.Command {
	var output, day string
	cmd := &cobra.Command{
		Use:   "lifecycle CATALOG [PACKAGE...]",
		Short: "Show which versions are supported when",
		Long: `Show until when the versions of packages are supported, and which versions of OpenShift they run on, by the
lifecycles in the catalog: documents of schema ` + lifecycle.Schema + `, which Red Hat's
catalogs have. OLM ignores them. OpenShift's console shows them for what is installed.

svg and html draw it, with a line on the day. html is one page that loads nothing else.

` + aboutSources,
		Example: `  berth catalog lifecycle registry.redhat.io/redhat/redhat-operator-index:v4.20 \
    aws-efs-csi-driver-operator

  # What is still supported when the cluster is updated
  berth catalog lifecycle catalog --day 2027-01-31

  # To look at in a browser
  berth catalog lifecycle catalog -o html > lifecycle.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if _, err := lifecycle.Date(day).Time(); day != "" && err != nil {
				return fmt.Errorf("--day is %q, want a date such as 2027-01-31", day)
			}
			return takes("CATALOG", "[PACKAGE...]")(cmd, args)
		},
		ValidArgsFunction: completing(folders, packagesOf(0)),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[0])
			defer stop()
			on := lifecycle.Date(day)
			if on == "" {
				on = lifecycle.DateOf(time.Now())
			}
			return withCatalog(cmd, args[0], args[1:], func(c *rules.Part) error {
				stop()
				of, err := chosenPackages(c.Catalog, args[1:])
				if err != nil {
					return err
				}
				d, err := support.Of(of, on)
				if err != nil {
					return err
				}
				if len(d.Packages) == 0 {
					return fmt.Errorf("%s has no lifecycle of %s: no document of schema %s", args[0], namesOf(d.Without), lifecycle.Schema)
				}
				if err := d.Write(cmd.OutOrStdout(), output); err != nil {
					return err
				}
				if len(args) > 1 && len(d.Without) > 0 {
					cmd.PrintErrf("%s: without a lifecycle: %s\n", args[0], strings.Join(d.Without, ", "))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&day, "day", "", "`date` to show support for, as YYYY-MM-DD (default today)")
	completeFlag(cmd, "day", nothing)
	addOutputFlag(cmd, &output, "text", support.Formats)
	return cmd
}

// chosenPackages returns the named packages of a catalog, or all.
func chosenPackages(c *fbc.Catalog, names []string) (of []*fbc.Package, err error) {
	if len(names) == 0 {
		return c.Packages, nil
	}
	for _, name := range names {
		p, err := c.Named(name)
		if err != nil {
			return nil, err
		}
		of = append(of, p)
	}
	return of, nil
}

// namesOf names packages, or says that there are several.
func namesOf(packages []string) string {
	if len(packages) == 1 {
		return "package " + packages[0]
	}
	return "its packages"
}
