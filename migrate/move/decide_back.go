package move

import (
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/installplan"
)

// leaveV1 is complete when OLM v1 has no objects of the operator any more. The objects that must stay are kept.
func (s *state) leaveV1() (migrate.Decision, error) {
	e := s.extension
	switch {
	case e == nil:
	case e.GetDeletionTimestamp() == nil && !controllerutil.ContainsFinalizer(e, moveFinalizer):
		return migrate.Execute(AddExtensionFinalizer)
	case e.GetDeletionTimestamp() == nil:
		return migrate.Execute(DeleteExtension)
	case isOrphaning(e):
		return migrate.Wait(DeleteExtension, "the garbage collector to orphan what ClusterExtension %s owns", e.GetName())
	case len(othersOf(e)) > 0:
		return migrate.Wait(DeleteExtension, "OLM v1 to notice that ClusterExtension %s is deleted, and to remove its finalizers %s", e.GetName(), strings.Join(othersOf(e), ", "))
	}
	if len(s.objectSets) > 0 {
		if set := s.objectSets[0]; set.DeletionTimestamp != nil {
			return migrate.WaitGone(DeleteObjectSets, "ClusterObjectSet "+set.Name, &set)
		}
		return migrate.Execute(DeleteObjectSets)
	}
	if e == nil {
		return migrate.NoStep()
	}
	if next, err := s.await(AwaitV1, "OLM v1 to finish applying", DeleteExtension, DeleteObjectSets); next.Step != "" {
		return next, err
	}
	switch {
	case s.withMarks() != nil:
		return migrate.Execute(UnmarkObjects)
	case s.ownedMade() != nil:
		return migrate.Execute(KeepObjects)
	case controllerutil.ContainsFinalizer(e, moveFinalizer):
		return migrate.Execute(RemoveExtensionFinalizer)
	}
	return migrate.Wait(RemoveExtensionFinalizer, "ClusterExtension %s to be gone", e.GetName())
}

// unmarkAll is complete when no object has anything of OLM v1. A move marks objects before it creates the ClusterExtension.
func (s *state) unmarkAll() (migrate.Decision, error) {
	if s.withMarks() != nil {
		return migrate.Execute(UnmarkObjects)
	}
	return migrate.NoStep()
}

// withMarks returns an object that has something of OLM v1, or nil.
func (s *state) withMarks() *metav1.PartialObjectMetadata {
	for _, t := range s.taken {
		if t.live != nil && hasMarks(t.live) && !s.isOfAnother(t.live) {
			return t.live
		}
	}
	return nil
}

// isOfAnother reports whether an object belongs to another ClusterExtension, to another release of Helm, or to another move.
func (s *state) isOfAnother(o *metav1.PartialObjectMetadata) bool {
	for key, value := range labelsOf(s.plan.Subject.Name) {
		if is := o.Labels[key]; is != "" && is != value {
			return true
		}
	}
	if by := o.Annotations[movedAnnotation]; by != "" && by != string(s.plan.Subscription.UID) {
		return true
	}
	owner := o.Annotations[helmNameAnnotation]
	return owner != "" && (owner != s.plan.Subject.Name || o.Annotations[helmNamespaceAnnotation] != s.plan.Namespace)
}

// ownedMade returns an object that OLM v1 has made and that would be deleted with the ClusterExtension, or nil. The object stays until OLM
// v0 has made its own.
func (s *state) ownedMade() *metav1.PartialObjectMetadata {
	at := slices.IndexFunc(s.made, isOwnedByV1)
	if at < 0 {
		return nil
	}
	return &s.made[at]
}

// forget is complete when OLM v1's records and webhooks are gone: these webhooks do not trust the certificate that OLM v0 makes.
func (s *state) forget() (migrate.Decision, error) {
	switch {
	case len(s.remembered) > 0 && s.remembered[0].DeletionTimestamp != nil:
		return migrate.WaitGone(DeleteRemembered, named(secretKind.Kind, s.remembered[0].Namespace, s.remembered[0].Name), &s.remembered[0])
	case len(s.remembered) > 0:
		return migrate.Execute(DeleteRemembered)
	case s.toDrop() != nil && isWebhook(*s.toDrop()):
		return s.dropMade()
	}
	return migrate.NoStep()
}

func isWebhook(o metav1.PartialObjectMetadata) bool {
	return strings.HasSuffix(o.Kind, "WebhookConfiguration")
}

// subscribe is complete when OLM v0 has installed the version, and the Subscription is as it was before the move to OLM v1.
func (s *state) subscribe() (migrate.Decision, error) {
	own := s.again()
	switch {
	case own == nil:
		return migrate.Execute(CreateSubscription)
	case own.DeletionTimestamp != nil: // somebody has deleted it
		return migrate.WaitGone(CreateSubscription, "Subscription "+own.Namespace+"/"+own.Name, own)
	}
	if next, err := s.install(own); err != nil || next.Step != "" {
		return next, err
	}
	switch {
	case !s.isAsBefore(own):
		return migrate.Execute(RestoreApproval)
	case s.leftPending(own) != nil:
		return migrate.Execute(Approve)
	}
	return migrate.NoStep()
}

// install is complete when OLM v0 has installed the version for a Subscription, or has updated it since.
func (s *state) install(own *v1alpha1.Subscription) (migrate.Decision, error) {
	v, name := s.version, s.plan.Version.Name
	installPlan := s.current(own)
	phase := v1alpha1.InstallPlanPhaseNone
	if installPlan != nil && slices.Contains(installPlan.Spec.ClusterServiceVersionNames, name) {
		phase = installPlan.Status.Phase
	}
	switch installed := own.Status.InstalledCSV; {
	case installed != "" && installed != name:
		return migrate.NoStep()
	case phase == v1alpha1.InstallPlanPhaseFailed:
		return migrate.Decision{}, fmt.Errorf("InstallPlan %s/%s, for %s, has failed: %s; remove the cause, then %s",
			own.Namespace, installPlan.Name, name, oneLine(installPlan.Status.Message), s.beginAgain(own))
	case v == nil && s.waitsInVain(own):
		return migrate.Execute(ResetStatus)
	case v == nil && phase == v1alpha1.InstallPlanPhaseComplete: // OLM v0 does not install it a second time
		return migrate.Decision{}, fmt.Errorf("ClusterServiceVersion %s/%s is gone, although InstallPlan %s has installed it: find out who has deleted it, then %s",
			own.Namespace, name, installPlan.Name, s.beginAgain(own))
	case v == nil: // also if OLM v0 has copied the status of a deleted Subscription, which says that the version is installed
		return s.approve(own)
	case v.Status.Phase != v1alpha1.CSVPhaseSucceeded:
		return migrate.Wait(AwaitVersion, "ClusterServiceVersion %s to succeed: its phase is %q, %s", name, v.Status.Phase, oneLine(v.Status.Message))
	case installed == "":
		return migrate.Wait(AwaitVersion, "OLM v0 to write into the status of Subscription %s that %s is installed", own.Name, name)
	case phase == v1alpha1.InstallPlanPhaseInstalling: // the version may succeed before the last objects exist, as it does not need them
		return migrate.Wait(AwaitVersion, "OLM v0 to carry out InstallPlan %s", installPlan.Name)
	}
	if waits := rollingOut(s.deploymentsOf(v)); waits != "" {
		return migrate.Wait(AwaitVersion, "%s", waits)
	}
	return migrate.NoStep()
}

// beginAgain says how to make OLM v0 install the version from the start.
func (s *state) beginAgain(own *v1alpha1.Subscription) string {
	return fmt.Sprintf("have OLM v0 begin again with `%s && %s`, and run `%s`",
		escape.Command("oc -n %s delete subscription %s", own.Namespace, own.Name),
		escape.Command("oc -n %s delete csv %s --cascade=orphan --ignore-not-found", own.Namespace, s.plan.Version.Name), s.journal.Command(s.plan, "resume"))
}

// waitsInVain reports whether OLM v0 waits forever for an InstallPlan that is gone. That happens to a Subscription that is created soon
// after another of its name was deleted: if OLM v0 was resolving for the other, it writes the other's status into the new one.
func (s *state) waitsInVain(own *v1alpha1.Subscription) bool {
	existing := make([]*v1alpha1.InstallPlan, len(s.installPlans))
	for i := range s.installPlans {
		existing[i] = &s.installPlans[i]
	}
	_, unnoticed := installplan.Missing(own, existing)
	return unnoticed
}

// oneLine returns a message without line breaks.
func oneLine(message string) string {
	return strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r == '\n' }), "; ")
}

// isAsBefore reports whether the Subscription is as it was before the move to OLM v1.
func (s *state) isAsBefore(own *v1alpha1.Subscription) bool {
	return equality.Semantic.DeepEqual(*own.Spec, s.plan.Subscription.Spec)
}

// approve decides about the InstallPlan, which must be for exactly the version.
func (s *state) approve(own *v1alpha1.Subscription) (migrate.Decision, error) {
	p := s.plan
	plan := s.current(own)
	if plan == nil {
		why := ""
		for _, c := range own.Status.Conditions {
			if c.Status == "True" && c.Message != "" {
				why = ": " + oneLine(c.Message)
			}
		}
		return migrate.Wait(Approve, "OLM v0 to make an InstallPlan for %s%s", p.Version.Name, why)
	}
	if names := plan.Spec.ClusterServiceVersionNames; !slices.Equal(names, []string{p.Version.Name}) {
		return migrate.Decision{}, fmt.Errorf("InstallPlan %s/%s would install %s, want exactly %s: if another Subscription of the namespace asks for the rest, delete that and the InstallPlan, and OLM v0 makes another one; or approve it yourself if that is all right",
			plan.Namespace, plan.Name, strings.Join(names, ", "), p.Version.Name)
	}
	switch {
	case !plan.Spec.Approved && plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval: // OLM v0 has not finished writing it
		return migrate.Wait(Approve, "OLM v0 to ask for approval of InstallPlan %s", plan.Name)
	case !plan.Spec.Approved:
		return migrate.Execute(Approve)
	}
	return migrate.Wait(AwaitVersion, "OLM v0 to carry out InstallPlan %s", plan.Name)
}

// current returns the InstallPlan that a Subscription refers to, or nil.
func (s *state) current(own *v1alpha1.Subscription) *v1alpha1.InstallPlan {
	ref := own.Status.InstallPlanRef
	if ref == nil {
		return nil
	}
	at := slices.IndexFunc(s.installPlans, func(p v1alpha1.InstallPlan) bool { return p.UID == ref.UID })
	if at < 0 {
		return nil
	}
	return &s.installPlans[at]
}

// leftPending returns an InstallPlan of a later version that waits for approval only because the Subscription asked for approval during
// the move, or nil. OLM v0 would have approved it itself otherwise, and now does nothing else until somebody approves it.
func (s *state) leftPending(own *v1alpha1.Subscription) *v1alpha1.InstallPlan {
	plan := s.current(own)
	asks := s.othersAsk || own.Spec.InstallPlanApproval == v1alpha1.ApprovalManual
	if asks || plan == nil || plan.Spec.Approved || plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		return nil
	}
	return plan
}

// dropMade is complete when the objects of OLM v1 that OLM v0 has replaced by its own are gone.
func (s *state) dropMade() (migrate.Decision, error) {
	switch o := s.toDrop(); {
	case o == nil:
		return migrate.NoStep()
	case o.DeletionTimestamp != nil:
		return migrate.WaitGone(DeleteMade, named(o.Kind, o.Namespace, o.Name), o)
	}
	return migrate.Execute(DeleteMade)
}

// toDrop returns an object of OLM v1 that OLM v0 has replaced by its own, or nil. OLM v1 makes nothing once there is a Subscription. A
// newer object is not from OLM v1 and only has its labels, which anybody may set on objects in the namespace, again and again.
func (s *state) toDrop() *metav1.PartialObjectMetadata {
	own := s.again()
	at := slices.IndexFunc(s.made, func(o metav1.PartialObjectMetadata) bool {
		return !isHeld(o) && (own == nil || !own.CreationTimestamp.Before(&o.CreationTimestamp))
	})
	if at < 0 {
		return nil
	}
	return &s.made[at]
}
