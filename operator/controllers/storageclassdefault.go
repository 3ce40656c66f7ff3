package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/operator/objects"
)

// The annotations that make a class the default. Kubernetes still honors the older one.
const (
	isDefaultStorageClassAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaIsDefaultStorageClassAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// DefaultStorageClassAnnotation on a ClusterCSIDriver records whether the class was the default when the operator last
// saw it, so that a deleted class comes back as the administrator had it.
const DefaultStorageClassAnnotation = "berth.dev/default-storage-class"

// create creates the class that may be the default.
func (c *storageClass) create(ctx context.Context, cluster drivers.Cluster, class *objects.WatchedObject, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	record, gone := c.sighting.Last(cluster.ClusterCSIDriver.Annotations[DefaultStorageClassAnnotation])
	if !gone {
		klog.V(4).InfoS("Waiting for the watch to show that the StorageClass is gone", "storageClass", desired.GetName())
		return nil, factory.SyntheticRequeueError
	}
	why, err := c.notDefault(ctx, record, desired.GetName())
	if err != nil {
		return nil, err
	}
	if why != "" {
		klog.InfoS("Creating the StorageClass, not as the default", "storageClass", desired.GetName(), "reason", why)
		return c.Applier.ApplyTo(ctx, class, desired, nil)
	}
	klog.InfoS("Creating the StorageClass as the default", "storageClass", desired.GetName())
	live, err := c.Applier.ApplyTo(ctx, class, asDefault(desired, isDefaultStorageClassAnnotation), nil)
	if err != nil {
		return nil, err
	}
	// Somebody may have made another class the default since the classes were read.
	if why, err = c.notDefault(ctx, record, desired.GetName()); err != nil || why == "" {
		return live, err
	}
	klog.InfoS("The StorageClass is not to be the default", "storageClass", desired.GetName(), "reason", why)
	return c.Applier.ApplyTo(ctx, class, desired, live)
}

// notDefault returns why the named class does not become the default; "" if it does. Who administers storage may write classes of 1.5 MiB, so
// one at a time is in memory.
func (c *storageClass) notDefault(ctx context.Context, record, name string) (why string, err error) {
	var found []storagev1.StorageClass
	err = listing.Each(ctx, c.Lists, listing.List{Resource: "storageclasses"}, func(class storagev1.StorageClass) error {
		if isDefault := IsDefaultStorageClass(class.Annotations); isDefault || c.Driver.InTree.Plugin != "" && class.Provisioner == c.Driver.InTree.Plugin {
			kept := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class.Name}, Provisioner: class.Provisioner}
			kept.Annotations = map[string]string{isDefaultStorageClassAnnotation: strconv.FormatBool(isDefault)}
			found = append(found, kept)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("listing StorageClasses, to see whether there is a default one: %w", err)
	}
	return whyNotDefault(c.Driver, record, name, found), nil
}

// whyNotDefault returns why the driver's missing class with this name is not created as the default; "" if it is.
// record says whether it was the default when it was last seen; "" if it was never seen.
//
// A cluster without a record is fresh, unless it has classes of the in-tree volume plugin that the driver replaces. In that case, one of
// those classes was the default until somebody decided otherwise.
func whyNotDefault(driver drivers.Driver, record, name string, classes []storagev1.StorageClass) (why string) {
	for _, class := range classes {
		if class.Name != name && IsDefaultStorageClass(class.Annotations) {
			return fmt.Sprintf("StorageClass %s is the default", class.Name)
		}
	}
	switch record {
	case strconv.FormatBool(true):
		return ""
	case strconv.FormatBool(false):
		return "the class was not the default before it was deleted"
	}
	for _, class := range classes {
		if plugin := driver.InTree.Plugin; plugin != "" && class.Provisioner == plugin {
			return fmt.Sprintf("the cluster is not a fresh one: it has StorageClass %s, of %s", class.Name, plugin)
		}
	}
	return ""
}

// IsDefaultStorageClass reports whether a class with these annotations is the default.
func IsDefaultStorageClass(annotations map[string]string) bool {
	return annotations[isDefaultStorageClassAnnotation] == "true" || annotations[betaIsDefaultStorageClassAnnotation] == "true"
}

// classInformers returns the informers of the classes, and makes the sighting watch the class that may be the default.
func classInformers(classes []*objects.WatchedObject, name string, sighting *objects.Sighting) (informers []factory.Informer) {
	for _, class := range classes {
		informers = append(informers, class.Informers()...)
		if class.Desired.GetName() != name {
			continue
		}
		for _, informer := range class.Informers() {
			if _, err := informer.AddEventHandler(sighting.Handler()); err != nil {
				klog.ErrorS(err, "Failed to watch the class that may be the default", "kind", class.Desired.GetKind(), "name", name)
			}
		}
	}
	return informers
}

// asDefault returns the class with the annotation that makes it the default.
func asDefault(class *unstructured.Unstructured, annotation string) *unstructured.Unstructured {
	class = class.DeepCopy()
	class.SetAnnotations(labels.Merge(class.GetAnnotations(), labels.Set{annotation: "true"}))
	return class
}

// recordDefault writes to an annotation of the ClusterCSIDriver whether the class is the default.
func recordDefault(ctx context.Context, customResource dynamic.ResourceInterface, owner *operatorv1.ClusterCSIDriver, annotation string, class *unstructured.Unstructured,
	isDefault func(annotations map[string]string) bool,
) error {
	record := strconv.FormatBool(isDefault(class.GetAnnotations()))
	if owner.Annotations[annotation] == record {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": owner.UID, "annotations": map[string]string{annotation: record}}})
	if err != nil {
		return err
	}
	if _, err := customResource.Patch(ctx, owner.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("recording in ClusterCSIDriver %s whether %s %s is the default: %w", owner.Name, class.GetKind(), class.GetName(), err)
	}
	klog.V(2).InfoS("Recorded whether the class is the default", "kind", class.GetKind(), "name", class.GetName(), "default", record)
	return nil
}
