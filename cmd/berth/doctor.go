package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/doctor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/migrate"
)

func newDoctorCommand() *cobra.Command {
	f, watch := &clusterFlags{}, &watchFlag{}
	var output string
	cmd := &cobra.Command{
		Use:   "doctor [DRIVER...]",
		Short: "Find problems with the drivers of a cluster, and say how to solve them",
		Long: `Look at all that drivers need on a cluster, and say what is wrong and what to do: the Operator Lifecycle Manager,
Subscriptions and catalogs, operators, ClusterCSIDrivers, namespaces and monitoring, credentials, pods, and
SharedVolumes. Without DRIVER, it looks at the drivers that are installed. DRIVER is the short name of a driver or that of
its CSIDriver, as in the examples.

With -n NAMESPACE, a team looks at what it has itself: SharedVolumes, claims, and the pods that use them, with their events.

It changes nothing and reads no Secret. Run it as a cluster administrator: what you may not read is reported as
not examined.`,
		Example: `  berth doctor
  berth doctor efs
  berth doctor efs.csi.aws.com -o json
  berth doctor -n shop

  # Until it works
  berth doctor efs --watch`,
		Annotations: found("something does not work"),
		Args: func(_ *cobra.Command, args []string) error {
			if f.namespace != "" && len(args) > 0 {
				return fmt.Errorf("unexpected argument %q: --namespace cannot be combined with DRIVER", args[0])
			}
			_, err := driversNamed(args)
			return err
		},
		ValidArgsFunction: oneOf(registry.Names()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := driversNamed(args)
			if err != nil {
				return err
			}
			return watch.run(cmd, func(w io.Writer) (awaited bool, err error) {
				report, err := f.examine(cmd, named)
				if err != nil {
					return false, err
				}
				if err := writeReport(w, output, report, palette(cmd.OutOrStdout())); err != nil {
					return false, err
				}
				switch {
				case report.Faults():
					return true, &exitError{code: exitFound}
				case !report.Healthy:
					return true, errors.New("not everything could be examined: see above")
				}
				return false, nil
			})
		},
	}
	f.addConnection(cmd)
	f.addNamespace(cmd, "`namespace` of a team, to look at alone")
	watch.add(cmd, "everything works")
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	return cmd
}

// driversNamed returns the drivers that are named on the command line.
func driversNamed(args []string) ([]drivers.Driver, error) {
	var named []drivers.Driver
	for _, name := range args {
		d, err := registry.Get(name)
		twice := slices.ContainsFunc(named, func(before drivers.Driver) bool { return before.Name == d.Name })
		if err != nil || twice {
			return nil, fmt.Errorf("driver is %q, want some of %s, each once%s", name, strings.Join(registry.Names(), ", "), nearest.Hint(name, registry.Names()))
		}
		named = append(named, d)
	}
	return named, nil
}

// examine examines the cluster that the flags select.
func (f *clusterFlags) examine(cmd *cobra.Command, named []drivers.Driver) (*doctor.Report, error) {
	defer startProgress(cmd.ErrOrStderr(), "reading the cluster")()
	config, err := f.limited()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := doctor.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	cluster := doctor.Cluster{Config: config, Client: c}
	if f.namespace != "" {
		return doctor.ExamineNamespace(cmd.Context(), cluster, f.namespace)
	}
	return doctor.Examine(cmd.Context(), cluster, registry.All(), named)
}

// writeReport writes a report.
func writeReport(w io.Writer, output string, report *doctor.Report, colours findings.Palette) error {
	if output == "json" {
		return escape.JSON(w, report)
	}
	_, err := fmt.Fprint(w, report.Text(colours))
	return err
}
