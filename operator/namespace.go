package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
)

// place is the namespace that the driver is in.
type place struct {
	namespace string
	uid       types.UID
	// lost says that this namespace is not there any more. What has its name is not the driver's.
	lost bool
}

// has tells whether an object is in the place.
func (p place) has(object client.Object) bool { return object.GetNamespace() == p.namespace }

// lookAgain is how often it is looked whether a driver's place is known now. A change of the ClusterCSIDriver is
// heard of at once.
const lookAgain = 10 * time.Second

// locateEvery is how often it is looked, while the driver is looked after, where it and others are.
const locateEvery = time.Minute

// locate finds out where the driver is.
func (o *operator) locate(ctx context.Context, c *clients) (placement.Decision, error) {
	custom, err := c.customResource.GetObjectMeta()
	if err != nil {
		return placement.Decision{}, err
	}
	observed, err := placement.Observe(ctx, c.unguarded, o.driver, o.namespace, custom)
	if err != nil {
		return placement.Decision{}, err
	}
	return placement.Decide(o.driver, observed), nil
}

// settle returns the place that was decided on. If nobody knows it, it says so in a condition until that may have
// changed, and returns errUnsettled.
func (o *operator) settle(ctx context.Context, c *clients, decision placement.Decision, asked mode) (place, error) {
	for _, ignored := range decision.Ignored {
		klog.Infof("looking for the driver %s: not believed: %s", o.driver.CSIName, ignored)
	}
	for _, elsewhere := range decision.Elsewhere { // What shows that is about to be taken over.
		o.recorder.Warningf("DriverElsewhere", "The driver is to be in another namespace, but there is one, or was: %s. Remove what is left of it there: only one can serve volumes on a node", elsewhere)
	}
	refusal := decision.Refusal
	if refusal != nil && refusal.Lost {
		if err := o.withdraw(ctx, c, refusal.Namespace); err != nil {
			return place{}, err
		}
		if asked == remove { // What was in the namespace went with it.
			custom, err := c.customResource.GetObjectMeta()
			if err != nil {
				return place{}, err
			}
			return place{refusal.Namespace, types.UID(custom.Annotations[placement.NamespaceUIDAnnotation]), true}, nil
		}
	}
	if refusal != nil {
		return place{}, o.refuse(ctx, c, refusal)
	}
	if decision.Create {
		uid, err := o.createNamespace(ctx, c, decision.Namespace)
		return place{namespace: decision.Namespace, uid: uid}, err
	}
	return place{namespace: decision.Namespace, uid: decision.UID}, nil
}

// errUnsettled says that it was not known where the driver is.
var errUnsettled = errors.New("the driver's namespace is not settled")

// refuse says why nothing is written, until that may not be so any more.
func (o *operator) refuse(ctx context.Context, c *clients, refusal *placement.Refusal) error {
	if c.condition(o.namespaceCondition()).Message != refusal.Message {
		o.recorder.Warning(string(refusal.Reason), refusal.Message)
	}
	before, err := c.customResource.GetObjectMeta()
	if err != nil {
		return err
	}
	annotations := before.Annotations
	if err := o.reportNamespace(ctx, c, operatorv1.ConditionTrue, string(refusal.Reason), refusal.Message); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	registration, err := c.customResource.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
		if now, err := meta.Accessor(object); err == nil && !samePlace(now.GetAnnotations(), annotations) {
			end()
		}
	}})
	if err != nil {
		return err
	}
	defer c.customResource.Informer().RemoveEventHandler(registration)
	if err := runAll(ctx, []func(context.Context) error{
		func(ctx context.Context) error { return o.onlyReport(ctx, c) },
		func(ctx context.Context) error {
			defer end()
			return wait.PollUntilContextCancel(ctx, lookAgain, false, func(ctx context.Context) (bool, error) {
				decision, err := o.locate(ctx, c)
				if err != nil {
					return false, err
				}
				return decision.Refusal == nil || *decision.Refusal != *refusal, nil
			})
		},
	}); err != nil && !wait.Interrupted(err) {
		return err
	}
	return errUnsettled
}

// samePlace tells whether two versions of the ClusterCSIDriver name the same namespace.
func samePlace(a, b map[string]string) bool {
	return a[placement.NamespaceAnnotation] == b[placement.NamespaceAnnotation] && a[placement.NamespaceUIDAnnotation] == b[placement.NamespaceUIDAnnotation]
}

// createNamespace makes the driver's fixed namespace, and returns its UID. The label shows an operator that comes
// after a crash that it was made by one. It fails if there is one already, which may be anybody's.
func (o *operator) createNamespace(ctx context.Context, c *clients, name string) (types.UID, error) {
	custom, err := c.customResource.GetObjectMeta()
	if err != nil {
		return "", err
	}
	manifests, err := o.manifests(place{namespace: name, uid: custom.UID}, anyImage)
	if err != nil {
		return "", err
	}
	namespaces := drivers.OfKind(manifests, "Namespace")
	if len(namespaces) == 0 {
		return "", fmt.Errorf("the driver's namespace %s does not exist, and none of the driver's assets is that Namespace", name)
	}
	wanted := namespaces[0].Object
	wanted.SetResourceVersion(neverSeen)
	made, err := o.write(ctx, c.unguarded, wanted)
	if err != nil {
		return "", fmt.Errorf("making the namespace %s for the driver: %w", name, err)
	}
	o.recorder.Eventf("NamespaceCreated", "Created Namespace %s because it was missing", name)
	return made.GetUID(), nil
}

// grantingKinds are the kinds of objects outside of the driver's namespace that give something to what is in it:
// permissions to service accounts, or a Secret with credentials.
var grantingKinds = sets.New("SecurityContextConstraints", "ClusterRoleBinding", "CredentialsRequest")

// withdraw takes back what the operator has granted to a namespace that is lost: whoever makes another one of that
// name would have it.
func (o *operator) withdraw(ctx context.Context, c *clients, namespace string) error {
	manifests, err := o.manifests(place{namespace: namespace}, anyImage)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if !grantingKinds.Has(m.Object.GetKind()) {
			continue
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(m.Object.GroupVersionKind())
		err := c.unguarded.Get(ctx, client.ObjectKeyFromObject(m.Object), live)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s %s, to take back what it grants to the namespace %s: %w", m.Object.GetKind(), m.Object.GetName(), namespace, err)
		}
		if !o.ours(live) || !grantsTo(live, namespace) {
			continue
		}
		o.recorder.Warningf("GrantWithdrawn", "%s %s is removed: what it grants is for the namespace %s, which is not the driver's any more",
			live.GetKind(), live.GetName(), namespace)
		if err := o.remove(ctx, c.unguarded, live); err != nil {
			return err
		}
	}
	return nil
}

// grantsTo tells whether an object gives something to a namespace.
func grantsTo(object *unstructured.Unstructured, namespace string) bool {
	secret, _, _ := unstructured.NestedString(object.Object, "spec", "secretRef", "namespace")
	return secret == namespace ||
		slices.ContainsFunc(drivers.AccountsIn(object), func(a drivers.Account) bool { return a.Namespace == namespace })
}

// newNamespaceController tells in a condition of further drivers, which only a person can remove: of two drivers on a
// node only one can serve volumes. It knows them by what nobody but administrators can write. It also ends the
// cycle when the ClusterCSIDriver names another namespace.
func (o *operator) newNamespaceController(c *clients) factory.Controller {
	var decision placement.Decision
	var decided time.Time
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		custom, err := c.customResource.GetObjectMeta()
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if !samePlace(custom.Annotations, c.place.annotations()) {
			c.restart()
			return nil
		}
		if o.clock.Since(decided) >= locateEvery { // The ClusterCSIDriver changes more often.
			if decision, err = o.locate(ctx, c); err != nil {
				return err
			}
			decided = o.clock.Now()
		}
		if decision.Refusal != nil && !c.place.lost {
			c.restart()
			return nil
		}
		var others []string
		for _, other := range decision.Others {
			others = append(others, other.String())
		}
		for _, finalizer := range custom.Finalizers {
			if slices.Contains(o.driver.History.Finalizers, finalizer) {
				others = append(others, fmt.Sprintf("ClusterCSIDriver %s has the finalizer %s", custom.Name, finalizer))
			}
		}
		if len(others) == 0 {
			return o.reportNamespace(ctx, c, operatorv1.ConditionFalse, "AsExpected", "")
		}
		return o.reportNamespace(ctx, c, operatorv1.ConditionTrue, "SeveralDrivers", fmt.Sprintf(
			"the driver is in namespace %s, but there are traces of another operator's driver: %s. "+
				"Only one can serve volumes on a node: remove the other one, its operator, and these traces", c.place.namespace, strings.Join(others, "; ")))
	}
	return factory.New().
		WithInformers(c.customResource.Informer()).
		WithSync(sync).
		ResyncEvery(locateEvery).
		ToController(o.driver.ConditionPrefix+"DriverNamespaceController", o.recorder)
}

// annotations are those that tell the place.
func (p place) annotations() map[string]string {
	return map[string]string{placement.NamespaceAnnotation: p.namespace, placement.NamespaceUIDAnnotation: string(p.uid)}
}

// namespaceCondition is the type of the condition that tells what is wrong with where the driver is.
func (o *operator) namespaceCondition() string {
	return o.driver.ConditionPrefix + "DriverNamespace" + operatorv1.OperatorStatusTypeDegraded
}

// reportNamespace writes that condition.
func (o *operator) reportNamespace(ctx context.Context, c *clients, degraded operatorv1.ConditionStatus, reason, message string) error {
	err := c.customResource.ApplyOperatorStatus(ctx, o.driver.ConditionPrefix+"DriverNamespace", applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(o.namespaceCondition()).
			WithStatus(degraded).WithReason(reason).WithMessage(message)))
	if apierrors.IsNotFound(err) {
		return nil // the ClusterCSIDriver is gone, and this controller about to end
	}
	return err
}
