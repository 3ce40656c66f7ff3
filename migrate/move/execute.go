package move

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/installplan"
)

// Execute performs the write of a step.
func (s *state) Execute(ctx context.Context, c client.Client, step migrate.StepName) error {
	orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
	switch step {
	case DeleteSubscription:
		return deleteUnchanged(ctx, c, s.before())
	case DeleteInstallPlans:
		return s.deletePlan(ctx, c)
	case KeepPermissions:
		return change(ctx, c, s.labelled(), func(o client.Object) {
			removeMetadata(o, []string{ownerLabel, ownerKindLabel, ownerNamespaceLabel}, nil)
			o.SetAnnotations(labels.Merge(o.GetAnnotations(), labels.Set{movedAnnotation: string(s.plan.Subscription.UID)}))
		})
	case RestorePermissions:
		return change(ctx, c, s.unlabelled(), func(o client.Object) {
			removeMetadata(o, nil, []string{movedAnnotation})
			o.SetLabels(labels.Merge(o.GetLabels(), labelsOfVersion(s.plan.Namespace, s.plan.Version.Name)))
		})
	case KeepAPIs:
		return change(ctx, c, s.unnamedAPI(), func(o client.Object) {
			o.SetAnnotations(labels.Merge(o.GetAnnotations(), labels.Set{movedAnnotation: string(s.plan.Subscription.UID)}))
		})
	case AddVersionFinalizer:
		return s.rewrite(ctx, c, s.version, addFinalizer)
	case DeleteVersion:
		return deleteUnchanged(ctx, c, s.version, orphan)
	case KeepObjects:
		return s.keep(ctx, c)
	case RemoveVersionFinalizer:
		return change(ctx, c, s.version, removeFinalizer)
	case MarkObjects:
		return s.mark(ctx, c)
	case CreateExtension:
		return c.Create(ctx, s.plan.extension())
	case DeleteReplaced:
		return deleteUnchanged(ctx, c, s.toReplace())
	case Loosen:
		changed := s.extension.DeepCopy()
		if err := unstructured.SetNestedMap(changed.Object, s.plan.loosened(catalogOf(s.extension)), "spec", "source", "catalog"); err != nil {
			return err
		}
		return c.Patch(ctx, changed, client.MergeFromWithOptions(s.extension, client.MergeFromWithOptimisticLock{}))
	case AddExtensionFinalizer:
		return change(ctx, c, s.extension, addFinalizer)
	case DeleteExtension:
		return deleteUnchanged(ctx, c, s.extension, orphan)
	case DeleteObjectSets:
		return deleteUnchanged(ctx, c, &s.objectSets[0], orphan)
	case UnmarkObjects:
		return s.rewrite(ctx, c, s.withMarks(), unmark)
	case RemoveExtensionFinalizer:
		return change(ctx, c, s.extension, removeFinalizer)
	case DeleteRemembered:
		return deleteUnchanged(ctx, c, &s.remembered[0])
	case CreateSubscription:
		return c.Create(ctx, s.plan.subscription())
	case Approve:
		return s.approved(ctx, c)
	case ResetStatus:
		reset := s.again().DeepCopy()
		installplan.Reset(reset)
		return c.Status().Patch(ctx, reset, client.MergeFromWithOptions(s.again(), client.MergeFromWithOptimisticLock{}))
	case RestoreApproval:
		return change(ctx, c, s.again(), func(o client.Object) { o.(*v1alpha1.Subscription).Spec = s.plan.Subscription.Spec.DeepCopy() })
	case DeleteMade:
		return deleteUnchanged(ctx, c, s.toDrop())
	case AwaitV0, AwaitV1:
		return nil // the engine has recorded the time of the step in the journal, and nothing else is needed
	}
	return fmt.Errorf("step %q writes nothing", step)
}

// deleteUnchanged deletes an object, unless it has changed since it was observed.
func deleteUnchanged(ctx context.Context, c client.Client, object client.Object, options ...client.DeleteOption) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return c.Delete(ctx, object, append(options, client.Preconditions{UID: &uid, ResourceVersion: &version})...)
}

// change changes an object, unless it has changed since it was observed.
func change(ctx context.Context, c client.Client, object client.Object, do func(client.Object)) error {
	changed := object.DeepCopyObject().(client.Object)
	do(changed)
	return c.Patch(ctx, changed, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
}

// maxRewrites is how often one run changes an object, and maxDeleted how many InstallPlans it deletes, before it gives up: whoever may
// write in the operator's namespace can undo a change as often as the move makes it.
const (
	maxRewrites = 10
	maxDeleted  = 100
)

// rewrite is like change, for an object that others can change back. It fails after maxRewrites changes.
func (s *state) rewrite(ctx context.Context, c client.Client, object client.Object, do func(client.Object)) error {
	p, uid, kind := s.plan, object.GetUID(), object.GetObjectKind().GroupVersionKind().Kind
	if object == client.Object(s.version) { // which was read as a typed object, without its kind
		kind = v1alpha1.ClusterServiceVersionKind
	}
	if p.rewritten[uid] >= maxRewrites {
		return fmt.Errorf("somebody changes %s back as often as the move changes it, %d times by now%s: find out who does, such as a GitOps tool, stop that, and continue with `%s`",
			named(kind, object.GetNamespace(), object.GetName()), maxRewrites, writerOf(object), s.journal.Command(p, s.verb()))
	}
	if err := change(ctx, c, object, do); err != nil {
		return err
	}
	if p.rewritten == nil {
		p.rewritten = map[types.UID]int{}
	}
	p.rewritten[uid]++
	return nil
}

// verb returns the command that continues the move or its rollback.
func (s *state) verb() string {
	if s.journal.Phase == migrate.RollingBack {
		return "rollback"
	}
	return "resume"
}

// deletePlan deletes an InstallPlan of the Subscription. It fails after maxDeleted InstallPlans.
func (s *state) deletePlan(ctx context.Context, c client.Client) error {
	p, plan := s.plan, &s.plansOf(s.plan.Subscription.UID)[0]
	if p.rewritten[p.Subscription.UID] >= maxDeleted {
		return fmt.Errorf("somebody creates InstallPlans for Subscription %s/%s as often as the move deletes them, %d by now%s: find out who does, stop that, and continue with `%s`",
			p.Namespace, p.Subscription.Name, maxDeleted, writerOf(plan), s.journal.Command(p, s.verb()))
	}
	if err := deleteUnchanged(ctx, c, plan); err != nil {
		return err
	}
	if p.rewritten == nil {
		p.rewritten = map[types.UID]int{}
	}
	p.rewritten[p.Subscription.UID]++
	return nil
}

// writerOf says who last wrote metadata of an object; "" if its managedFields do not show that.
func writerOf(object client.Object) string {
	var last *metav1.ManagedFieldsEntry
	for i, entry := range object.GetManagedFields() {
		if entry.FieldsV1 == nil || entry.Time == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:metadata"`) {
			continue
		}
		if last == nil || last.Time.Before(entry.Time) {
			last = &object.GetManagedFields()[i]
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf(", the last time as %q at %s, as its managedFields say; the API server's audit log says which user that is", last.Manager, last.Time.UTC().Format(time.RFC3339))
}

func addFinalizer(object client.Object)    { controllerutil.AddFinalizer(object, moveFinalizer) }
func removeFinalizer(object client.Object) { controllerutil.RemoveFinalizer(object, moveFinalizer) }

// keep removes from an object the reference to an owner that is about to be deleted.
func (s *state) keep(ctx context.Context, c client.Client) error {
	if v := s.version; v != nil && s.ownedBy(v.UID) != nil {
		if o := s.condition; o != nil && o.Annotations[predecessor.EndingAnnotation] != string(v.UID) { // Berth's operators would make the version the owner again
			return s.rewrite(ctx, c, o, func(o client.Object) {
				o.SetAnnotations(labels.Merge(o.GetAnnotations(), labels.Set{predecessor.EndingAnnotation: string(v.UID)}))
			})
		}
		return s.rewrite(ctx, c, s.ownedBy(v.UID), func(o client.Object) {
			o.SetOwnerReferences(slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), func(owner metav1.OwnerReference) bool { return owner.UID == v.UID }))
		})
	}
	return s.rewrite(ctx, c, s.ownedMade(), func(o client.Object) {
		o.SetOwnerReferences(slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), isOfV1))
	})
}

// mark marks an object for OLM v1, and removes OLM v0's marks.
func (s *state) mark(ctx context.Context, c client.Client) error {
	p := s.plan
	return s.rewrite(ctx, c, s.unmarked(), func(o client.Object) {
		removeMetadata(o, v0Labels(p.Package, p.Namespace), []string{movedAnnotation})
		var set *Owner
		if p.Extension.Boxcutter {
			set = &Owner{Name: s.set().Name, UID: s.set().UID}
		}
		mark(o, p.Subject.Name, p.Namespace, set)
	})
}

// subscription returns the Subscription of a move back. OLM v0 installs nothing for it without approval.
func (p *Plan) subscription() *v1alpha1.Subscription {
	s := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Subscription.Name, Annotations: map[string]string{movedAnnotation: string(p.Subscription.UID)}},
		Spec:       p.Subscription.Spec.DeepCopy(),
	}
	s.Spec.StartingCSV, s.Spec.InstallPlanApproval = p.Version.Name, v1alpha1.ApprovalManual
	return s
}

// approved approves the InstallPlan of the Subscription.
func (s *state) approved(ctx context.Context, c client.Client) error {
	return change(ctx, c, s.current(s.again()), func(o client.Object) { o.(*v1alpha1.InstallPlan).Spec.Approved = true })
}
