package operator

import (
	"context"
	"slices"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/backend"
	"github.com/berth-csi/berth/operator/uninstall"
)

// uninstall removes the driver and, if its ClusterCSIDriver is being deleted, the finalizer. It runs until ctx ends.
func (c *cycle) uninstall(ctx context.Context) error {
	manifests, lostNamespace := c.operand.manifests, ""
	if manifests == nil {
		return c.operand.err
	}
	if c.namespace.Lost {
		lostNamespace = c.namespace.Name
		manifests = slices.DeleteFunc(slices.Clone(manifests), func(m drivers.Manifest) bool {
			return m.Object.GetNamespace() == lostNamespace || m.Kept()
		})
	}
	// While volumes are in use, deleting the API of an earlier operator must not delete its driver.
	unadopted, err := c.applier.Unadopted(ctx, manifests)
	if err != nil {
		return err
	}
	if err := c.applier.Adopt(ctx, unadopted); err != nil {
		return err
	}
	classes, err := backend.ExistingClasses(ctx, c.driver, c.clients.objects)
	if err != nil {
		return err
	}
	defer c.metrics.BlockingPods.WithLabelValues(c.driver.CSIName).Set(0)
	return c.runControllers(ctx,
		c.newLogLevelController(),
		c.newNamespaceController(),
		uninstall.NewController(uninstall.Options{
			Driver: c.driver, Objects: c.watch(slices.Concat(manifests, classes)), LostNamespace: lostNamespace,
			Kube: c.clients.kube, Snapshots: c.clients.snapshots, Reader: c.clients.objects, Applier: c.applier, Finalizer: c.finalizer,
			Reporter: c.reporter, Upgradeable: c.upgradeable, Recorder: c.recorder, Metrics: c.metrics, Clock: c.clock,
		}),
	)
}
