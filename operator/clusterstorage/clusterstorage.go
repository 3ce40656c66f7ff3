// Package clusterstorage is the cluster storage operator: it runs the operators of the CSI drivers that the cluster's
// platform needs, and reports about all of them in Storage/cluster and in ClusterOperator/storage.
//
// The drivers' definitions say which drivers these are (drivers.ClusterStorage). Each sync observes the cluster,
// chooses the drivers (choose.go), applies the objects of their operators (manifests.go, apply.go) and their
// ClusterCSIDrivers, and writes the conditions (conditions.go) and their summary (summary.go). It writes nothing while
// nothing has changed.
//
// A driver of the platform cannot be removed. If its ClusterCSIDriver is deleted, the operator creates the object again, and nothing
// happens to the driver. The operator writes no field of an existing ClusterCSIDriver.
//
// While the Operator Lifecycle Manager (OLM) runs an operator of a driver, the cluster storage operator does not start another one
// (predecessor.go). A migration removes OLM's operator, and the cluster storage operator then starts its own. The program provides the
// migration (Process.HandOver), the same as for "berth adopt". This package knows only the stage of the migration.
//
// Log messages have the verbosity of package operator. spec.operatorLogLevel of Storage/cluster sets it for this operator
// alone: each ClusterCSIDriver has a level of its own.
//
// # How a platform gets its drivers
//
// operator/clusterstorage is the cluster storage operator. A definition says with ClusterStorage which platform needs
// the driver. Each sync (controller.go) observes the cluster from caches, chooses the drivers (choose.go, a pure
// function), applies the objects of their operators (manifests.go, apply.go), and creates missing ClusterCSIDrivers.
// Then it computes the conditions of Storage cluster (conditions.go) and their summary in the ClusterOperator
// (summary.go), both pure functions, and writes them if they have changed. Only the process that holds the Lease does
// this (lease.go). Its permissions (rules.go) and deploy/manifests/ (package release) come from the definitions, too.
// The manifests include the dashboard of OpenShift's console (operator/dashboard).
//
// The operator of such a driver runs with --removable=false: it adds no finalizer, so that its ClusterCSIDriver can be
// deleted and recreated, and it refuses Removed.
package clusterstorage

import (
	"context"

	"github.com/openshift/library-go/pkg/operator/events"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/operator/objects"
	"github.com/berth-csi/berth/operator/transport"
)

// Name is the name of the operator's Deployment and of its field manager.
const Name = "cluster-storage-operator"

// Namespace is where the operator runs. The operators of the drivers run in drivers.ClusterStorageNamespace.
const Namespace = "openshift-cluster-storage-operator"

// ClusterOperatorName is the name of the ClusterOperator.
const ClusterOperatorName = "storage"

// MetricsHost returns the host name of the operator's metrics endpoint if the operator runs in namespace.
func MetricsHost(namespace string) string { return Name + "-metrics." + namespace + ".svc" }

// Process holds what the operator needs from its program.
type Process struct {
	KubeConfig    *rest.Config
	EventRecorder events.Recorder
	// Version is the version of the release. The operator reports it once everything runs at this version. The drivers' operators report
	// it as their own version.
	Version string
	Clock   clock.Clock
	// Getenv returns the environment variables with the images, see ImageVariable.
	Getenv func(string) string
	// HandOver returns the function that hands drivers over from the Operator Lifecycle Manager (OLM), given a
	// connection to the cluster. If it is nil, the operator waits until somebody else has done that.
	HandOver func(*rest.Config) (HandOver, error)
}

// HandOver takes the next step of a driver's hand-over, and returns its stage. It waits for nothing. With begin, it
// starts a hand-over if none is in progress.
type HandOver = func(ctx context.Context, d drivers.Driver, begin bool) (predecessor.Handover, error)

// Run runs the cluster storage operator until ctx ends. It runs the operators of the drivers that the cluster's platform needs. Only one
// process of a cluster may call Run at a time.
func Run(ctx context.Context, all []drivers.Driver, process Process) error {
	process.KubeConfig = transport.WithDeadline(process.KubeConfig)
	cluster, err := newCluster(process)
	if err != nil {
		return err
	}
	c := &controller{
		drivers: OfPlatforms(all),
		process: process, cluster: cluster, operators: map[string]*driverOperator{},
		handOvers: map[string]*handOverState{},
		writer:    objects.NewWriter(Name, cluster.objects, process.EventRecorder, process.Clock),
	}
	if process.HandOver != nil {
		if c.handOver, err = process.HandOver(cluster.byName); err != nil {
			return err
		}
	}
	if err := cluster.start(ctx); err != nil {
		return err
	}
	klog.InfoS("Starting the cluster storage operator", "version", process.Version)
	return c.run(ctx)
}
