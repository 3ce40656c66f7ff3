package adoption

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
)

// Execute makes the write of a step.
func (s *state) Execute(ctx context.Context, c client.Client, step migrate.StepName) error {
	switch step {
	case DeleteSubscription:
		return deleteUnchanged(ctx, c, s.subscription())
	case DeleteInstallPlans:
		return deleteUnchanged(ctx, c, &s.installPlans[0])
	case DeleteVersion:
		return deleteUnchanged(ctx, c, &s.versions[0])
	case AwaitOLM:
		return nil // the time of the step in the journal is all that it takes
	}
	return fmt.Errorf("step %q writes nothing", step)
}

// deleteUnchanged deletes an object, unless it has changed since it was observed.
func deleteUnchanged(ctx context.Context, c client.Client, object client.Object) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return c.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version})
}
