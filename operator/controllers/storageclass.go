package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/objects"
)

type storageClass struct {
	ClassOptions
	sighting *objects.Sighting // of the class that may be the default
	// additions holds other clients' changes to classes that the controller is recreating, by the names of the classes. If the operator
	// ends between deleting and recreating a class, these changes are lost, but not the record of which class was the default.
	additions map[string]*unstructured.Unstructured
	reported  string // the last message
}

// ClassOptions are the dependencies of a controller of the driver's StorageClasses or VolumeSnapshotClasses.
type ClassOptions struct {
	Driver  drivers.Driver
	Classes []*objects.WatchedObject
	// Observe returns the configuration of the cluster, and Infrastructures is triggered when that changes.
	Observe         func() (drivers.Cluster, error)
	Infrastructures factory.Informer
	// Default names the class that is the default in a fresh cluster; "" for none.
	Default string
	// CustomResource writes the ClusterCSIDriver.
	CustomResource dynamic.ResourceInterface
	// Lists reads all classes of the cluster, by a client for their group and version.
	Lists    rest.Interface
	Applier  *objects.Applier
	Reporter *clustercsidriver.Reporter
	Recorder events.Recorder
}

// NewStorageClass returns the controller of the driver's StorageClasses. It manages them as spec.storageClassState of
// the ClusterCSIDriver asks, and replaces a class only if nobody else has set any field that would change.
//
// library-go's controller does not fit, because it deletes and recreates each class that differs. But administrators
// create their own classes for a driver, under any name, most fields of a class are immutable, and applications create
// claims that name a class at any time.
func NewStorageClass(options ClassOptions) factory.Controller {
	c := &storageClass{ClassOptions: options, sighting: &objects.Sighting{IsDefault: IsDefaultStorageClass}, additions: map[string]*unstructured.Unstructured{}}
	c.reported = c.Reporter.Condition(c.conditionType()).Message
	return factory.New().
		WithInformers(c.Reporter.Informer(), c.Infrastructures).
		WithInformers(classInformers(c.Classes, c.Default, c.sighting)...).
		WithSync(c.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.Reporter).
		ToController(c.Driver.ConditionPrefix+"DriverStorageClassController", c.Recorder)
}

func (c *storageClass) sync(ctx context.Context, _ factory.SyncContext) error {
	cluster, err := c.Observe()
	if err != nil {
		return err
	}
	var differences []string
	reason := "LeftAsItIs"
	var errs []error
	for _, class := range c.Classes {
		difference, outdated, err := c.syncClass(ctx, cluster, class)
		if apierrors.IsConflict(err) {
			klog.V(2).InfoS("StorageClass has changed meanwhile: deciding again", "storageClass", class.Desired.GetName(), "reason", err)
			class.Expire()
			err = factory.SyntheticRequeueError
		}
		if errors.Is(err, factory.SyntheticRequeueError) {
			return factory.SyntheticRequeueError
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("StorageClass %s: %w", class.Desired.GetName(), err))
		}
		if outdated {
			reason = "Outdated"
		}
		if difference != "" {
			differences = append(differences, fmt.Sprintf("StorageClass %s is left as it is: %s.", class.Desired.GetName(), difference))
		}
	}
	return utilerrors.NewAggregate(append(errs, c.report(ctx, reason, strings.Join(differences, " "))))
}

// syncClass applies, replaces or deletes one class, or says why it leaves a differing class. Such a class is outdated
// if it lacks parameters that the cluster's configuration asks for.
func (c *storageClass) syncClass(ctx context.Context, cluster drivers.Cluster, class *objects.WatchedObject) (difference string, outdated bool, err error) {
	current, err := c.Applier.Get(ctx, class)
	if err != nil {
		return "", false, err
	}
	desired, err := withParameters(class.Desired, c.Driver.ClassParameters, cluster)
	if err != nil {
		return "", false, err
	}
	action, difference, err := decideOnClass(c.Applier, cluster.ClusterCSIDriver.Spec.StorageClassState, desired, current)
	if err != nil {
		return "", false, err
	}
	if difference != "" {
		outdated = c.Applier.Owned(current) || lacksParameters(current, c.Driver, cluster)
	}
	switch action {
	case replaceClass:
		err = c.remove(ctx, desired, current)
	case applyClass:
		if current, err = c.apply(ctx, cluster, class, desired, current); err == nil {
			err = c.restore(ctx, class)
		}
	case deleteClass:
		err = c.Applier.Delete(ctx, current)
	case leaveClass:
		klog.V(4).InfoS("StorageClass left as it is", "storageClass", klog.KObj(desired), "difference", difference)
	}
	if err != nil || class.Desired.GetName() != c.Default || current == nil { // the record of a missing class stays
		return difference, outdated, err
	}
	return difference, outdated, recordDefault(ctx, c.CustomResource, cluster.ClusterCSIDriver, DefaultStorageClassAnnotation, current, IsDefaultStorageClass)
}

// lacksParameters reports whether a class lacks a parameter that the cluster's configuration asks for.
func lacksParameters(class *unstructured.Unstructured, driver drivers.Driver, cluster drivers.Cluster) bool {
	if driver.ClassParameters == nil {
		return false
	}
	parameters, _, _ := unstructured.NestedStringMap(class.Object, "parameters")
	for name, value := range driver.ClassParameters(cluster) {
		if parameters[name] != value {
			return true
		}
	}
	return false
}

// remove deletes a class. It is recreated when the watch shows the deletion. Claims of the class wait meanwhile.
func (c *storageClass) remove(ctx context.Context, desired, current *unstructured.Unstructured) error {
	c.additions[desired.GetName()] = additions(desired, current)
	if current.GetDeletionTimestamp() == nil {
		c.Recorder.Warningf("StorageClassRecreated", "Deleting StorageClass %s to recreate it with the parameters that the cluster asks for, because parameters cannot be changed", desired.GetName())
	}
	return c.Applier.Delete(ctx, current)
}

// restore adds other clients' changes to a recreated class.
func (c *storageClass) restore(ctx context.Context, class *objects.WatchedObject) error {
	name := class.Desired.GetName()
	added := c.additions[name]
	if added == nil {
		return nil
	}
	if err := c.Applier.Restore(ctx, added); err != nil {
		return fmt.Errorf("restoring other clients' changes: %w", err)
	}
	delete(c.additions, name)
	return nil
}

// additions returns other clients' changes to a class: mutable fields that the operator does not set.
func additions(desired, current *unstructured.Unstructured) *unstructured.Unstructured {
	added := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": current.GetName()}}}
	added.SetGroupVersionKind(current.GroupVersionKind())
	without := func(all, own map[string]string) map[string]string {
		all = maps.Clone(all)
		maps.DeleteFunc(all, func(key, _ string) bool { _, ok := own[key]; return ok })
		return all
	}
	added.SetLabels(without(current.GetLabels(), desired.GetLabels()))
	added.SetAnnotations(without(current.GetAnnotations(), desired.GetAnnotations()))
	for _, field := range []string{"mountOptions", "allowedTopologies", "allowVolumeExpansion"} {
		value, set := current.Object[field]
		if _, own := desired.Object[field]; set && !own {
			added.Object[field] = value
		}
	}
	return added.DeepCopy()
}

// apply applies a class. It makes the class the default only when it creates it.
func (c *storageClass) apply(ctx context.Context, cluster drivers.Cluster, class *objects.WatchedObject, desired, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch {
	case current == nil && desired.GetName() == c.Default:
		return c.create(ctx, cluster, class, desired)
	case current != nil && c.Applier.Applied(current, "metadata", "annotations", isDefaultStorageClassAnnotation):
		// Without the annotation, server-side apply would remove it.
		return c.Applier.ApplyTo(ctx, class, asDefault(desired, isDefaultStorageClassAnnotation), current)
	default:
		return c.Applier.Apply(ctx, class, desired)
	}
}

// withParameters returns the class with the parameters that the cluster's configuration asks for. parameters may be nil.
func withParameters(class *unstructured.Unstructured, parameters func(drivers.Cluster) map[string]string, cluster drivers.Cluster) (*unstructured.Unstructured, error) {
	if parameters == nil {
		return class, nil
	}
	class = class.DeepCopy()
	for name, value := range parameters(cluster) {
		if err := unstructured.SetNestedField(class.Object, value, "parameters", name); err != nil {
			return nil, err
		}
	}
	return class, nil
}

type classAction string

const (
	leaveClass  classAction = "leave"
	applyClass  classAction = "apply"
	deleteClass classAction = "delete"
	// replaceClass deletes and recreates a class.
	replaceClass classAction = "replace"
)

// A classOwner knows which objects, and which of their fields, belong to the operator.
type classOwner interface {
	Owned(metav1.Object) bool
	Applied(object *unstructured.Unstructured, field ...string) bool
}

// decideOnClass returns the action for a class and, if the operator leaves a differing class, the difference. current
// is nil if the class does not exist.
func decideOnClass(owner classOwner, state operatorv1.StorageClassStateName, desired, current *unstructured.Unstructured) (action classAction, difference string, err error) {
	switch state {
	case operatorv1.UnmanagedStorageClass:
		return leaveClass, "", nil
	case operatorv1.RemovedStorageClass:
		if current != nil && owner.Owned(current) {
			return deleteClass, "", nil
		}
		return leaveClass, "", nil
	}
	if current == nil {
		return applyClass, "", nil
	}
	different, err := immutableDifferences(desired, current)
	switch {
	case err != nil:
		return leaveClass, "", err
	case len(different) > 0 && owner.Owned(current) && madeBy(owner, current, different):
		return replaceClass, "", nil
	case len(different) > 0 && owner.Owned(current):
		return leaveClass, fmt.Sprintf("its %s differ from the driver's own class, cannot be changed, and are not as the operator made them; delete it to have it recreated",
			strings.Join(different, " and ")), nil
	case len(different) > 0:
		return leaveClass, fmt.Sprintf("the operator did not create it, and its %s differ from the driver's own class; delete it to have that%s",
			strings.Join(different, " and "), alternative(desired)), nil
	case !owner.Owned(current):
		return leaveClass, "", nil // equivalent to the driver's
	}
	return applyClass, "", nil
}

// madeBy reports whether the owner created the class and set all immutable fields that differ.
func madeBy(owner classOwner, class *unstructured.Unstructured, different []string) bool {
	if !owner.Applied(class, "provisioner") {
		return false
	}
	parameters, _, _ := unstructured.NestedStringMap(class.Object, "parameters")
	for name := range parameters {
		if !owner.Applied(class, "parameters", name) {
			return false
		}
	}
	return !slices.ContainsFunc(different, func(field string) bool { return field != "parameters" && !owner.Applied(class, field) })
}

// alternative says which parameters a class of another name needs to be equivalent to the desired one, such as a
// backend's share type. It leaves out parameters that name the driver's Secrets, because they are the same in all of
// the driver's classes.
func alternative(desired *unstructured.Unstructured) string {
	parameters, _, _ := unstructured.NestedStringMap(desired.Object, "parameters")
	var own []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if !strings.HasPrefix(name, "csi.storage.k8s.io/") {
			own = append(own, fmt.Sprintf("%s: %q", name, parameters[name]))
		}
	}
	if len(own) == 0 {
		return ""
	}
	return ", or create one of another name with the parameters " + strings.Join(own, ", ")
}

// immutableDifferences returns the immutable fields in which two classes differ.
func immutableDifferences(desired, current *unstructured.Unstructured) ([]string, error) {
	var a, b storagev1.StorageClass
	for from, to := range map[*unstructured.Unstructured]*storagev1.StorageClass{desired: &a, current: &b} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
			return nil, err
		}
	}
	var fields []string
	for _, field := range []struct {
		name string
		a, b any
	}{
		{"provisioner", a.Provisioner, b.Provisioner},
		{"parameters", a.Parameters, b.Parameters},
		{"reclaimPolicy", a.ReclaimPolicy, b.ReclaimPolicy},
		{"volumeBindingMode", a.VolumeBindingMode, b.VolumeBindingMode},
	} {
		if !equality.Semantic.DeepEqual(field.a, field.b) {
			fields = append(fields, field.name)
		}
	}
	return fields, nil
}

func (c *storageClass) conditionType() string {
	return c.Driver.ConditionPrefix + "DriverStorageClassApplied"
}

// report reports which classes differ: in a condition, and in an event when the condition changes. Volumes of any class can still be
// mounted, so the driver is not degraded.
func (c *storageClass) report(ctx context.Context, reason, differences string) error {
	status := operatorv1.ConditionFalse
	if differences == "" {
		status, reason = operatorv1.ConditionTrue, "AsExpected"
	}
	if differences != c.reported && differences != "" {
		c.Recorder.Warning("StorageClassLeft", differences)
	}
	c.reported = differences
	return c.Reporter.ApplyOperatorStatus(ctx, c.conditionType(), applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(c.conditionType()).WithStatus(status).WithReason(reason).WithMessage(differences)))
}
