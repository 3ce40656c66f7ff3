// Command berth-operator is the part of Berth that runs inside a cluster.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-csi/berth/cmd/internal/logging"
	"github.com/berth-csi/berth/cmd/internal/version"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

func main() {
	logging.To(os.Stderr)
	if err := tuneMemory(); err != nil {
		fmt.Fprintf(os.Stderr, "berth-operator: %v\n", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctrllog.SetLogger(klog.Background())
	if err := newCommand(ctx).Execute(); err != nil {
		fmt.Fprintf(escape.Messages(os.Stderr), "berth-operator: %v\n", err)
		os.Exit(1)
	}
}

func newCommand(ctx context.Context) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth-operator",
		Short: "Operate CSI drivers on OpenShift and OKD",
		Long: `berth-operator runs inside a cluster. The Operator Lifecycle Manager starts it from
the Deployment of a driver's bundle, or the cluster version operator starts it as the
cluster storage operator; there is rarely a reason to start it by hand.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	driver := &cobra.Command{
		Use:   "driver NAME",
		Short: "Install and manage one CSI driver",
		Long: `Install, configure and report on one CSI driver, as the driver's ClusterCSIDriver
object asks. Without that object, the operator touches nothing of the driver.`,
		Example: `  # In a pod, with the bundle's environment and service account
  berth-operator driver efs --listen=$(POD_IP):8443

  # Out of a cluster, while developing
  berth-operator driver efs --kubeconfig ~/.kube/config --namespace openshift-operators`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("want the name of a driver: %s", strings.Join(registry.Names(), ", "))
			}
			_, err := registry.Get(args[0])
			return err
		},
		Args: cobra.ArbitraryArgs,
	}
	for _, d := range registry.All() {
		driver.AddCommand(newDriverCommand(ctx, d))
	}
	root.AddCommand(driver, newClusterStorageCommand(ctx))
	version.AddTo(root)
	return root
}

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
