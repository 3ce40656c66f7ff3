package operator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/operator"
)

// TestAPIControllersArePreparedFirst: until an API controller is prepared, the operator requests nothing about the
// driver, and so adopts nothing. If Prepare fails, the operator ends.
func TestAPIControllersArePreparedFirst(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.createUnadopted(nil)
	env.create(env.customResource())
	unprepared := errors.New("not prepared")
	prepare := func(ctx context.Context, cfg *rest.Config) error {
		// Meanwhile the operator would have made requests.
		kube := kubernetes.NewForConfigOrDie(cfg)
		for range 100 {
			if _, err := kube.Discovery().ServerVersion(); err != nil {
				return err
			}
		}
		return unprepared
	}
	run := func(context.Context, *rest.Config) error { panic("it runs although Prepare failed") }
	err := env.operate(t.Context(), env.ServiceAccountConfig(t, env.namespace, "operator"), operator.APIController{Prepare: prepare, Run: run})
	assert.ErrorIs(t, err, unprepared, "the operator ends with")
	for _, event := range env.requests() {
		assert.Emptyf(t, event.Resource, "requested before its API controller was prepared: %s %s", event.Verb, event.URI)
	}
}
