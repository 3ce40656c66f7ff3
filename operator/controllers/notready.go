package controllers

import (
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/rollout"
)

// nodePods makes the rollout of a DaemonSet count as complete once it is complete on all ready nodes. library-go and the DaemonSet
// controller both count the pods of nodes that are NotReady. For library-go, the rollout is then never complete. For the DaemonSet
// controller, these pods are unavailable, and in a small cluster it allows no other pod to be unavailable.
type nodePods struct {
	ctx    context.Context // of the controller; library-go's hooks have none
	nodes  *Nodes
	sets   appslisters.DaemonSetLister
	reader client.Reader

	// complete is the last state in which reading the pods showed that the rollout was complete on all ready nodes.
	complete nodePodsState
	// notCounted are the nodes that the last sync did not count.
	notCounted []string
}

// nodePodsState is the state on which the result of reading the pods depends.
type nodePodsState struct {
	set      rolloutKey
	notReady string
}

type rolloutKey struct {
	uid                           string
	generation                    int64
	desired, updated, unavailable int32
}

// adapt is the hook for the desired DaemonSet.
func (n *nodePods) adapt(_ *operatorv1.OperatorSpec, desired *appsv1.DaemonSet) error {
	n.notCounted = nil
	notReady, err := n.nodes.NotReady(desired.Spec.Template.Spec.NodeSelector)
	if err != nil || len(notReady) == 0 {
		return err
	}
	live, err := n.sets.DaemonSets(desired.Namespace).Get(desired.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if s := live.Status; s.UpdatedNumberScheduled < s.DesiredNumberScheduled || s.NumberUnavailable > 0 {
		n.notCounted = notReady
	}
	left, err := n.left(live, notReady)
	if err != nil {
		return err
	}
	return allowUpdate(desired, live, len(notReady), left)
}

// left returns the rest of the rollout on ready nodes; nil if the status of the DaemonSet is not about its current
// generation. It reads the pods only if the status is not sufficient.
func (n *nodePods) left(live *appsv1.DaemonSet, notReady []string) (*rollout.Left, error) {
	s := live.Status
	if s.ObservedGeneration != live.Generation {
		return nil, nil
	}
	left := &rollout.Left{Outdated: int(s.DesiredNumberScheduled - s.UpdatedNumberScheduled), Unavailable: int(s.NumberUnavailable)}
	now := nodePodsState{rolloutKey{string(live.UID), live.Generation, s.DesiredNumberScheduled, s.UpdatedNumberScheduled, s.NumberUnavailable}, strings.Join(notReady, ",")}
	switch {
	case left.Outdated > len(notReady):
		left.Outdated -= len(notReady)
		return left, nil
	case left.Outdated == 0 && (left.Unavailable == 0 || rollout.IsStable(live)):
		return &rollout.Left{}, nil
	case left.Outdated == 0 && left.Unavailable > len(notReady):
		left.Unavailable -= len(notReady)
		return left, nil
	case n.complete == now:
		return &rollout.Left{}, nil
	}
	read, err := rollout.Observe(n.ctx, n.reader, live, sets.New(notReady...))
	if err == nil && read == (rollout.Left{}) {
		n.complete = now
	}
	return &read, err
}

// allowUpdate makes it possible to update a DaemonSet while some nodes are NotReady. As long as a pod on a ready node
// is outdated, it allows one more unavailable pod for each node that is NotReady. When nothing is left, and the
// DaemonSet is as in its definition again, it records that the rollout is complete. It changes nothing while left is
// nil.
func allowUpdate(desired, live *appsv1.DaemonSet, notReady int, left *rollout.Left) error {
	rolling, now := desired.Spec.UpdateStrategy.RollingUpdate, live.Spec.UpdateStrategy.RollingUpdate
	rolls := rolling != nil && rolling.MaxUnavailable != nil && now != nil && now.MaxUnavailable != nil
	switch {
	case left == nil && rolls:
		rolling.MaxUnavailable = now.MaxUnavailable
	case left == nil:
	case left.Outdated > 0 && rolls:
		allowed, err := addUnavailable(*rolling.MaxUnavailable, int(live.Status.DesiredNumberScheduled), notReady)
		if err != nil {
			return fmt.Errorf("spec.updateStrategy.rollingUpdate.maxUnavailable of DaemonSet %s/%s: %w", desired.Namespace, desired.Name, err)
		}
		rolling.MaxUnavailable = &allowed
	case *left == rollout.Left{} && (!rolls || *rolling.MaxUnavailable == *now.MaxUnavailable):
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, rollout.StableGeneration, fmt.Sprint(live.Generation))
	}
	return nil
}

// addUnavailable returns how many pods may be unavailable: the allowed share of the desired pods, at least one, plus the number more.
func addUnavailable(allowed intstr.IntOrString, desired, more int) (intstr.IntOrString, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(&allowed, desired, true)
	if err != nil {
		return intstr.IntOrString{}, err
	}
	return intstr.FromInt32(int32(max(n, 1) + more)), nil
}

// A namingClient extends the condition that says how the rollout progresses: it adds the names of the nodes that are not counted.
type namingClient struct {
	v1helpers.OperatorClientWithFinalizers
	conditionType string
	pods          *nodePods
}

// ApplyOperatorStatus is called after the hook, in the same sync.
func (c namingClient) ApplyOperatorStatus(ctx context.Context, controller string, status *applyoperatorv1.OperatorStatusApplyConfiguration) error {
	for i := range status.Conditions {
		if condition := &status.Conditions[i]; *condition.Type == c.conditionType {
			condition.Message = new(ptr.Deref(condition.Message, "") + describeNotReady(c.pods.notCounted))
		}
	}
	return c.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, controller, status)
}

func describeNotReady(notReady []string) string {
	if len(notReady) == 0 {
		return ""
	}
	return "; not counting the pods on nodes that are NotReady: " + rollout.Names(notReady)
}
