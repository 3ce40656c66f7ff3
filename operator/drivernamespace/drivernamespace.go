// Package drivernamespace finds the driver's namespace, creates it if it is missing, and lets the operator write only
// while it is the same namespace.
//
// Anybody who is signed in can create namespaces, so neither a namespace's name nor the objects in it show where the
// driver is. Package placement decides that from cluster-scoped objects alone.
package drivernamespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/objects"
)

// A Namespace is the driver's namespace.
type Namespace struct {
	Name string
	UID  types.UID
	// Lost says that the namespace was deleted or replaced. A namespace of the same name is not the driver's.
	Lost bool
}

// Annotations returns the annotations of a ClusterCSIDriver that record the namespace.
func (n Namespace) Annotations() map[string]string {
	return map[string]string{placement.NamespaceAnnotation: n.Name, placement.NamespaceUIDAnnotation: string(n.UID)}
}

// recheckInterval is how often the operator checks again whether it can tell where the driver is. A change of the
// ClusterCSIDriver triggers a check at once.
const recheckInterval = 10 * time.Second

// ErrUnknown says that the driver's namespace was unknown, or that another operator's driver was in the cluster. The
// caller should decide again.
var ErrUnknown = errors.New("the operator may not write to the driver")

// A Finder finds the driver's namespace.
type Finder struct {
	Driver            drivers.Driver
	OperatorNamespace string
	// Removing says that the driver is being removed.
	Removing bool
	// Client and Applier write even while the driver's namespace is not known. All other writes are guarded.
	Client   client.Client
	Applier  *objects.Applier
	Reporter *clustercsidriver.Reporter
	Recorder events.Recorder
}

// Decide observes the cluster and decides where the driver is.
func (f *Finder) Decide(ctx context.Context) (placement.Decision, error) {
	custom, err := f.Reporter.GetObjectMeta()
	if err != nil {
		return placement.Decision{}, err
	}
	observed, err := placement.Observe(ctx, f.Client, f.Driver, f.OperatorNamespace, custom)
	if err != nil {
		return placement.Decision{}, err
	}
	observed.Removing = f.Removing
	return placement.Decide(f.Driver, observed), nil
}

// NameIn returns the name of a decision's namespace.
func NameIn(decision placement.Decision) string {
	if decision.Refusal != nil {
		return decision.Refusal.Namespace
	}
	return decision.Namespace
}

// Settle returns the namespace of a decision, and creates it if it is missing. manifests are the driver's objects,
// rendered for that namespace. If the recorded namespace is lost, Settle deletes the permissions that the operator gave
// it; for a removal it then returns the lost namespace. If the driver's namespace is unknown, Settle reports why in a
// condition, calls whileUnknown until that may have changed, and returns ErrUnknown.
func (f *Finder) Settle(ctx context.Context, decision placement.Decision, manifests []drivers.Manifest, whileUnknown func(context.Context) error) (Namespace, error) {
	for _, ignored := range decision.Ignored {
		klog.InfoS("Ignored a sighting of the driver", "driver", f.Driver.CSIName, "reason", ignored)
	}
	for _, elsewhere := range decision.Elsewhere { // these traces are about to be adopted
		f.Recorder.Warningf("DriverElsewhere", "The ClusterCSIDriver names another namespace for the driver, but a driver is or was here: %s. Remove the rest of that driver: only one can serve volumes on a node", elsewhere)
	}
	refusal := decision.Refusal
	if decision.Left != "" && (decision.Namespace != decision.Left || decision.Create) {
		if err := f.deletePermissionsOf(ctx, decision.Left, manifests); err != nil {
			return Namespace{}, err
		}
	}
	if refusal != nil && refusal.Lost {
		if err := f.deletePermissionsOf(ctx, refusal.Namespace, manifests); err != nil {
			return Namespace{}, err
		}
		if f.Removing { // the objects in the namespace were deleted with it
			custom, err := f.Reporter.GetObjectMeta()
			if err != nil {
				return Namespace{}, err
			}
			return Namespace{refusal.Namespace, types.UID(custom.Annotations[placement.NamespaceUIDAnnotation]), true}, nil
		}
	}
	if refusal != nil {
		if err := f.waitUntilKnown(ctx, refusal, whileUnknown); err != nil {
			return Namespace{}, err
		}
		return Namespace{}, ErrUnknown
	}
	if decision.Left != "" {
		f.Recorder.Warningf("NamespaceGone", "The namespace %s, which the driver was in, has been deleted: installing the driver in namespace %s", decision.Left, decision.Namespace)
	}
	if decision.Create {
		uid, err := f.create(ctx, decision.Namespace, manifests)
		return Namespace{Name: decision.Namespace, UID: uid}, err
	}
	return Namespace{Name: decision.Namespace, UID: decision.UID}, nil
}

// waitUntilKnown reports why the operator writes nothing, and runs meanwhile until that may have changed.
func (f *Finder) waitUntilKnown(ctx context.Context, refusal *placement.Refusal, meanwhile func(context.Context) error) error {
	klog.InfoS("Waiting: the operator may not write to the driver", "driver", f.Driver.CSIName, "reason", refusal.Reason, "message", refusal.Message)
	if f.Reporter.Condition(conditionType(f.Driver)).Message != refusal.Message {
		f.Recorder.Warning(string(refusal.Reason), refusal.Message)
	}
	observed, err := f.Reporter.GetObjectMeta()
	if err != nil {
		return err
	}
	annotations := observed.Annotations
	if err := report(ctx, f.Reporter, f.Driver, operatorv1.ConditionTrue, string(refusal.Reason), refusal.Message); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	registration, err := f.Reporter.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
		if now, err := meta.Accessor(object); err == nil && !sameNamespace(now.GetAnnotations(), annotations) {
			cancel()
		}
	}})
	if err != nil {
		return err
	}
	defer f.Reporter.Informer().RemoveEventHandler(registration)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return meanwhile(ctx) })
	group.Go(func() error {
		defer cancel()
		return wait.PollUntilContextCancel(ctx, recheckInterval, false, func(ctx context.Context) (bool, error) {
			decision, err := f.Decide(ctx)
			if err != nil {
				return false, err
			}
			return decision.Refusal == nil || *decision.Refusal != *refusal, nil
		})
	})
	if err := group.Wait(); err != nil && !wait.Interrupted(err) {
		return err
	}
	return nil
}

// sameNamespace reports whether the annotations of two versions of the ClusterCSIDriver name the same namespace.
func sameNamespace(a, b map[string]string) bool {
	return a[placement.NamespaceAnnotation] == b[placement.NamespaceAnnotation] && a[placement.NamespaceUIDAnnotation] == b[placement.NamespaceUIDAnnotation]
}

// create creates the driver's fixed namespace, and returns its UID. It labels the namespace with the UID of the
// ClusterCSIDriver: after a crash that proves to the next operator that one of the driver's operators created the
// namespace. It fails if the namespace exists, because anybody may have created it.
func (f *Finder) create(ctx context.Context, name string, manifests []drivers.Manifest) (types.UID, error) {
	custom, err := f.Reporter.GetObjectMeta()
	if err != nil {
		return "", err
	}
	namespaces := drivers.OfKind(manifests, "Namespace")
	if len(namespaces) == 0 {
		return "", fmt.Errorf("the driver's namespace %s does not exist, and none of the driver's assets is that Namespace", name)
	}
	desired := namespaces[0].Object.DeepCopy()
	labels := desired.GetLabels()
	labels[placement.ProofLabel] = string(custom.UID)
	desired.SetLabels(labels)
	created, err := f.Applier.Create(ctx, desired)
	if err != nil {
		return "", fmt.Errorf("creating the namespace %s for the driver: %w", name, err)
	}
	f.Recorder.Eventf("NamespaceCreated", "Created Namespace %s because it was missing", name)
	return created.GetUID(), nil
}

// deletePermissionsOf deletes the objects that give permissions or credentials to a lost namespace. Otherwise, whoever
// creates a namespace of that name would get them.
func (f *Finder) deletePermissionsOf(ctx context.Context, namespace string, manifests []drivers.Manifest) error {
	for _, m := range manifests {
		if !m.Permits() {
			continue
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(m.Object.GroupVersionKind())
		err := f.Client.Get(ctx, client.ObjectKeyFromObject(m.Object), live)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s %s, to delete it if it gives permissions to the namespace %s: %w", m.Object.GetKind(), m.Object.GetName(), namespace, err)
		}
		if !f.Applier.Owned(live) || !isFor(live, namespace) {
			continue
		}
		f.Recorder.Warningf("GrantWithdrawn", "%s %s is removed: its permissions are for the namespace %s, which is no longer the driver's",
			live.GetKind(), live.GetName(), namespace)
		if err := f.Applier.Delete(ctx, live); err != nil {
			return err
		}
	}
	return nil
}

// isFor reports whether an object gives permissions or credentials to a namespace.
func isFor(object *unstructured.Unstructured, namespace string) bool {
	secret, _, _ := unstructured.NestedString(object.Object, "spec", "secretRef", "namespace")
	return secret == namespace ||
		slices.ContainsFunc(drivers.AccountsIn(object), func(a drivers.Account) bool { return a.Namespace == namespace })
}

// conditionType returns the type of the condition about problems with the driver's namespace.
func conditionType(driver drivers.Driver) string {
	return driver.ConditionPrefix + "DriverNamespace" + operatorv1.OperatorStatusTypeDegraded
}

func report(ctx context.Context, reporter *clustercsidriver.Reporter, driver drivers.Driver, degraded operatorv1.ConditionStatus, reason, message string) error {
	err := reporter.ApplyOperatorStatus(ctx, driver.ConditionPrefix+"DriverNamespace", applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(conditionType(driver)).WithStatus(degraded).WithReason(reason).WithMessage(message)))
	if apierrors.IsNotFound(err) {
		return nil // the ClusterCSIDriver is gone, so the cycle is about to end
	}
	return err
}

// ReportOtherOperator reports in the same condition that another operator manages the driver.
func (f *Finder) ReportOtherOperator(ctx context.Context, message string) error {
	return report(ctx, f.Reporter, f.Driver, operatorv1.ConditionTrue, "OtherOperatorActive", message)
}
