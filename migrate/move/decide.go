package move

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
)

// moveFinalizer keeps an owner as long as it owns objects that must stay.
const moveFinalizer = "berth.dev/move"

// delay is the time that an OLM gets after a deletion to finish its work, including work that it still remembers. Nothing shows whether it
// is still working.
const delay = 15 * time.Second

// stages returns the decision of the first stage that is not complete.
func stages(all ...func() (migrate.Decision, error)) (migrate.Decision, error) {
	for _, stage := range all {
		if next, err := stage(); err != nil || next.Step != "" {
			return next, err
		}
	}
	return migrate.NoStep()
}

// Next decides on the next step.
func (s *state) Next() (migrate.Decision, error) {
	if s.plan.To == ToV0 {
		return s.goBack()
	}
	return stages(s.endVersion, s.takeOver, s.tidy, s.loosen)
}

// goBack is complete when OLM v0 has the operator again.
func (s *state) goBack() (migrate.Decision, error) {
	return stages(s.leaveV1, s.unmarkAll, s.forget, s.endVersion, s.subscribe, s.dropMade)
}

// endVersion is complete when OLM v0 has no objects of the operator, and every object that must stay still exists.
//
// The version is deleted first. OLM v0 does nothing with a version that is being deleted, and cannot install it again as long as the
// finalizer of the move keeps it. If the Subscription were deleted first, OLM v0 would revert the Subscription's settings for the
// Deployment, and restart the operator.
func (s *state) endVersion() (migrate.Decision, error) {
	if s.again() != nil && !s.hasVersionBefore() { // the version belongs to the new Subscription
		return migrate.NoStep()
	}
	if next, err := s.deleteVersion(); next.Step != "" {
		return next, err
	}
	if next, err := s.unsubscribe(); next.Step != "" {
		return next, err
	}
	switch v := s.version; {
	case v == nil:
		return migrate.NoStep()
	case s.ownedBy(v.UID) != nil:
		return migrate.Execute(KeepObjects)
	case controllerutil.ContainsFinalizer(v, moveFinalizer):
		return migrate.Execute(RemoveVersionFinalizer)
	}
	return migrate.Wait(RemoveVersionFinalizer, "ClusterServiceVersion %s to be gone", s.version.Name)
}

// hasVersionBefore reports whether the version is the one from before the move to OLM v1.
func (s *state) hasVersionBefore() bool {
	return s.plan.To == ToV1 && s.version != nil && s.version.UID == s.plan.Version.UID
}

// deleteVersion is complete when OLM v0 does nothing with the version any more.
func (s *state) deleteVersion() (migrate.Decision, error) {
	switch v := s.version; {
	case v == nil:
	case v.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(v, moveFinalizer):
		return migrate.Execute(AddVersionFinalizer)
	case s.labelled() != nil:
		return migrate.Execute(KeepPermissions)
	case s.hasVersionBefore() && s.unnamedAPI() != nil:
		return migrate.Execute(KeepAPIs)
	case v.DeletionTimestamp == nil:
		return migrate.Execute(DeleteVersion)
	case isOrphaning(v):
		return migrate.Wait(DeleteVersion, "the garbage collector to orphan what ClusterServiceVersion %s owns", v.Name)
	case len(othersOf(v)) > 0:
		return migrate.Wait(DeleteVersion, "OLM v0 to notice that ClusterServiceVersion %s is deleted, and to remove its finalizers %s", v.Name, strings.Join(othersOf(v), ", "))
	}
	return migrate.NoStep()
}

// unsubscribe is complete when OLM v0 has no Subscription any more, nor remembers one.
func (s *state) unsubscribe() (migrate.Decision, error) {
	switch own := s.before(); {
	case own != nil && own.DeletionTimestamp != nil:
		return migrate.WaitGone(DeleteSubscription, "Subscription "+own.Namespace+"/"+own.Name, own)
	case own != nil:
		return migrate.Execute(DeleteSubscription)
	}
	if left := s.plansOf(s.plan.Subscription.UID); len(left) > 0 {
		switch p := left[0]; {
		case p.DeletionTimestamp != nil:
			return migrate.WaitGone(DeleteInstallPlans, "InstallPlan "+p.Name, &p)
		case p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling:
			return migrate.Wait(DeleteInstallPlans, "OLM v0 to carry out InstallPlan %s", p.Name)
		}
		return migrate.Execute(DeleteInstallPlans)
	}
	if s.version == nil {
		return migrate.NoStep()
	}
	return s.await(AwaitV0, "OLM v0 to finish work that it remembers", DeleteSubscription, DeleteInstallPlans)
}

// await is complete when the delay has passed since the step was started. The step is started again after each of the steps in since.
func (s *state) await(step migrate.StepName, what string, since ...migrate.StepName) (migrate.Decision, error) {
	if !s.journal.IsOpen() { // somebody else has deleted the object: no step was recorded
		return migrate.NoStep()
	}
	for _, e := range slices.Backward(s.journal.Entries) {
		switch {
		case e.Step == step && e.At.After(s.now): // the clock of an interrupted run was ahead
			return migrate.Execute(step)
		case e.Step == step && s.now.Sub(e.At) < delay:
			return migrate.Wait(step, "%s; it gets %d seconds", what, int(delay.Seconds()))
		case e.Step == step:
			return migrate.NoStep()
		case slices.Contains(since, e.Step) || e.Step == migrate.RecordPlan:
			return migrate.Execute(step)
		}
	}
	return migrate.Execute(step)
}

// unnamedAPI returns an API that does not itself show that it belongs to the operator, or nil.
func (s *state) unnamedAPI() *metav1.PartialObjectMetadata {
	for _, t := range s.taken {
		if t.Kind == definitionKind.Kind && t.live != nil && !s.isNamed(t.live) {
			return t.live
		}
	}
	return nil
}

// isNamed reports whether an API itself shows that it belongs to the operator: by OLM v0's label of the package, by the annotation of this
// move, or by the marks of the ClusterExtension. They can be trusted, as only administrators write APIs.
func (s *state) isNamed(o *metav1.PartialObjectMetadata) bool {
	p := s.plan
	_, component := o.Labels[componentLabel(p.Package, p.Namespace)]
	return component || o.Annotations[movedAnnotation] == string(p.Subscription.UID) || labels.SelectorFromSet(labels.Set(labelsOf(p.Subject.Name))).Matches(labels.Set(o.Labels)) ||
		isMarked(o, p.Subject.Name, p.Namespace, false) || p.Extension.Boxcutter && slices.ContainsFunc(s.objectSets, func(set metav1.PartialObjectMetadata) bool { return isOwnedBy(o, set.UID) })
}

// labelled returns a cluster-scoped permission that OLM v0 would delete with the version, or nil.
func (s *state) labelled() *metav1.PartialObjectMetadata {
	selector := labels.SelectorFromSet(labelsOfVersion(s.plan.Namespace, s.plan.Version.Name))
	at := slices.IndexFunc(s.replaced, func(o metav1.PartialObjectMetadata) bool {
		return isOfCluster(o.Kind) && selector.Matches(labels.Set(o.Labels))
	})
	if at < 0 {
		return nil
	}
	return &s.replaced[at]
}

// unlabelled returns a cluster-scoped permission that OLM v0 would not delete with the version any more, or nil.
func (s *state) unlabelled() *metav1.PartialObjectMetadata {
	at := slices.IndexFunc(s.replaced, func(o metav1.PartialObjectMetadata) bool { return isOfCluster(o.Kind) && o.Labels[ownerLabel] == "" })
	if at < 0 {
		return nil
	}
	return &s.replaced[at]
}

func isOrphaning(object client.Object) bool {
	return slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// othersOf returns the finalizers of an object that belong to an OLM.
func othersOf(object client.Object) []string {
	return slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(finalizer string) bool {
		return finalizer == moveFinalizer || finalizer == metav1.FinalizerOrphanDependents
	})
}

// ownedBy returns an object that an owner owns and that must stay, or nil.
func (s *state) ownedBy(uid types.UID) *metav1.PartialObjectMetadata {
	for _, t := range s.taken {
		if t.live != nil && isOwnedBy(t.live, uid) {
			return t.live
		}
	}
	for i := range s.replaced {
		if isOwnedBy(&s.replaced[i], uid) {
			return &s.replaced[i]
		}
	}
	return nil
}

// takeOver is complete when OLM v1 has the operator, and its pods run.
func (s *state) takeOver() (migrate.Decision, error) {
	p := s.plan
	if s.unmarked() != nil && (!p.Extension.Boxcutter || s.set() != nil) {
		return migrate.Execute(MarkObjects)
	}
	e := s.extension
	switch {
	case e == nil:
		return migrate.Execute(CreateExtension)
	case e.GetDeletionTimestamp() != nil:
		return migrate.Decision{}, fmt.Errorf("somebody has deleted ClusterExtension %s: find out who has, and undo the move with `%s`", e.GetName(), s.journal.Command(p, "rollback"))
	case s.hasStarted(Loosen):
		return migrate.NoStep() // OLM v1 may have updated it
	}
	if is, why := isInstalled(e, p.Version); !is {
		return migrate.Wait(AwaitExtension, "OLM v1 to install %s: %s", p.Version.Name, why)
	}
	if waits := rollingOut(s.deployments); waits != "" {
		return migrate.Wait(AwaitExtension, "%s", waits)
	}
	return migrate.NoStep()
}

// set returns the latest ClusterObjectSet, or nil.
func (s *state) set() *metav1.PartialObjectMetadata {
	if n := len(s.objectSets); n > 0 && s.objectSets[n-1].DeletionTimestamp == nil {
		return &s.objectSets[n-1]
	}
	return nil
}

// unmarked returns an object that OLM v1 would not take over, or nil.
func (s *state) unmarked() *metav1.PartialObjectMetadata {
	p := s.plan
	for _, t := range s.taken {
		if t.live != nil && !isMarked(t.live, p.Subject.Name, p.Namespace, p.Extension.Boxcutter) {
			return t.live
		}
	}
	return nil
}

// isInstalled reports whether OLM v1 has installed a version for a ClusterExtension, and is at rest. If not, it also returns what OLM v1
// is doing.
func isInstalled(e *unstructured.Unstructured, v Version) (bool, string) {
	if name := text(e, "status", "install", "bundle", "name"); name != "" && name != v.Name {
		return false, "it has installed " + name
	}
	for _, of := range []string{"Progressing", "Installed"} {
		switch status, reason, message := clusterextension.Condition(e, of); {
		case status == "":
			return false, "it has not begun"
		case status != "True" || of == "Progressing" && reason != "Succeeded":
			return false, fmt.Sprintf("condition %s is %s, %s: %s", of, status, reason, oneLine(message))
		}
	}
	return text(e, "status", "install", "bundle", "name") == v.Name, "it has not begun"
}

// deploymentsOf returns the Deployments that belong to a version. On a way back, the plan also names other Deployments with the labels of
// the ClusterExtension, which anybody who may write in the namespace can create.
func (s *state) deploymentsOf(v *v1alpha1.ClusterServiceVersion) (found []appsv1.Deployment) {
	for _, d := range s.deployments {
		if slices.ContainsFunc(v.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, func(of v1alpha1.StrategyDeploymentSpec) bool { return of.Name == d.Name }) {
			found = append(found, d)
		}
	}
	return found
}

// rollingOut says for which Deployment to wait; "" if all are up to date.
func rollingOut(deployments []appsv1.Deployment) string {
	for _, d := range deployments {
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < wanted || d.Status.AvailableReplicas < wanted {
			return fmt.Sprintf("Deployment %s/%s: %d of %d pods are up to date, %d are available", d.Namespace, d.Name, d.Status.UpdatedReplicas, wanted, d.Status.AvailableReplicas)
		}
	}
	return ""
}

// tidy is complete when the objects of OLM v0 that OLM v1 has replaced by its own are gone.
func (s *state) tidy() (migrate.Decision, error) {
	switch o := s.toReplace(); {
	case o == nil:
		return migrate.NoStep()
	case o.DeletionTimestamp != nil:
		return migrate.WaitGone(DeleteReplaced, named(o.Kind, o.Namespace, o.Name), o)
	}
	return migrate.Execute(DeleteReplaced)
}

// toReplace returns an object of OLM v0 that OLM v1 has replaced by its own, or nil.
func (s *state) toReplace() *metav1.PartialObjectMetadata {
	at := slices.IndexFunc(s.replaced, func(o metav1.PartialObjectMetadata) bool { return !isHeld(o) })
	if at < 0 {
		return nil
	}
	return &s.replaced[at]
}

// isHeld reports whether a namespaced object is being deleted. Anybody who may write there can block that, so nothing waits for it.
func isHeld(o metav1.PartialObjectMetadata) bool {
	return o.Namespace != "" && o.DeletionTimestamp != nil
}

// loosen is complete when OLM v1 may update the operator, as OLM v0 did.
func (s *state) loosen() (migrate.Decision, error) {
	if s.isLoosened() {
		return migrate.NoStep()
	}
	return migrate.Execute(Loosen)
}

// isLoosened reports whether the ClusterExtension allows the versions that the Subscription allowed.
func (s *state) isLoosened() bool {
	now := catalogOf(s.extension)
	wanted := s.plan.loosened(now)
	return equality.Semantic.DeepEqual(now, wanted)
}

// hasStarted reports whether a step was started.
func (s *state) hasStarted(step migrate.StepName) bool {
	return slices.ContainsFunc(s.journal.Entries, func(e migrate.Entry) bool { return e.Step == step })
}

func catalogOf(e *unstructured.Unstructured) map[string]any {
	found, _, _ := unstructured.NestedMap(e.Object, "spec", "source", "catalog")
	return found
}

// Holds reports whether the operator is still with the OLM that it was moved to.
func (s *state) Holds() (bool, error) {
	if s.plan.To == ToV0 {
		return stays(s.again()) && s.extension == nil, nil
	}
	return s.isOurs() && s.extension.GetDeletionTimestamp() == nil && len(s.foreign()) == 0 && s.before() == nil, nil
}

// isOurs reports whether the ClusterExtension is the one that a move has created.
func (s *state) isOurs() bool {
	return s.extension != nil && s.extension.GetAnnotations()[movedAnnotation] == string(s.plan.Subscription.UID)
}

// Back decides on the next step of a rollback.
func (s *state) Back() (migrate.Decision, error) {
	p := s.plan
	resume := s.journal.Command(p, "resume")
	if p.To == ToV0 {
		switch e := s.extension; {
		case e == nil || e.GetDeletionTimestamp() != nil:
			return migrate.Decision{}, fmt.Errorf("OLM v1 does not have the operator any more: this is beyond the point of no return; continue with `%s`, and then move it to OLM v1 again", resume)
		case controllerutil.ContainsFinalizer(e, moveFinalizer):
			return migrate.Execute(RemoveExtensionFinalizer)
		}
		return migrate.NoStep()
	}
	if s.hasStarted(Loosen) {
		return migrate.Decision{}, fmt.Errorf("OLM v1 may have updated the operator: this is beyond the point of no return; continue with `%s`, and then move it back with --to %s", resume, ToV0)
	}
	if v := s.version; !stays(s.before()) || v == nil || v.DeletionTimestamp != nil {
		return s.goBack()
	}
	switch { // nothing was deleted yet
	case s.unlabelled() != nil:
		return migrate.Execute(RestorePermissions)
	case s.withMarks() != nil:
		return migrate.Execute(UnmarkObjects)
	case controllerutil.ContainsFinalizer(s.version, moveFinalizer):
		return migrate.Execute(RemoveVersionFinalizer)
	}
	return migrate.NoStep()
}

// IsRestored reports whether the operator is where it was before.
func (s *state) IsRestored() bool {
	if s.plan.To == ToV0 {
		e := s.extension
		return e != nil && e.GetUID() == s.plan.Subject.UID && e.GetDeletionTimestamp() == nil && !controllerutil.ContainsFinalizer(e, moveFinalizer)
	}
	untouched := stays(s.before()) && s.version != nil && s.version.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(s.version, moveFinalizer) && s.withMarks() == nil
	return s.extension == nil && (untouched || stays(s.again()) && s.isAsBefore(s.again()))
}

// stays reports whether a Subscription, which may be nil, exists and is not being deleted.
func stays(n *v1alpha1.Subscription) bool { return n != nil && n.DeletionTimestamp == nil }
