package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate/csimigration"
	"github.com/berth-csi/berth/test/restarts"
)

// runCSIMigration shows how CSI migration is switched on and off. The API server is real; the operators that restart the
// control plane and the nodes are played, as the feature sets of the proposal were never released.
func runCSIMigration(ctx context.Context, d *demo) error {
	// The operators are played by this process, so each run starts from the beginning.
	if err := cluster.Stop(ctx, clusterFolder(d.folder)); err != nil && !errors.Is(err, cluster.ErrNotRunning) {
		return err
	}
	stop := func() error { return nil }
	defer func() { stop() }()
	err := d.run(ctx,
		stage{"local cluster", func(ctx context.Context) (result string, err error) {
			d.cluster, err = cluster.Up(ctx, clusterFolder(d.folder), cluster.Options{}, d.printer.Progress)
			return "is up", err
		}},
		stage{"OpenShift 4.7, as proposed", func(ctx context.Context) (string, error) {
			err := restarts.Install(ctx, d.cluster)
			if err == nil {
				err = restarts.Propose(ctx, d.cluster)
			}
			if err == nil {
				err = restarts.SetVersion(ctx, d.cluster, "4.7.0")
			}
			_, stop = restarts.Play(d.cluster)
			return "its operators of static pods and of nodes are played", err
		}},
		stage{"driver and volume", d.leaveInTreeVolume},
		stage{"control plane and nodes", d.awaitRevisions},
	)
	if err != nil {
		return err
	}
	for _, command := range [][]string{{"status"}, {"plan", "enable"}, {"enable"}, {"status"}, {"disable"}, {"disable"}} {
		if err := d.show(ctx, append([]string{"berth", "csi-migration"}, command...)...); err != nil {
			return err
		}
	}
	// No farewell, as berth doctor would miss the driver's pods.
	fmt.Printf("\nThe operators are not played any more: nothing rolls changes out. %s\n\n  export KUBECONFIG=%s%s\n\n  kubectl berth csi-migration status\n",
		staysUp, quoted(d.cluster.Kubeconfig()), d.onPath(d.home))
	return nil
}

// leaveInTreeVolume leaves the driver's objects and a volume with an in-tree source.
func (d *demo) leaveInTreeVolume(ctx context.Context) (string, error) {
	name := ebs.Driver.CSIName
	if err := restarts.InstallDriver(ctx, d.cluster, name); err != nil {
		return "", err
	}
	nodes := &corev1.NodeList{}
	if err := d.cluster.Client().List(ctx, nodes); err != nil {
		return "", err
	}
	for _, n := range nodes.Items {
		if err := restarts.Register(ctx, d.cluster, name, n.Name); err != nil {
			return "", err
		}
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "in-tree"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-0123456789abcdef0"}},
	}}
	return "CSIDriver " + name + " is in every CSINode, without pods", d.cluster.Client().Create(ctx, volume)
}

// awaitRevisions waits until the operators have rolled out all revisions.
func (d *demo) awaitRevisions(ctx context.Context) (string, error) {
	to := d.connection()
	err := cluster.Until(ctx, "control plane and nodes", func(ctx context.Context) error {
		overview, err := csimigration.Observe(ctx, to)
		if err == nil && overview.Waits != "" {
			err = errors.New(overview.Waits)
		}
		return err
	})
	return "are up to date", err
}
