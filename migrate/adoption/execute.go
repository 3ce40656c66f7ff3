package adoption

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/berth-csi/berth/migrate"
)

// Execute performs the write of a step.
func (s *state) Execute(ctx context.Context, c client.Client, step migrate.StepName) error {
	switch step {
	case DeleteSubscription:
		return deleteUnchanged(ctx, c, s.subscription())
	case DeleteInstallPlans:
		return deleteUnchanged(ctx, c, &s.installPlans[0])
	case DeleteVersion:
		return deleteUnchanged(ctx, c, &s.versions[0])
	case AddHandOverFinalizer:
		return s.changeExtension(ctx, c, controllerutil.AddFinalizer)
	case DeleteExtension:
		return deleteUnchanged(ctx, c, s.extension.Unstructured, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	case DeleteObjectSets:
		return deleteUnchanged(ctx, c, &s.objectSets[0], client.PropagationPolicy(metav1.DeletePropagationOrphan))
	case KeepAPIs:
		return s.orphan(ctx, c, s.ownedAPIs[0])
	case RemoveHandOverFinalizer:
		return s.changeExtension(ctx, c, controllerutil.RemoveFinalizer)
	case DeleteOperator:
		return deleteUnchanged(ctx, c, &s.installed[slices.IndexFunc(s.installed, isDeployment)])
	case DeleteInstalled:
		return deleteUnchanged(ctx, c, &s.installed[0])
	case AwaitOLM:
		return nil // the engine has recorded the time of the step in the journal, and nothing else is needed
	}
	return fmt.Errorf("step %q writes nothing", step)
}

// deleteUnchanged deletes an object, unless it has changed since it was observed.
func deleteUnchanged(ctx context.Context, c client.Client, object client.Object, options ...client.DeleteOption) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return c.Delete(ctx, object, append(options, client.Preconditions{UID: &uid, ResourceVersion: &version})...)
}

// changeExtension changes the finalizers of the ClusterExtension, unless it has changed since it was observed.
func (s *state) changeExtension(ctx context.Context, c client.Client, change func(object client.Object, finalizer string) bool) error {
	changed := s.extension.DeepCopy()
	change(changed, handOverFinalizer)
	return c.Patch(ctx, changed, client.MergeFromWithOptions(s.extension.Unstructured, client.MergeFromWithOptimisticLock{}))
}

// orphan removes the ClusterExtension from the owners of an API, unless the API has changed since it was observed.
func (s *state) orphan(ctx context.Context, c client.Client, api metav1.PartialObjectMetadata) error {
	changed := api.DeepCopy()
	changed.OwnerReferences = slices.DeleteFunc(changed.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == s.plan.Operator.Extension.UID })
	return c.Patch(ctx, changed, client.MergeFromWithOptions(&api, client.MergeFromWithOptimisticLock{}))
}
