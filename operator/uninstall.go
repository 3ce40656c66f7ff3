package operator

import (
	"context"
	"slices"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/objects"
	"github.com/berth-csi/berth/operator/uninstall"
)

// uninstall removes the driver and, if its ClusterCSIDriver is being deleted, the finalizer. It runs until ctx ends.
func (c *cycle) uninstall(ctx context.Context) error {
	if c.operand.manifests == nil {
		return c.operand.err
	}
	manifests, retired, lostNamespace := c.operand.manifests, c.operand.retired, ""
	if c.namespace.Lost {
		lostNamespace = c.namespace.Name
		isLost := func(m drivers.Manifest) bool { return m.Object.GetNamespace() == lostNamespace || m.Kept() }
		manifests, retired = slices.DeleteFunc(slices.Clone(manifests), isLost), slices.DeleteFunc(slices.Clone(retired), isLost)
	}
	// While volumes are in use, deleting the API of an earlier operator must not delete its driver.
	unadopted, err := c.applier.Unadopted(ctx, manifests)
	if err != nil {
		return err
	}
	refused, err := c.applier.Adopt(ctx, unadopted)
	if err != nil {
		return err
	}
	classes, err := controllers.ExistingClasses(ctx, c.driver, c.clients.objects)
	if err != nil {
		return err
	}
	custom, err := c.reporter.GetObjectMeta()
	if err != nil {
		return err
	}
	unknown := controllers.UnknownObjects(custom.Annotations[controllers.ObjectsRecordAnnotation], c.operand.manifests, c.operand.retired)
	watched := c.watch(slices.Concat(manifests, classes))
	for _, m := range retired { // the operator has no permission to watch them, and nobody creates them any more
		watched = append(watched, objects.NewWatchedObject(m.Object, nil))
	}
	defer c.metrics.BlockingPods.WithLabelValues(c.driver.CSIName).Set(0)
	return c.runControllers(ctx,
		c.newLogLevelController(),
		c.newNamespaceController(),
		c.newAdoptionController(manifests, refused != nil),
		c.newFinalizerController(),
		uninstall.NewController(uninstall.Options{
			Driver: c.driver, Objects: watched, LostNamespace: lostNamespace, Unknown: unknown,
			Kube: c.clients.kube, Snapshots: c.clients.snapshots, Reader: c.clients.objects, Applier: c.applier, Finalizer: c.finalizer,
			Reporter: c.reporter, Upgradeable: c.upgradeable, Recorder: c.recorder, Metrics: c.metrics, Clock: c.clock,
		}),
	)
}
