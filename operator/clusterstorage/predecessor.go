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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// How often the operator checks whether OLM's operator has ended, and whether an administrator has decided. No watch
// shows either.
const (
	endInterval    = time.Second
	settleInterval = 10 * time.Second
)

// A hold says why a driver's operator is not started yet. A driver that ran before keeps running.
type hold struct {
	reason, message string
	progresses      bool          // it ends by itself
	degraded        bool          // only a person can end it
	after           time.Duration // until it may have ended
}

// A handOverState is the known state of a driver's hand-over from OLM.
type handOverState struct {
	// accounts are the service accounts of the operators that OLM runs or ran, with the UIDs of their namespaces. Each
	// Deployment has the name of its account.
	accounts map[client.ObjectKey]types.UID
	// since is when an earlier process began to wait for these operators; zero if this process was the first.
	since metav1.Time
	last  predecessor.Handover
	due   time.Time // when to go on
	over  bool      // the driver has its new operator, and no hand-over is in progress
}

// A succession is a sync's result about OLM's operators of the driver.
type succession struct {
	blocked bool  // nothing of the driver's operator may be started
	held    *hold // why it is blocked; nil if it is not held
	// late says that OLM runs an operator of the driver beside this one, and stuck says why it is not removed. Both are
	// "" otherwise.
	late, stuck string
	// former are the Deployments of the operators that have to end first.
	former []client.ObjectKey
	after  time.Duration // until the next sync
}

// succeed takes the next step of a hand-over, and returns what holds the driver's operator. Two operators would revert each other's
// writes, so nothing is started while OLM runs one of them, listed in found. An operator that has started is never held: OLM's operator
// came later and should not be there. OLM's operator is not removed either, because whoever installed it would install it again.
func (c *controller) succeed(ctx context.Context, d drivers.Driver, o observed, found []predecessor.Operator, old []oldCustomResource) (succession, error) {
	if len(d.Predecessors()) == 0 {
		return succession{after: resync}, nil
	}
	started := c.operators[d.Name] != nil || predecessor.Succeeded(d, o.bindings)
	known := c.known(d, o)
	if !started {
		for _, operator := range found {
			uid, _, err := c.namespace(ctx, operator.Namespace)
			if err != nil {
				return succession{blocked: true, after: resync}, err
			}
			known.accounts[client.ObjectKey{Namespace: operator.Namespace, Name: operator.Account}] = uid
		}
	}
	err := c.goOn(ctx, d, known, len(found) > 0, started)
	s := succession{after: resync}
	if known.last.Stage != predecessor.None {
		s.after = known.due.Sub(c.process.Clock.Now())
	}
	switch {
	case started && known.last.Stage == predecessor.Stuck:
		s.stuck = known.last.Message
	case started && len(found) > 0 && err == nil && known.last.Stage == predecessor.None:
		s.late = fmt.Sprintf("the Operator Lifecycle Manager (OLM) runs an operator of the driver, too, for %s: two operators revert each other's changes. "+
			"Find out who has installed it, and remove it: see `%s`", found[0], escape.Command("berth adopt plan %s", d.Name))
	}
	if started {
		return s, err
	}
	if err == nil {
		s.held, err = c.hold(ctx, d, known, found, old)
	}
	if err != nil && len(known.accounts) > 0 { // the driver runs in any case
		s.held = &hold{reason: predecessor.Reason, degraded: true, message: err.Error()}
	}
	s.blocked = s.held != nil || err != nil
	if s.held != nil {
		s.after = min(s.after, s.held.after)
		s.former = slices.SortedFunc(maps.Keys(known.accounts), func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	}
	return s, err
}

// known returns the known state of a hand-over. After a restart, the operator reads from the ClusterOperator which operators it waited
// for.
func (c *controller) known(d drivers.Driver, o observed) *handOverState {
	if known := c.handOvers[d.Name]; known != nil {
		return known
	}
	known := &handOverState{accounts: map[client.ObjectKey]types.UID{}}
	c.handOvers[d.Name] = known
	if o.clusterOperator == nil {
		return known
	}
	for _, related := range o.clusterOperator.Status.RelatedObjects {
		if related.Group == appsv1.GroupName && related.Resource == "deployments" && predecessor.IsOperator(d, related.Name) {
			known.accounts[client.ObjectKey{Namespace: related.Namespace, Name: related.Name}] = ""
		}
	}
	if waits := v1helpers.FindOperatorCondition(o.storage.Status.Conditions, predecessor.Condition(d)); waits != nil && slices.Contains(holds, waits.Reason) {
		known.since = waits.LastTransitionTime
	}
	return known
}

// namespace returns the UID of a namespace, and when it was created. The UID is empty if there is no such namespace.
func (c *controller) namespace(ctx context.Context, name string) (types.UID, metav1.Time, error) {
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	if err := c.cluster.objects.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil && !apierrors.IsNotFound(err) {
		return "", metav1.Time{}, fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	return namespace.UID, namespace.CreationTimestamp, nil
}

// isGone reports whether the namespace of OLM's operator was deleted, and the operator with it. Any user can create a
// new namespace of the same name.
func (s *handOverState) isGone(key client.ObjectKey, uid types.UID, created metav1.Time) bool {
	switch was := s.accounts[key]; {
	case uid == "":
		return true
	case was != "":
		return was != uid
	}
	return !s.since.IsZero() && created.After(s.since.Time)
}

// A hand-over that waits is observed again after pauseFactor times the duration of the last observation. An observation reads all
// Subscriptions of the cluster. Any user can create very many of them, and meanwhile nothing is done for any driver.
const pauseFactor = 10

// goOn takes the next step of a hand-over if it is due.
func (c *controller) goOn(ctx context.Context, d drivers.Driver, known *handOverState, found, started bool) error {
	now := c.process.Clock.Now()
	if c.handOver == nil || known.over || now.Before(known.due) {
		return nil
	}
	next, err := c.handOver(ctx, d, found && !started)
	ended := c.process.Clock.Now()
	if err != nil {
		return fmt.Errorf("handing driver %s over from OLM: %w", d.CSIName, err)
	}
	if next != known.last && next.Stage != predecessor.None {
		klog.InfoS("Handing a driver over from OLM", "driver", d.CSIName, "stage", next.Stage, "message", next.Message)
	}
	known.last, known.over = next, started && next.Stage == predecessor.None
	switch {
	case next.Again || next.Stage == predecessor.None:
		known.due = now
	case next.Stage == predecessor.Removing || next.Stage == predecessor.Removed:
		known.due = now.Add(endInterval)
	default:
		known.due = ended.Add(max(settleInterval, pauseFactor*ended.Sub(now)))
	}
	return nil
}

// hold returns why a driver's operator that has never started is not started yet, or nil if it can be started.
func (c *controller) hold(ctx context.Context, d drivers.Driver, known *handOverState, found []predecessor.Operator, old []oldCustomResource) (*hold, error) {
	what := "a hand-over from the Operator Lifecycle Manager (OLM) is in progress"
	if len(found) > 0 {
		what = fmt.Sprintf("the Operator Lifecycle Manager (OLM) runs an operator of the driver, for %s", found[0])
	}
	const not = ". The cluster storage operator does not take the driver over: "
	switch next := known.last; {
	case next.Stage == predecessor.Removing:
		return &hold{reason: predecessor.Reason, progresses: true, after: endInterval, message: fmt.Sprintf("%s. The cluster storage operator takes the driver over: %s. See `%s`", what, next.Message, escape.Command("berth adopt status %s", d.Name))}, nil
	case next.Stage == predecessor.Declined:
		return &hold{reason: predecessor.Reason, after: settleInterval, message: what + not + next.Message}, nil
	case next.Stage == predecessor.Refused:
		return &hold{reason: predecessor.ReasonRefused, degraded: true, after: settleInterval, message: what + not + next.Message}, nil
	case next.Stage == predecessor.Stuck:
		return &hold{reason: predecessor.ReasonStuck, degraded: true, after: settleInterval, message: what + ". It does not go on: " + next.Message}, nil
	case len(found) > 0:
		return &hold{reason: predecessor.Reason, after: settleInterval, message: fmt.Sprintf("%s. The cluster storage operator starts its own operator once OLM's operator is gone: see `%s`", what, escape.Command("berth adopt plan %s", d.Name))}, nil
	}
	left, err := c.leftOf(ctx, d, known)
	if err != nil {
		return nil, err
	}
	if left != "" {
		return &hold{reason: ending, progresses: true, after: endInterval, message: "waiting until " + left + ", which belongs to the driver's operator that OLM ran, is gone"}, nil
	}
	for _, r := range old {
		if why := r.Unsettled(); why != "" {
			return &hold{reason: unsettled, degraded: true, after: settleInterval, message: fmt.Sprintf("%[1]s configured an earlier operator of the driver, and %[2]s. "+
				"Only you can decide what becomes of the driver: create ClusterCSIDriver %[3]s with the spec.managementState that you want, or set it to Managed in %[1]s",
				r.of, why, d.CSIName)}, nil
		}
	}
	return nil, nil
}

// leftOf returns what is left of OLM's operators; "" if nothing.
func (c *controller) leftOf(ctx context.Context, d drivers.Driver, known *handOverState) (string, error) {
	for _, p := range d.Predecessors() {
		// OLM may have run its operator in the same namespace and under the same name. The garbage collector would
		// delete objects that this operator takes over.
		if left, err := c.ownedByOLM(ctx, client.ObjectKey{Namespace: drivers.ClusterStorageNamespace, Name: p.Operator}); err != nil || left != "" {
			return left, err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(known.accounts), func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) }) {
		uid, created, err := c.namespace(ctx, key.Namespace)
		if err != nil {
			return "", err
		}
		if known.isGone(key, uid, created) {
			continue
		}
		deployment := &metav1.PartialObjectMetadata{}
		deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		if err := c.cluster.objects.Get(ctx, key, deployment); err == nil {
			if key == (client.ObjectKey{Namespace: drivers.ClusterStorageNamespace, Name: d.Operator.Name}) {
				continue // OLM does not own it, so it is this operator's
			}
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

// ownedByOLM returns a description of the Deployment or service account with this name if OLM owns it, otherwise "".
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

// takesOver reports whether a driver is being taken over from another operator. The conditions of Storage show that
// from the first sync until the driver's operator has reached this version.
func takesOver(s driverState, o observed, version string) bool {
	if s.held != nil || s.foreign || s.arrived(version) {
		return false
	}
	before := v1helpers.FindOperatorCondition(o.storage.Status.Conditions, predecessor.Condition(s.driver))
	return s.first || before != nil && (before.Reason == takingOver || slices.Contains(holds, before.Reason))
}

// Reasons of the condition Available of a driver that OLM's operator managed.
const (
	ending     = "OperatorOfOLMEnding"
	unsettled  = "OldResourceUnsettled"
	takingOver = "TakingOver"
)

// holds are the reasons for which the driver's operator is held.
var holds = []string{predecessor.Reason, predecessor.ReasonRefused, predecessor.ReasonStuck, ending, unsettled}

// stayAvailable makes the conditions of a driver that is being taken over say that the driver is available. The driver serves volumes as
// before, even if its new operator does not report that yet.
func stayAvailable(d drivers.Driver, conditions []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	message := "the driver is being taken over from an earlier operator, and serves volumes meanwhile"
	for i := range conditions {
		if c := &conditions[i]; strings.HasSuffix(c.Type, available) && c.Status != operatorv1.ConditionTrue {
			c.Status, c.Reason, c.Message = operatorv1.ConditionTrue, takingOver, message+": "+c.Message
		}
	}
	return append(conditions, operatorv1.OperatorCondition{Type: predecessor.Condition(d), Status: operatorv1.ConditionTrue, Reason: takingOver, Message: message})
}
