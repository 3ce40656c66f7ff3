package subscription

import (
	"context"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/installplan"
)

// Execute performs the write of a step.
func (s *state) Execute(ctx context.Context, c client.Client, step migrate.StepName) error {
	switch step {
	case RequireApproval:
		return s.patchSubscription(ctx, c, func(spec *v1alpha1.SubscriptionSpec) { spec.InstallPlanApproval = v1alpha1.ApprovalManual })
	case SwitchSource:
		return s.switchSource(ctx, c)
	case RemoveOperator:
		return s.removeOperator(ctx, c)
	case RecreateSubscription:
		return s.recreate(ctx, c)
	case Approve:
		return s.approve(ctx, c)
	case RestoreApproval:
		return s.patchSubscription(ctx, c, s.restoreApproval)
	case DiscardInstallPlan:
		return s.discard(ctx, c)
	case CreateDriver:
		return s.createDriver(ctx, c)
	case RestoreSource:
		return s.patchSubscription(ctx, c, s.plan.From.applyTo, s.restoreApproval)
	case AwaitResolver:
		return nil // the engine has recorded the time of the step in the journal, and nothing else is needed
	case DeleteInstallPlan:
		idle := s.idleInstallPlan()
		return c.Delete(ctx, idle, unchanged(idle))
	case ResetStatus:
		return s.patchStatus(ctx, c, installplan.Reset)
	case ResolveAgain:
		return s.patchStatus(ctx, c, func(*v1alpha1.Subscription) {})
	}
	return fmt.Errorf("step %q writes nothing", step)
}

// patchSubscription changes the spec of the Subscription, unless it has changed since it was observed.
func (s *state) patchSubscription(ctx context.Context, c client.Client, changes ...func(*v1alpha1.SubscriptionSpec)) error {
	changed := s.subscription.DeepCopy()
	for _, change := range changes {
		change(changed.Spec)
	}
	return c.Patch(ctx, changed, client.MergeFromWithOptions(s.subscription, client.MergeFromWithOptimisticLock{}))
}

func (s *state) restoreApproval(spec *v1alpha1.SubscriptionSpec) {
	spec.InstallPlanApproval = v1alpha1.Approval(s.plan.Approval)
}

// approvalDelay is the time that OLM gets to observe that it has to ask for approval. OLM reads the approval before the version, so of two
// changes in quick succession it may see only the second. The status does not show which changes OLM has seen.
const approvalDelay = 3 * time.Second

func (s *state) switchSource(ctx context.Context, c client.Client) error {
	if s.plan.Strategy == Update {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(approvalDelay):
		}
	}
	return s.patchSubscription(ctx, c, s.plan.To.applyTo)
}

// removeOperator deletes the Subscription and, once that is gone, the ClusterServiceVersion, which is how an operator is uninstalled with
// OLM. The CustomResourceDefinitions stay. If OLM installs the ClusterServiceVersion again, it is deleted again.
func (s *state) removeOperator(ctx context.Context, c client.Client) error {
	if s.subscription != nil && s.subscription.UID == s.plan.Subject.UID {
		if err := s.keepMetadata(ctx, c); err != nil {
			return err
		}
		return c.Delete(ctx, s.subscription, unchanged(s.subscription))
	}
	installed := s.csv(s.plan.Installed)
	return c.Delete(ctx, installed, client.Preconditions{UID: &installed.UID})
}

// unchanged returns the precondition that an object has not changed since it was observed.
func unchanged(object client.Object) client.Preconditions {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

func (s *state) approve(ctx context.Context, c client.Client) error {
	installPlan := s.targetInstallPlan()
	changed := installPlan.DeepCopy()
	changed.Spec.Approved = true
	return c.Patch(ctx, changed, client.MergeFromWithOptions(installPlan, client.MergeFromWithOptimisticLock{}))
}

// patchStatus changes the status of the Subscription, which makes OLM resolve again.
func (s *state) patchStatus(ctx context.Context, c client.Client, change func(*v1alpha1.Subscription)) error {
	changed := s.subscription.DeepCopy()
	change(changed)
	changed.Status.LastUpdated = metav1.Now()
	return c.Status().Patch(ctx, changed, client.MergeFromWithOptions(s.subscription, client.MergeFromWithOptimisticLock{}))
}

func (s *state) createDriver(ctx context.Context, c client.Client) error {
	return c.Create(ctx, &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: s.plan.Driver.Name},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	})
}
