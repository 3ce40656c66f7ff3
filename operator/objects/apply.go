// Package objects applies, adopts and deletes the driver's objects.
package objects

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/openshift/library-go/pkg/operator/events"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/operator/transport"
)

// optionalGroups are API groups that some clusters do not serve. The objects of these groups are left out there.
var optionalGroups = sets.New("monitoring.coreos.com", "snapshot.storage.k8s.io")

// A Writer writes objects as one field manager, and records an event for each change.
type Writer struct {
	fieldManager string
	client       client.Client
	recorder     events.Recorder
	clock        clock.PassiveClock
}

// NewWriter returns a writer that writes with a client.
func NewWriter(fieldManager string, client client.Client, recorder events.Recorder, clock clock.PassiveClock) *Writer {
	return &Writer{fieldManager: fieldManager, client: client, recorder: recorder, clock: clock}
}

// An Applier writes objects of one driver as its operator, and takes over earlier operators' objects.
type Applier struct {
	*Writer
	Ownership
	driver  string // the driver's CSI name
	metrics *metrics.Metrics
}

// NewApplier returns an applier that writes with a client.
func NewApplier(driver drivers.Driver, client client.Client, recorder events.Recorder, clock clock.PassiveClock, metrics *metrics.Metrics) *Applier {
	return &Applier{Writer: NewWriter(driver.Operator.Name, client, recorder, clock), Ownership: OwnershipOf(driver), driver: driver.CSIName, metrics: metrics}
}

// Apply applies the desired state of an object, and writes nothing while the object is up to date. It returns the live
// object, read-only; nil if the cluster does not serve its kind and the kind is optional. It is safe to call
// concurrently for different objects.
func (a *Writer) Apply(ctx context.Context, w *WatchedObject, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return a.apply(ctx, w, desired, func(desired *unstructured.Unstructured) {})
}

// ApplyTo is Apply for a desired state that depends on the observed object, nil if there was none. It fails with a
// conflict if the object has changed since.
func (a *Writer) ApplyTo(ctx context.Context, w *WatchedObject, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return a.apply(ctx, w, desired, func(desired *unstructured.Unstructured) {
		desired.SetResourceVersion(transport.CreateOnly)
		if observed != nil {
			desired.SetResourceVersion(observed.GetResourceVersion())
		}
	})
}

// apply applies an object, to which precondition adds preconditions.
func (a *Writer) apply(ctx context.Context, w *WatchedObject, desired *unstructured.Unstructured, precondition func(desired *unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	document, err := desired.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if err := drivers.CheckRendered(document); err != nil {
		return nil, err
	}
	hash, kind, object := sha256.Sum256(document), desired.GetKind(), klog.KObj(desired)
	current, err := a.Get(ctx, w)
	switch {
	case meta.IsNoMatchError(err) && optionalGroups.Has(desired.GroupVersionKind().Group):
		klog.V(4).InfoS("Object left out: the cluster does not serve its kind", "kind", kind, "object", object)
		return nil, nil
	case err != nil:
		return nil, err
	case current != nil && w.applied == versionOf(hash, current):
		klog.V(4).InfoS("Object is up to date", "kind", kind, "object", object)
		return current, nil
	}
	conditional := desired.DeepCopy()
	precondition(conditional)
	live, err := a.write(ctx, conditional)
	if invalidField(err) && current != nil && (drivers.Manifest{Object: desired}).Recreated() {
		live, err = a.recreate(ctx, desired, current, err)
	}
	if err != nil {
		return nil, err
	}
	klog.V(2).InfoS("Applied object", "kind", kind, "object", object, "resourceVersion", live.GetResourceVersion())
	switch {
	case current == nil:
		a.recorder.Eventf(kind+"Created", "Created %s %s because it was missing", kind, desired.GetName())
	case live.GetUID() != current.GetUID():
		// recreate has recorded an event
	case !sameContent(current, live):
		a.recorder.Eventf(kind+"Updated", "Updated %s %s because it had changed", kind, desired.GetName())
	}
	w.applied = versionOf(hash, live)
	return live, nil
}

// Applied reports whether the writer has applied a field of an object, and nobody has changed the field since.
func (a *Writer) Applied(object *unstructured.Unstructured, field ...string) bool {
	for _, entry := range object.GetManagedFields() {
		fields := map[string]any{}
		if entry.Manager != a.fieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil ||
			json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		path := make([]string, len(field))
		for i := range field {
			path[i] = "f:" + field[i]
		}
		if _, found, err := unstructured.NestedFieldNoCopy(fields, path...); found && err == nil {
			return true
		}
	}
	return false
}

// Create creates an object. It fails with a conflict if the object exists.
func (a *Writer) Create(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	desired = desired.DeepCopy()
	desired.SetResourceVersion(transport.CreateOnly)
	live, err := a.write(ctx, desired)
	if err != nil {
		return nil, err
	}
	klog.V(2).InfoS("Created object", "kind", desired.GetKind(), "object", klog.KObj(desired))
	return live, nil
}

func (a *Writer) write(ctx context.Context, desired *unstructured.Unstructured, options ...client.ApplyOption) (*unstructured.Unstructured, error) {
	live := desired.DeepCopy()
	options = append(options, client.ForceOwnership, client.FieldOwner(a.fieldManager))
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(live), options...)
	return live, err
}

// recreate replaces an object that cannot be updated to the desired one, if a dry run shows that the API server would
// accept the new object. invalid is why the update was rejected. The object is missing for the duration of one request.
// Running pods keep their volumes, and clients that need the object retry.
func (a *Writer) recreate(ctx context.Context, desired, current *unstructured.Unstructured, invalid error) (*unstructured.Unstructured, error) {
	trial := desired.DeepCopy()
	trial.SetName(drivers.TrialName(desired.GetName()))
	if _, err := a.write(ctx, trial, client.DryRunAll); err != nil {
		return nil, invalid // the desired object itself is invalid
	}
	uid, resourceVersion := current.GetUID(), current.GetResourceVersion()
	if err := a.client.Delete(ctx, current, client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion}); err != nil {
		return nil, err
	}
	klog.V(2).InfoS("Deleted object to recreate it", "kind", desired.GetKind(), "object", klog.KObj(desired), "reason", invalid)
	a.recorder.Warningf(desired.GetKind()+"Recreated", "Deleted %s %s to recreate it, because it could not be updated to what the driver needs: %v",
		desired.GetKind(), desired.GetName(), invalid)
	return a.write(ctx, desired)
}

// Restore adds other clients' changes to a recreated object. It uses another field manager, so that the operator does not own these
// fields.
func (a *Writer) Restore(ctx context.Context, additions *unstructured.Unstructured) error {
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(additions.DeepCopy()), client.FieldOwner(a.fieldManager+"-restored"))
}

// Delete deletes exactly the object that was observed.
func (a *Writer) Delete(ctx context.Context, observed *unstructured.Unstructured) error {
	kind, name := observed.GetKind(), observed.GetName()
	if observed.GetDeletionTimestamp() != nil {
		klog.V(4).InfoS("Object is already being deleted", "kind", kind, "object", klog.KObj(observed))
		return nil
	}
	uid := observed.GetUID()
	err := a.client.Delete(ctx, observed, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s %s: %w", kind, name, err)
	}
	klog.V(2).InfoS("Deleted object", "kind", kind, "object", klog.KObj(observed))
	a.recorder.Eventf(kind+"Removed", "Removed %s %s", kind, name)
	return nil
}

// sameContent reports whether two versions of an object have the same content, apart from status and managed fields.
func sameContent(a, b *unstructured.Unstructured) bool {
	content := func(object *unstructured.Unstructured) map[string]any {
		object = object.DeepCopy()
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		object.SetGeneration(0)
		delete(object.Object, "status")
		return object.Object
	}
	return equality.Semantic.DeepEqual(content(a), content(b))
}

// ReplaceKeys replaces an earlier operator's keys in a Secret with the desired keys, in one write. Everything else in the Secret stays.
// It fails if the Secret has changed since it was observed.
func (a *Writer) ReplaceKeys(ctx context.Context, observed, desired *unstructured.Unstructured, retired *drivers.RetiredKeys) error {
	data := map[string]any{}
	for _, key := range retired.Keys {
		data[key] = nil
	}
	own, _, err := unstructured.NestedMap(desired.Object, "data")
	if err != nil {
		return fmt.Errorf("field data of Secret %s: %w", desired.GetName(), err)
	}
	maps.Copy(data, own)
	patch, err := json.Marshal(map[string]any{"data": data, "metadata": map[string]any{
		"resourceVersion": observed.GetResourceVersion(), "annotations": map[string]any{retired.Mark: nil},
	}})
	if err != nil {
		return err
	}
	if err := a.client.Patch(ctx, observed.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(a.fieldManager)); err != nil {
		return fmt.Errorf("replacing the keys of an earlier operator in Secret %s: %w", observed.GetName(), err)
	}
	klog.V(2).InfoS("Replaced the keys of an earlier operator", "kind", "Secret", "object", klog.KObj(observed))
	a.recorder.Eventf("SecretUpdated", "Replaced the keys of an earlier operator in Secret %s, as none of its pods is left", observed.GetName())
	return nil
}
