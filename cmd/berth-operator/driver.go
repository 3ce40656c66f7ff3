package main

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/cmd/internal/version"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry/controllers"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/operator/metrics"
)

// newDriverCommand returns the command that runs the operator of one driver.
func newDriverCommand(ctx context.Context, d drivers.Driver) *cobra.Command {
	cmd := &cobra.Command{Use: d.Name, Short: d.Package.Summary, Args: cobra.NoArgs}
	p := program{name: d.Operator.Name, audience: d.MetricsHost}
	p.addFlags(cmd.Flags(), "about the driver")
	cmd.Flags().StringVar(&p.namespace, "namespace", "",
		"`NAMESPACE` of the operator, and of the driver unless that is in another one already (default: the pod's)")
	removable := cmd.Flags().Bool("removable", true, "remove the driver when its ClusterCSIDriver is deleted; the cluster storage operator sets false")
	own := controllers.Of(d.Name)
	apis, err := apiControllersOf(d, own, cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := errors.Join(err, setFromVariables(cmd.Flags(), os.Getenv)); err != nil {
			return err
		}
		logs.InitLogs()
		defer logs.FlushLogs()
		return p.run(ctx, func(ctx context.Context, started process) error {
			if own.Register != nil {
				own.Register(legacyregistry.MustRegister)
			}
			return operator.Run(ctx, d, cmp.Or(os.Getenv(clusterstorage.VersionVariable), version.Get().Version), &operator.Process{
				KubeConfig:        started.config,
				OperatorNamespace: started.namespace,
				EventRecorder:     started.recorder,
				Clock:             clock.RealClock{},
				Permanent:         !*removable,
				Own:               own,
				Metrics:           metrics.New(legacyregistry.MustRegister),
				Getenv:            os.Getenv,
			}, apis...)
		})
	}
	return cmd
}
