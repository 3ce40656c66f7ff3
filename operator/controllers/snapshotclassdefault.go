package controllers

import (
	"context"
	"fmt"
	"strconv"

	"github.com/openshift/library-go/pkg/controller/factory"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/operator/objects"
)

// isDefaultSnapshotClassAnnotation on a VolumeSnapshotClass says that it is the default of its driver.
const isDefaultSnapshotClassAnnotation = "snapshot.storage.kubernetes.io/is-default-class"

// DefaultSnapshotClassAnnotation on a ClusterCSIDriver records whether the class was the default when the operator last
// saw it, so that a deleted class comes back as the administrator had it.
const DefaultSnapshotClassAnnotation = "berth.dev/default-snapshot-class"

func isDefaultSnapshotClass(annotations map[string]string) bool {
	return annotations[isDefaultSnapshotClassAnnotation] == "true"
}

// applyDefault applies the class that may be the default. It makes the class the default only when it creates it.
func (c *snapshotClass) applyDefault(ctx context.Context, cluster drivers.Cluster, class *objects.WatchedObject, desired *unstructured.Unstructured) error {
	current, err := c.Applier.Get(ctx, class)
	if err != nil && !meta.IsNoMatchError(err) { // Apply leaves the class out if the cluster does not serve its kind
		return err
	}
	switch {
	case current != nil && c.Applier.Applied(current, "metadata", "annotations", isDefaultSnapshotClassAnnotation):
		desired = asDefault(desired, isDefaultSnapshotClassAnnotation) // without the annotation, server-side apply would remove it
	case current == nil && err == nil:
		record, gone := c.sighting.Last(cluster.ClusterCSIDriver.Annotations[DefaultSnapshotClassAnnotation])
		if !gone {
			klog.V(4).InfoS("Waiting for the watch to show that the VolumeSnapshotClass is gone", "volumeSnapshotClass", desired.GetName())
			return factory.SyntheticRequeueError
		}
		why, err := c.notDefault(ctx, record, desired)
		if err != nil {
			return err
		}
		klog.InfoS("Creating the VolumeSnapshotClass", "volumeSnapshotClass", desired.GetName(), "default", why == "", "reason", why)
		if why == "" {
			desired = asDefault(desired, isDefaultSnapshotClassAnnotation)
		}
	}
	live, err := c.Applier.ApplyTo(ctx, class, desired, current)
	if err != nil || live == nil {
		return err
	}
	return recordDefault(ctx, c.CustomResource, cluster.ClusterCSIDriver, DefaultSnapshotClassAnnotation, live, isDefaultSnapshotClass)
}

// notDefault returns why the missing class is not created as the default; "" if it is. record says whether it was the
// default when it was last seen; "" if it was never seen. If a driver has two default classes, snapshots without a
// class fail.
func (c *snapshotClass) notDefault(ctx context.Context, record string, desired *unstructured.Unstructured) (why string, err error) {
	if record == strconv.FormatBool(false) {
		return "the class was not the default before it was deleted", nil
	}
	if err := listing.Each(ctx, c.Lists, listing.List{Resource: "volumesnapshotclasses"}, func(class struct {
		Metadata metav1.ObjectMeta
		Driver   string
	}) error {
		if class.Metadata.Name != desired.GetName() && isDefaultSnapshotClass(class.Metadata.Annotations) && class.Driver == desired.Object["driver"] {
			why = fmt.Sprintf("VolumeSnapshotClass %s is the default", class.Metadata.Name)
		}
		return nil
	}); err != nil {
		return "", fmt.Errorf("listing VolumeSnapshotClasses, to see whether the driver has a default one: %w", err)
	}
	return why, nil
}
