package uninstall

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/listing"
)

// A task is work that the driver's controller has begun or is about to begin. Without the controller, nobody can do it:
// the objects and their storage would never be deleted.
type task struct {
	kind string // of the objects
	verb string // what the controller has to do with their storage
	// objects is the number of objects, and first describes the first maxObjects of them.
	objects int
	first   []string
}

// maxObjects is how many objects of a kind a message names.
const maxObjects = 5

func (t task) String() string {
	text := fmt.Sprintf("%s %s: %s", t.verb, count(t.objects, t.kind), strings.Join(t.first, ", "))
	if more := t.objects - len(t.first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// describeTasks lists tasks for a message.
func describeTasks(tasks []task) string {
	var texts []string
	for _, t := range tasks {
		texts = append(texts, t.String())
	}
	return strings.Join(texts, "; ")
}

// worksForController is an object that may be work for the controller of a driver.
type worksForController interface {
	// work describes the object for a message if it is work for the controller, and returns "" otherwise. The
	// description contains only names that the API server accepts, and fields with fixed values.
	work(drivers.Driver) string
}

// attachment, deletedVolume and snapshotContent hold the fields of a VolumeAttachment, a PersistentVolume and a VolumeSnapshotContent that
// are read here.
type (
	attachment struct {
		Metadata struct{ Name string }
		Spec     struct{ Attacher, NodeName string }
	}
	deletedVolume struct {
		Metadata deletable
		Spec     sourced[struct {
			PersistentVolumeReclaimPolicy corev1.PersistentVolumeReclaimPolicy
		}]
		Status struct{ Phase corev1.PersistentVolumePhase }
	}
	snapshotContent struct {
		Metadata deletable
		Spec     struct{ Driver string }
	}
	deletable struct {
		Name              string
		DeletionTimestamp *metav1.Time
	}
)

// work: while there is a VolumeAttachment, the volume is attached, or the controller attaches or detaches it.
func (a attachment) work(d drivers.Driver) string {
	if a.Spec.Attacher != d.CSIName {
		return ""
	}
	return fmt.Sprintf("%s (node %s)", a.Metadata.Name, a.Spec.NodeName)
}

// work: the controller deletes Released volumes with the reclaim policy Delete, and removes its finalizers from volumes
// that are being deleted, whatever the policy.
func (v deletedVolume) work(d drivers.Driver) string {
	name, phase, deleted := v.Metadata.Name, v.Status.Phase, v.Metadata.DeletionTimestamp != nil
	switch {
	case !v.Spec.csi(d) && !v.Spec.inTree(d):
		return ""
	case deleted && phase == corev1.VolumeBound:
		return name + " (Terminating, and still bound: delete its claim)"
	case deleted:
		return name + " (Terminating)"
	case phase == corev1.VolumeReleased && v.Spec.Of.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return name + " (Released)"
	}
	return ""
}

// work: the controller deletes the snapshot in the storage before the object goes.
func (s snapshotContent) work(d drivers.Driver) string {
	if s.Spec.Driver != d.CSIName || s.Metadata.DeletionTimestamp == nil {
		return ""
	}
	return s.Metadata.Name
}

// controllerTasks returns the remaining tasks of the driver's controller. A forced removal does not wait for them, but
// an event names them.
func (c *controller) controllerTasks(ctx context.Context, forced bool) ([]task, error) {
	tasks, err := c.findTasks(ctx)
	if err != nil && forced {
		klog.ErrorS(err, "The removal is forced and continues", "clusterCSIDriver", c.Driver.CSIName)
		return nil, nil
	}
	return tasks, err
}

// findTasks searches only for work of the sidecars that the driver has. A cluster without the snapshot API has no snapshots.
func (c *controller) findTasks(ctx context.Context) ([]task, error) {
	var tasks []task
	for _, of := range []struct {
		sidecar    drivers.Image
		kind, verb string
		each       func(found func(string)) error
	}{
		{drivers.AttacherImage, "VolumeAttachment", "detach", func(found func(string)) error {
			return eachWork[attachment](ctx, c.Kube.StorageV1().RESTClient(), "volumeattachments", c.Driver, found)
		}},
		{drivers.ProvisionerImage, "PersistentVolume", "delete", func(found func(string)) error {
			return eachWork[deletedVolume](ctx, c.Kube.CoreV1().RESTClient(), "persistentvolumes", c.Driver, found)
		}},
		{drivers.SnapshotterImage, "VolumeSnapshotContent", "delete", func(found func(string)) error {
			err := eachWork[snapshotContent](ctx, c.Snapshots, "volumesnapshotcontents", c.Driver, found)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}},
	} {
		if !c.Driver.HasImage(of.sidecar) {
			continue
		}
		t := task{kind: of.kind, verb: of.verb}
		if err := of.each(t.add); err != nil {
			return nil, fmt.Errorf("looking for work of the driver's controller: %w", err)
		}
		if t.objects > 0 {
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

// add adds an object to the task.
func (t *task) add(description string) {
	if t.objects++; len(t.first) < maxObjects {
		t.first = append(t.first, description)
	}
}

// eachWork calls found with the description of each object of a resource that is work for the driver's controller.
func eachWork[T worksForController](ctx context.Context, client restclient.Interface, resource string, d drivers.Driver, found func(string)) error {
	return listing.Each(ctx, client, listing.List{Resource: resource}, func(object T) error {
		if description := object.work(d); description != "" {
			found(description)
		}
		return nil
	})
}
