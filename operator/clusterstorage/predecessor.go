package clusterstorage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
)

// How often the operator looks whether an operator that OLM ran has ended, and whether a person has decided: no watch shows
// either.
const (
	endInterval    = time.Second
	settleInterval = 10 * time.Second
)

// A hold is why the operator of a driver is not started yet. The driver runs meanwhile, if it did before.
type hold struct {
	reason, message string
	ending          bool // it is over soon
	unsettled       bool // only a person can end it
}

// next returns the time until the next sync. Nil holds nothing.
func (h *hold) next(otherwise time.Duration) time.Duration {
	switch {
	case h == nil:
		return otherwise
	case h.ending:
		return min(otherwise, endInterval)
	case h.unsettled:
		return min(otherwise, settleInterval)
	}
	return otherwise
}

// hold returns what holds a driver's operator, or nil. Two operators would revert each other's writes, so nothing is started
// while OLM runs one. An operator that was started before is never held: that of OLM came later, and is one too many.
func (c *controller) hold(ctx context.Context, d drivers.Driver, o observed, old []oldCustomResource) (*hold, error) {
	if len(d.Predecessors()) == 0 || c.operators[d.Name] != nil || predecessor.Succeeded(d, o.bindings) {
		return nil, nil
	}
	if found := predecessor.Find(d, o.bindings); len(found) > 0 {
		c.remember(d, found)
		return &hold{reason: predecessor.Reason, message: fmt.Sprintf("the Operator Lifecycle Manager (OLM) runs an operator of the driver, for %s. "+
			"The cluster storage operator starts its own once that one is gone: see `berth adopt plan %s`", found[0], d.Name)}, nil
	}
	left, err := c.leftOf(ctx, d)
	if err != nil {
		return nil, err
	}
	if left != "" {
		return &hold{reason: ending, ending: true, message: "waiting for " + left + " to be gone, of the driver's operator that OLM ran"}, nil
	}
	for _, r := range old {
		if why := r.Unsettled(); why != "" {
			return &hold{reason: unsettled, unsettled: true, message: fmt.Sprintf("%[1]s configured an earlier operator of the driver, and %[2]s. "+
				"Only you can decide what becomes of the driver: create ClusterCSIDriver %[3]s with the spec.managementState that you want, or set that of %[1]s to Managed",
				r.of, why, d.CSIName)}, nil
		}
	}
	return nil, nil
}

// remember notes where OLM runs operators: when it takes their permissions away, their pods may still run.
func (c *controller) remember(d drivers.Driver, found []predecessor.Operator) {
	if c.predecessors[d.Name] == nil {
		c.predecessors[d.Name] = map[client.ObjectKey]bool{}
	}
	for _, operator := range found {
		c.predecessors[d.Name][client.ObjectKey{Namespace: operator.Namespace, Name: operator.Account}] = true
	}
}

// leftOf returns what is left of the operators that OLM ran; "" if nothing.
func (c *controller) leftOf(ctx context.Context, d drivers.Driver) (string, error) {
	for _, p := range d.Predecessors() {
		// OLM may have run it where this operator runs its own, under the same name. The garbage collector would delete what
		// is taken over of it.
		if left, err := c.ownedByOLM(ctx, client.ObjectKey{Namespace: drivers.ClusterStorageNamespace, Name: p.Operator}); err != nil || left != "" {
			return left, err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.predecessors[d.Name]), func(a, b client.ObjectKey) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	}) {
		deployment := &metav1.PartialObjectMetadata{}
		deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		if err := c.cluster.objects.Get(ctx, key, deployment); err == nil {
			return "Deployment " + key.String(), nil
		} else if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("reading Deployment %s: %w", key, err)
		}
		pods, err := c.cluster.kube.CoreV1().Pods(key.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.serviceAccountName", key.Name).String(), Limit: 1})
		if err != nil {
			return "", fmt.Errorf("listing the pods of an operator that OLM ran, in namespace %s: %w", key.Namespace, err)
		}
		if len(pods.Items) > 0 {
			return fmt.Sprintf("pod %s/%s", key.Namespace, pods.Items[0].Name), nil
		}
	}
	return "", nil
}

// ownedByOLM returns the Deployment or the service account of a name if OLM owns it; "" if it does not.
func (c *controller) ownedByOLM(ctx context.Context, key client.ObjectKey) (string, error) {
	for _, kind := range []metav1.TypeMeta{{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}, {APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ServiceAccount"}} {
		object := &metav1.PartialObjectMetadata{TypeMeta: kind}
		if err := c.cluster.objects.Get(ctx, key, object); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return "", fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
		}
		if slices.ContainsFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == predecessor.Version }) {
			return kind.Kind + " " + key.String(), nil
		}
	}
	return "", nil
}

// An oldCustomResource is the object that configured an earlier operator.
type oldCustomResource struct {
	of drivers.CustomResource
	drivers.OldSettings
}

// readOld reads the objects that configured earlier operators of a driver.
func (c *controller) readOld(ctx context.Context, d drivers.Driver) ([]oldCustomResource, error) {
	var found []oldCustomResource
	for _, of := range d.OldCustomResources() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(of.Kind)
		err := c.cluster.objects.Get(ctx, client.ObjectKey{Name: of.Name}, object)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s, which configured an earlier operator: %w", of, err)
		}
		found = append(found, oldCustomResource{of, drivers.ReadOldSettings(object)})
	}
	return found, nil
}

// takesOver reports whether a driver is being taken over from an operator that somebody else ran. From its first sync until the
// driver's operator has arrived, the conditions of Storage say so.
func takesOver(s driverState, o observed, version string) bool {
	if s.held != nil || s.foreign || s.arrived(version) {
		return false
	}
	before := v1helpers.FindOperatorCondition(o.storage.Status.Conditions, predecessor.Condition(s.driver))
	return s.first || before != nil && slices.Contains([]string{predecessor.Reason, ending, unsettled, takingOver}, before.Reason)
}

// The reasons of the condition Available of a driver whose operator was one of OLM.
const (
	ending     = "OperatorOfOLMEnding"
	unsettled  = "OldResourceUnsettled"
	takingOver = "TakingOver"
)

// stayAvailable changes the conditions of a driver that is being taken over: it serves volumes as before, whether or not its
// new operator reports that yet.
func stayAvailable(d drivers.Driver, conditions []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	message := "the driver is being taken over from an earlier operator, and serves volumes meanwhile"
	for i := range conditions {
		if c := &conditions[i]; strings.HasSuffix(c.Type, available) && c.Status != operatorv1.ConditionTrue {
			c.Status, c.Reason, c.Message = operatorv1.ConditionTrue, takingOver, message+": "+c.Message
		}
	}
	return append(conditions, operatorv1.OperatorCondition{Type: predecessor.Condition(d), Status: operatorv1.ConditionTrue, Reason: takingOver, Message: message})
}
