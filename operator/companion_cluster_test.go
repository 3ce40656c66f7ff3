package operator_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/operator"
)

// TestCompanionsArePreparedFirst: until a companion is prepared, the operator asks for nothing about the driver, and
// so takes nothing over. If it cannot be prepared, that ends the operator.
func TestCompanionsArePreparedFirst(t *testing.T) {
	w := newWorld(t)
	w.createRelics(nil)
	w.create(w.customResource())
	w.setImages()
	unprepared := errors.New("not prepared")
	prepare := func(ctx context.Context, cfg *rest.Config) error {
		// While this goes on, the operator would have begun.
		kube := kubernetes.NewForConfigOrDie(cfg)
		for range 100 {
			if _, err := kube.Discovery().ServerVersion(); err != nil {
				return err
			}
		}
		return unprepared
	}
	run := func(context.Context, *rest.Config) error { panic("it runs without being prepared") }
	err := w.operate(t.Context(), w.ServiceAccountConfig(t, w.namespace, "operator"), operator.Companion{Prepare: prepare, Run: run})
	if !errors.Is(err, unprepared) {
		t.Errorf("the operator ends with %v, want %v", err, unprepared)
	}
	for _, event := range w.Audit(t) {
		if event.User == w.user && event.Resource != "" {
			t.Errorf("before its companion was prepared, the operator asked to %s %s", event.Verb, event.URI)
		}
	}
}
