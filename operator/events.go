package operator

import (
	"context"
	"fmt"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An event tells a person what has happened, once. library-go's controllers have more to say: they speak
// of writes that fail and are tried again, of bookkeeping, and of what they are about to write.

// A gate is a recorder that lets those events through that are news, and logs all others.
type gate struct {
	events.Recorder
	isNews func(e event) bool
}

type event struct {
	warning         bool
	reason, message string
}

// emit hands an event to a recorder.
func (e event) emit(to events.Recorder) {
	if e.warning {
		to.Warning(e.reason, e.message)
		return
	}
	to.Event(e.reason, e.message)
}

func (g gate) tell(e event) {
	if g.isNews(e) {
		e.emit(g.Recorder)
		return
	}
	klog.V(4).Infof("no event: %s: %s", e.reason, e.message)
}

func (g gate) Event(reason, message string)   { g.tell(event{false, reason, message}) }
func (g gate) Warning(reason, message string) { g.tell(event{true, reason, message}) }
func (g gate) Eventf(reason, format string, args ...any) {
	g.Event(reason, fmt.Sprintf(format, args...))
}
func (g gate) Warningf(reason, format string, args ...any) {
	g.Warning(reason, fmt.Sprintf(format, args...))
}

func (g gate) ForComponent(name string) events.Recorder {
	return gate{g.Recorder.ForComponent(name), g.isNews}
}

func (g gate) WithComponentSuffix(suffix string) events.Recorder {
	return gate{g.Recorder.WithComponentSuffix(suffix), g.isNews}
}

func (g gate) WithContext(ctx context.Context) events.Recorder {
	return gate{g.Recorder.WithContext(ctx), g.isNews}
}

// silent is for a controller that has nothing to say.
func (o *operator) silent() events.Recorder {
	return gate{o.recorder, func(event) bool { return false }}
}

// newsOf is for the controller of a Deployment or a DaemonSet. Its failures are no news: they are in its
// Degraded condition for as long as they last. Nor is an update that leaves the generation as it was,
// and with it all that runs: that is bookkeeping in annotations.
func (o *operator) newsOf(ctx context.Context, c *clients, workload *unstructured.Unstructured) events.Recorder {
	known := c.lastGeneration(workload)
	return gate{o.recorder, func(e event) bool {
		if e.warning {
			return false
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(workload.GroupVersionKind())
		if err := c.objects.Get(ctx, client.ObjectKeyFromObject(workload), live); err != nil {
			return true // rather once too often than never
		}
		before := known
		known = live.GetGeneration()
		return known != before
	}}
}

// lastGeneration returns the generation of a workload that the ClusterCSIDriver's status says is the last
// one written; 0 if it says nothing.
func (c *clients) lastGeneration(workload *unstructured.Unstructured) int64 {
	_, status, _, err := c.customResource.GetOperatorState()
	if err != nil {
		return 0
	}
	for _, g := range status.Generations {
		if g.Group == workload.GroupVersionKind().Group && g.Namespace == workload.GetNamespace() && g.Name == workload.GetName() {
			return g.LastGeneration
		}
	}
	return 0
}

// tellAfter calls a controller of library-go, and lets its events out if it succeeds.
func (o *operator) tellAfter(ctx context.Context, called factory.SyncContext, controller factory.Controller) error {
	var said []event
	hold := gate{o.recorder, func(e event) bool { said = append(said, e); return false }}
	if err := controller.Sync(ctx, syncContext{called, hold}); err != nil {
		return err
	}
	for _, e := range said {
		e.emit(o.recorder)
	}
	return nil
}

// syncContext is one with another recorder.
type syncContext struct {
	factory.SyncContext
	recorder events.Recorder
}

func (c syncContext) Recorder() events.Recorder { return c.recorder }
