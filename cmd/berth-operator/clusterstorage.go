package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/logs"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/cmd/internal/version"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

// newClusterStorageCommand returns the command that runs the cluster storage operator.
func newClusterStorageCommand(ctx context.Context) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster-storage",
		Short: "Run the operators of the CSI drivers that the cluster's platform needs",
		Long: `Run the operators of the CSI drivers that the cluster's platform needs, and report
about all of them in Storage cluster and in ClusterOperator storage.

The environment variables with the images, and ` + clusterstorage.VersionVariable + `, are those of the release's manifests.`,
		Example: `  # Out of a cluster, while developing
  berth-operator cluster-storage --kubeconfig ~/.kube/config --namespace ` + clusterstorage.Namespace,
		Args: cobra.NoArgs,
	}
	p := program{name: clusterstorage.Name, audience: clusterstorage.MetricsHost}
	p.addFlags(cmd.Flags(), "about storage")
	cmd.Flags().StringVar(&p.namespace, "namespace", "", "`NAMESPACE` of the operator and of its Lease (default: the pod's)")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := setFromVariables(cmd.Flags(), os.Getenv); err != nil {
			return err
		}
		logs.InitLogs()
		defer logs.FlushLogs()
		return p.run(ctx, func(ctx context.Context, own process) error {
			return clusterstorage.RunAsLeader(ctx, own.config, own.namespace, func(ctx context.Context) error {
				return clusterstorage.Run(ctx, registry.All(), clusterstorage.Process{
					KubeConfig:    own.config,
					EventRecorder: own.recorder,
					Version:       cmp.Or(os.Getenv(clusterstorage.VersionVariable), version.Get().Version),
					Clock:         clock.RealClock{},
					Getenv:        os.Getenv,
					HandOver:      func(config *rest.Config) (clusterstorage.HandOver, error) { return adoption.NewSuccessor(config) },
				})
			})
		})
	}
	return cmd
}
