package controllers

import (
	"context"
	"fmt"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An eventFilter is a recorder that emits only some events, and logs the others. An event should say once what has
// happened. library-go's controllers also emit events for writes that fail and are retried, for bookkeeping, and for
// writes that they are about to make.
type eventFilter struct {
	events.Recorder
	emits func(e event) bool
}

type event struct {
	warning         bool
	reason, message string
}

func (e event) emit(to events.Recorder) {
	if e.warning {
		to.Warning(e.reason, e.message)
		return
	}
	to.Event(e.reason, e.message)
}

func (f eventFilter) handle(e event) {
	if f.emits(e) {
		e.emit(f.Recorder)
		return
	}
	klog.V(4).InfoS("Suppressed an event", "reason", e.reason, "message", e.message)
}

func (f eventFilter) Event(reason, message string)   { f.handle(event{false, reason, message}) }
func (f eventFilter) Warning(reason, message string) { f.handle(event{true, reason, message}) }
func (f eventFilter) Eventf(reason, format string, args ...any) {
	f.Event(reason, fmt.Sprintf(format, args...))
}
func (f eventFilter) Warningf(reason, format string, args ...any) {
	f.Warning(reason, fmt.Sprintf(format, args...))
}

func (f eventFilter) ForComponent(name string) events.Recorder {
	return eventFilter{f.Recorder.ForComponent(name), f.emits}
}

func (f eventFilter) WithComponentSuffix(suffix string) events.Recorder {
	return eventFilter{f.Recorder.WithComponentSuffix(suffix), f.emits}
}

func (f eventFilter) WithContext(ctx context.Context) events.Recorder {
	return eventFilter{f.Recorder.WithContext(ctx), f.emits}
}

// DropEvents returns a recorder that emits nothing.
func DropEvents(recorder events.Recorder) events.Recorder {
	return eventFilter{recorder, func(event) bool { return false }}
}

// NewGenerationEvents returns the recorder for the controller of a Deployment or DaemonSet. It drops warnings, because
// the Degraded condition shows a failure for as long as it lasts. It also drops updates that do not change the
// generation, because they change no pods: they are bookkeeping in annotations.
func NewGenerationEvents(ctx context.Context, recorder events.Recorder, reader client.Reader, operatorClient v1helpers.OperatorClient, workload *unstructured.Unstructured) events.Recorder {
	known := lastGeneration(operatorClient, workload)
	return eventFilter{recorder, func(e event) bool {
		if e.warning {
			return false
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(workload.GroupVersionKind())
		if err := reader.Get(ctx, client.ObjectKeyFromObject(workload), live); err != nil {
			return true // unknown: emit the event
		}
		before := known
		known = live.GetGeneration()
		return known != before
	}}
}

// lastGeneration returns the generation of a workload that the ClusterCSIDriver's status records as the last one
// written; 0 if it records none.
func lastGeneration(operatorClient v1helpers.OperatorClient, workload *unstructured.Unstructured) int64 {
	_, status, _, err := operatorClient.GetOperatorState()
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

// SyncThenEmit syncs one of library-go's controllers, and emits its events only if the sync succeeds.
func SyncThenEmit(ctx context.Context, syncContext factory.SyncContext, controller factory.Controller, recorder events.Recorder) error {
	var emitted []event
	collect := eventFilter{recorder, func(e event) bool { emitted = append(emitted, e); return false }}
	if err := controller.Sync(ctx, withRecorder{syncContext, collect}); err != nil {
		return err
	}
	for _, e := range emitted {
		e.emit(recorder)
	}
	return nil
}

// withRecorder is a sync context with another recorder.
type withRecorder struct {
	factory.SyncContext
	recorder events.Recorder
}

func (c withRecorder) Recorder() events.Recorder { return c.recorder }
