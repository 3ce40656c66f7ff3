package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
)

// storageClassController keeps the driver's StorageClasses as spec.storageClassState of the
// ClusterCSIDriver asks, and never replaces one. Administrators make classes of their own for a driver, by
// any name; most of a class cannot be changed; and applications make claims by its name all the time.
// library-go's controller, which deletes and recreates a class that differs, is therefore not used.
type storageClassController struct {
	*operator
	clients *clients
	classes []*followed
	told    string // the last message
}

func (o *operator) newStorageClassController(c *clients, manifests []drivers.Manifest) factory.Controller {
	controller := &storageClassController{operator: o, clients: c}
	controller.told = c.condition(controller.conditionType()).Message
	watched := []factory.Informer{c.customResource.Informer()}
	for _, m := range manifests {
		class := c.follow(m.Object)
		controller.classes = append(controller.classes, class)
		watched = append(watched, class.informers()...)
	}
	return factory.New().
		WithInformers(watched...).
		WithSync(controller.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.customResource).
		ToController(o.driver.ConditionPrefix+"DriverStorageClassController", o.recorder)
}

func (c *storageClassController) sync(ctx context.Context, _ factory.SyncContext) error {
	cluster, err := c.observeCluster(c.clients)
	if err != nil {
		return err
	}
	var complaints []string
	for _, class := range c.classes {
		complaint, err := c.bring(ctx, cluster, class)
		if err != nil {
			return fmt.Errorf("StorageClass %s: %w", class.wanted.GetName(), err)
		}
		if complaint != "" {
			complaints = append(complaints, fmt.Sprintf("StorageClass %s is left as it is: %s.", class.wanted.GetName(), complaint))
		}
	}
	return c.report(ctx, strings.Join(complaints, " "))
}

// bring does with one class what is to be done.
func (c *storageClassController) bring(ctx context.Context, cluster drivers.Cluster, class *followed) (complaint string, err error) {
	current, err := class.look(ctx, c.operator, c.clients)
	if err != nil {
		return "", err
	}
	wanted, err := c.withParameters(class.wanted, cluster)
	if err != nil {
		return "", err
	}
	action, complaint, err := c.decide(cluster.ClusterCSIDriver.Spec.StorageClassState, wanted, current)
	if err != nil {
		return "", err
	}
	switch action {
	case applyClass:
		_, err = c.apply(ctx, c.clients, class, wanted)
	case removeClass:
		err = c.remove(ctx, c.clients.objects, current)
	}
	return complaint, err
}

// withParameters returns the class with what the cluster's configuration asks for.
func (o *operator) withParameters(class *unstructured.Unstructured, cluster drivers.Cluster) (*unstructured.Unstructured, error) {
	if o.driver.ClassParameters == nil {
		return class, nil
	}
	class = class.DeepCopy()
	for name, value := range o.driver.ClassParameters(cluster) {
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
	removeClass classAction = "remove"
)

// decide says what is to be done with a class, and what is wrong if it is not as wanted and stays so.
// current is nil if there is no such class.
func (o *operator) decide(state operatorv1.StorageClassStateName, wanted, current *unstructured.Unstructured) (action classAction, complaint string, err error) {
	switch state {
	case operatorv1.UnmanagedStorageClass:
		return leaveClass, "", nil
	case operatorv1.RemovedStorageClass:
		if current != nil && o.ours(current) {
			return removeClass, "", nil
		}
		return leaveClass, "", nil
	}
	if current == nil {
		return applyClass, "", nil
	}
	different, err := differentForGood(wanted, current)
	switch {
	case err != nil:
		return leaveClass, "", err
	case len(different) > 0 && o.ours(current):
		return leaveClass, fmt.Sprintf("its %s differ from what the driver brings, and cannot be changed; delete it to have it made anew",
			strings.Join(different, " and ")), nil
	case len(different) > 0:
		return leaveClass, fmt.Sprintf("the operator did not make it, and its %s differ from what the driver brings; delete it to have that%s",
			strings.Join(different, " and "), inItsPlace(wanted)), nil
	case !o.ours(current):
		return leaveClass, "", nil // as good as the driver's
	}
	return applyClass, "", nil
}

// inItsPlace says which parameters make a class of another name as good as the driver's, such as the kind of storage
// that a backend offers; those by which the parts of a driver find their credentials stand in all of its classes.
func inItsPlace(wanted *unstructured.Unstructured) string {
	parameters, _, _ := unstructured.NestedStringMap(wanted.Object, "parameters")
	var own []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if !strings.HasPrefix(name, "csi.storage.k8s.io/") {
			own = append(own, fmt.Sprintf("%s: %q", name, parameters[name]))
		}
	}
	if len(own) == 0 {
		return ""
	}
	return ", or make one of another name with the parameters " + strings.Join(own, ", ")
}

// differentForGood returns the fields in which two classes differ and that cannot be changed.
func differentForGood(wanted, current *unstructured.Unstructured) ([]string, error) {
	var a, b storagev1.StorageClass
	for from, to := range map[*unstructured.Unstructured]*storagev1.StorageClass{wanted: &a, current: &b} {
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

func (c *storageClassController) conditionType() string {
	return c.driver.ConditionPrefix + "DriverStorageClassApplied"
}

// report tells in a condition, and in an event when that changes, which classes are not as wanted. Volumes
// of every class can be mounted all the same, so this is no reason to call the driver degraded.
func (c *storageClassController) report(ctx context.Context, complaints string) error {
	status, reason := operatorv1.ConditionTrue, "AsExpected"
	if complaints != "" {
		status, reason = operatorv1.ConditionFalse, "LeftAsItIs"
	}
	if complaints != c.told && complaints != "" {
		c.recorder.Warning("StorageClassLeft", complaints)
	}
	c.told = complaints
	return c.clients.customResource.ApplyOperatorStatus(ctx, c.conditionType(), applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(c.conditionType()).WithStatus(status).WithReason(reason).WithMessage(complaints)))
}
