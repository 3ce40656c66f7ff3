package operator

import (
	"context"

	"github.com/openshift/library-go/pkg/controller/factory"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/operator/objects"
)

// A filledSecret is a Secret among the driver's assets that one of the driver's own controllers fills. It is ready once the cache shows
// its complete content, or after several failures. A pod that is created earlier would have to be replaced at once.
type filledSecret struct {
	secret  *objects.WatchedObject
	applier *objects.Applier
	ready   *objects.Readiness
}

// Informers returns the informers whose events show changes of the Secret.
func (s *filledSecret) Informers() []factory.Informer { return s.secret.Informers() }

func (s *filledSecret) Fail() { s.ready.Fail() }

func (s *filledSecret) Apply(ctx context.Context, content map[string][]byte) error {
	data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Data map[string][]byte `json:"data"`
	}{content})
	if err != nil {
		return err
	}
	desired := s.secret.Desired.DeepCopy()
	desired.Object["data"] = data["data"]
	live, err := s.applier.Apply(ctx, s.secret, desired)
	if err != nil {
		return err
	}
	if cached := s.secret.Cached(); cached != nil && cached.GetResourceVersion() == live.GetResourceVersion() {
		s.ready.Set()
	}
	return nil
}
