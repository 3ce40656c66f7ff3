package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/migrate/subscription"
)

func newSwitchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Switch an operator to another catalog, such as from the community's to the certified one",
		Long: `Switch an operator that the Operator Lifecycle Manager (OLM) runs to another catalog. Its Subscription
is changed to that catalog, and OLM updates the operator from there. Volumes and the driver that serves
them are not affected.

"plan" predicts what will happen and changes nothing. "apply" carries out the plan, and resumes it after an
interruption. "status" shows how far it is. "rollback" undoes it, as long as OLM has not started to install.`,
		Example: `  berth switch plan aws-efs-operator --to certified-operators
  berth switch apply aws-efs-operator --to certified-operators --create-driver`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSwitchPlanCommand(), newSwitchApplyCommand(), newSwitchStatusCommand(), newSwitchRollbackCommand())
	return cmd
}

// existing returns a request for a package's switch that was started earlier.
func (f *journalFlags) existing(pkg string) subscription.Request {
	return subscription.Request{Package: pkg, Namespace: f.namespace}
}

// switchFlags hold the flags that describe a switch, which need not have been started.
type switchFlags struct {
	journalFlags
	request subscription.Request
	to      string
}

func (f *switchFlags) add(cmd *cobra.Command) {
	f.journalFlags.add(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "`[NAMESPACE/]NAME` CatalogSource to switch to (default namespace: the present CatalogSource's)")
	cmd.Flags().StringVar(&f.request.Channel, "channel", "", "`channel` to subscribe to (default the present one, or else the package's default channel)")
	cmd.Flags().StringVar(&f.request.NewPackage, "new-package", "", "`name` of the package in the other catalog, if it differs")
	cmd.Flags().BoolVar(&f.request.CreateDriver, "create-driver", false, "create the driver's ClusterCSIDriver once the operator runs, so that it adopts the driver")
}

// complete adds the package, the namespace and the CatalogSource to the request.
func (f *switchFlags) complete(pkg string) {
	f.request.Package, f.request.Namespace = pkg, f.namespace
	f.request.SourceNamespace, f.request.Source = "", f.to
	if namespace, name, both := strings.Cut(f.to, "/"); both {
		f.request.SourceNamespace, f.request.Source = namespace, name
	}
}

// checkArgs fails unless the command line names a package, and the catalog to switch it to.
func (f *switchFlags) checkArgs(_ *cobra.Command, args []string) error {
	if f.to == "" && len(args) > 0 {
		return errors.New("--to is missing: want the name of the CatalogSource to switch to")
	}
	if err := takes("PACKAGE")(nil, args); err != nil {
		return fmt.Errorf("%w, as the Subscription has it in spec.name", err)
	}
	return nil
}
