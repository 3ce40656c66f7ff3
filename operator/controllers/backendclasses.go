package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/operator/objects"
)

// Offers holds the StorageClasses of all offers that the backend has made to this process. Offers to earlier processes
// have StorageClasses in the cluster.
type Offers struct{ classes []drivers.Manifest }

// Classes returns the StorageClasses.
func (o *Offers) Classes() []drivers.Manifest { return o.classes }

func (o *Offers) add(classes []drivers.Manifest) { o.classes = MergeClasses(classes, o.classes) }

// maxClass is more than the bytes of a StorageClass that was created for a backend's offer.
const maxClass = 16 << 10

// ExistingClasses returns the StorageClasses that were created for the backend's offers so far, at most drivers.MaxClasses: the oldest ones,
// because whoever may write StorageClasses can give any number of new ones the same label. A driver without a backend has none.
func ExistingClasses(ctx context.Context, driver drivers.Driver, storage rest.Interface) ([]drivers.Manifest, error) {
	if driver.Backend == nil {
		return nil, nil
	}
	var found []storagev1.StorageClass
	labelled := listing.List{Resource: "storageclasses", Labels: objects.ManagedByLabel + "=" + driver.Operator.Name}
	if err := listing.Each(ctx, storage, labelled, func(class storagev1.StorageClass) error {
		class.ManagedFields, class.Annotations = nil, nil
		content, err := class.Marshal()
		if err != nil || class.Provisioner != driver.CSIName || len(content) > maxClass || drivers.CheckRendered(content) != nil { // nobody could apply it
			return err
		}
		at, _ := slices.BinarySearchFunc(found, class, func(a, b storagev1.StorageClass) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
		found = slices.Insert(found, at, class)
		found = found[:min(len(found), drivers.MaxClasses)]
		return nil
	}); err != nil {
		return nil, fmt.Errorf("listing the driver's StorageClasses: %w", err)
	}
	return classManifests(driver, found)
}

// Installed reports whether this operator or an earlier one has installed the driver. The DaemonSet shows that, because every version of
// the driver has it and volumes depend on it. The DaemonSet counts even without an operator's mark, because some earlier operators set
// none: only administrators write to the driver's namespace, and the operator takes over a DaemonSet of this name in place.
func Installed(ctx context.Context, reader client.Reader, manifests []drivers.Manifest) (bool, error) {
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(m.Object.GroupVersionKind())
		err := reader.Get(ctx, client.ObjectKeyFromObject(m.Object), live)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading DaemonSet %s: %w", m.Object.GetName(), err)
		}
		if err == nil {
			return true, nil
		}
	}
	return false, nil
}

// classManifests returns manifests for StorageClasses that are not among the driver's assets.
func classManifests(driver drivers.Driver, classes []storagev1.StorageClass) ([]drivers.Manifest, error) {
	var manifests []drivers.Manifest
	for _, class := range classes {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&class)
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{Object: map[string]any{}}
		for _, field := range []string{"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion"} {
			if value, ok := content[field]; ok {
				object.Object[field] = value
			}
		}
		object.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("StorageClass"))
		object.SetName(class.Name)
		object.SetLabels(labels.Merge(class.Labels, labels.Set{objects.ManagedByLabel: driver.Operator.Name}))
		document, err := boundedyaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, drivers.Manifest{File: "backend/" + class.Name, YAML: document, Object: object})
	}
	return manifests, nil
}

// MergeClasses returns the manifests of both lists, sorted by name. If a name is in both lists, it returns the manifest
// of the first list.
func MergeClasses(first, second []drivers.Manifest) []drivers.Manifest {
	all := slices.Concat(first, second)
	slices.SortStableFunc(all, byName)
	return slices.CompactFunc(all, func(a, b drivers.Manifest) bool { return byName(a, b) == 0 })
}

func byName(a, b drivers.Manifest) int {
	return strings.Compare(a.Object.GetName(), b.Object.GetName())
}

func classNames(manifests []drivers.Manifest) []string {
	var names []string
	for _, m := range manifests {
		names = append(names, m.Object.GetName())
	}
	return names
}

// limitClasses returns the offered classes that are known, and as many others as there is room for, because a backend may make different
// offers each time it is asked. leftOut says what is left out; it is "" if nothing is.
func limitClasses(backend *drivers.Backend, offered, known []drivers.Manifest) (kept []drivers.Manifest, leftOut string) {
	names, room := classNames(known), max(drivers.MaxClasses-len(known), 0)
	var without []string
	for _, m := range offered {
		name := m.Object.GetName()
		switch {
		case slices.Contains(names, name):
		case room > 0:
			room--
		default:
			without = append(without, name)
			continue
		}
		kept = append(kept, m)
	}
	if len(without) > 0 {
		leftOut = fmt.Sprintf("%d more %ss get no StorageClass, such as %s: the operator makes at most %d classes. Check that the Secret %s names the right cloud, "+
			"and make StorageClasses by hand.", len(without), backend.Kind, without[0], drivers.MaxClasses, backend.Secret)
	}
	return kept, leftOut
}
