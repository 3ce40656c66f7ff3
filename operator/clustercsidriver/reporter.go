package clustercsidriver

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// maxMessage is the maximum number of characters in a controller's message. Messages may quote objects and errors of
// any length.
const maxMessage = 8 << 10

// minWriteInterval is the shortest time between two writes of the status.
const minWriteInterval = 200 * time.Millisecond

// cacheTimeout is how long the cache may lag behind a write. If it still lags behind after that time, the write may be lost: if etcd was
// restored to exactly the version before the write, no watch ever shows another version.
const cacheTimeout = 5 * time.Second

// A Reporter is the operator client that all controllers of a cycle share, and the status controller. It collects the
// statuses that the controllers apply, and writes them together with their summary in one request. If each of a dozen
// controllers wrote its own conditions, an installation would write the status some forty times. That would be most of
// the installation's load on the API server.
type Reporter struct {
	v1helpers.OperatorClientWithFinalizers
	ReporterOptions
	customResource dynamic.ResourceInterface

	mu        sync.Mutex
	started   bool                                                         // a status was applied or components are expected
	expected  []Component                                                  // that the summary waits for
	reported  chan struct{}                                                // closed once all of them have reported
	applied   map[string]*applyoperatorv1.OperatorStatusApplyConfiguration // by controller
	statuses  map[string]transition                                        // by condition type
	revision  int                                                          // grows whenever a controller applies a different status
	written   int                                                          // the last revision that was written
	waiters   []waiter
	lastWrite write
	wakeUps   chan struct{} // receives a value when there may be something to write
}

// A write of the status.
type write struct {
	basedOn string // a resource version, which the cache shows until it has the write
	at      time.Time
}

// isAwaited reports whether the cache, which shows the resource version cached, is expected to show the write soon. A
// decision based on that cache would repeat the write.
func (w write) isAwaited(cached string, now time.Time) bool {
	return cached == w.basedOn && now.Sub(w.at) < cacheTimeout
}

// ReporterOptions of a Reporter.
type ReporterOptions struct {
	Name         string // of the ClusterCSIDriver
	FieldManager string
	Version      string // of the operator; in the status once all expected components have reported
	// IsCurrent reports whether controllers of this cycle write conditions of a type. The reporter removes conditions
	// of all other types, because no controller updates them any more.
	IsCurrent func(conditionType string) bool
	// Subjects, if set, returns the subjects by which conditions are grouped. It returns nil while another operator's
	// conditions must stay as they are.
	Subjects func() *Subjects
	// Show, if set, is called with the current conditions of the ClusterCSIDriver.
	Show func([]operatorv1.OperatorCondition)
}

// A waiter waits until a revision is written.
type waiter struct {
	revision int
	result   chan error
}

// transition is the status of a condition and when the condition got it.
type transition struct {
	status operatorv1.ConditionStatus
	at     metav1.Time
}

// NewReporter returns a reporter that reads with an operator client and writes to customResource.
func NewReporter(client v1helpers.OperatorClientWithFinalizers, customResource dynamic.ResourceInterface, options ReporterOptions) *Reporter {
	return &Reporter{
		OperatorClientWithFinalizers: client, ReporterOptions: options, customResource: customResource,
		applied:  map[string]*applyoperatorv1.OperatorStatusApplyConfiguration{},
		statuses: map[string]transition{}, reported: make(chan struct{}), wakeUps: make(chan struct{}, 1),
	}
}

// ApplyOperatorStatus replaces a controller's status, and returns once the new one is written.
func (r *Reporter) ApplyOperatorStatus(ctx context.Context, controller string, status *applyoperatorv1.OperatorStatusApplyConfiguration) error {
	select {
	case err := <-r.enqueue(controller, status):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueue returns a channel that receives the result once a status is written.
func (r *Reporter) enqueue(controller string, status *applyoperatorv1.OperatorStatusApplyConfiguration) <-chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	if !equality.Semantic.DeepEqual(r.applied[controller], status) {
		r.applied[controller] = status
		r.revision++
		for _, c := range status.Conditions {
			if r.statuses[*c.Type].status != *c.Status {
				r.statuses[*c.Type] = transition{*c.Status, now()}
			}
		}
		r.wakeUp()
		r.noteReports()
	}
	result := make(chan error, 1)
	if r.written == r.revision {
		result <- nil
	} else {
		r.waiters = append(r.waiters, waiter{r.revision, result})
	}
	return result
}

// Expect makes the summary wait until components have reported.
func (r *Reporter) Expect(components []Component) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, r.expected, r.reported = true, components, make(chan struct{})
	r.noteReports()
	r.wakeUp()
}

// Reported returns a channel that is closed once the controllers of all expected components have reported in this cycle, even if that
// changes nothing in the ClusterCSIDriver.
func (r *Reporter) Reported() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported
}

// SyncOnceReported is a hook for controllers that call RolledOut: it triggers a sync once all components have reported. The informer of
// the ClusterCSIDriver triggers no sync if the reports change nothing.
func (r *Reporter) SyncOnceReported(ctx context.Context, syncContext factory.SyncContext) error {
	select {
	case <-r.Reported():
		syncContext.Queue().Add(factory.DefaultQueueKey)
	case <-ctx.Done():
	}
	return nil
}

// noteReports closes the channel of Reported once all expected components have reported.
func (r *Reporter) noteReports() {
	select {
	case <-r.reported:
	default:
		if haveReported(r.expected, r.applied) {
			close(r.reported)
		}
	}
}

// RolledOut reports whether the driver is available and not progressing, according to the reports of all expected components in this
// cycle. The status of the ClusterCSIDriver is not enough: an earlier operator may have written it, about its own installation.
func (r *Reporter) RolledOut() bool {
	_, live, _, err := r.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.expected) == 0 || !haveReported(r.expected, r.applied) {
		return false
	}
	summary := summarize(r.merge(live, r.subjects()).Conditions, r.expected)
	return v1helpers.IsOperatorConditionTrue(summary, operatorv1.OperatorStatusTypeAvailable) &&
		v1helpers.IsOperatorConditionFalse(summary, operatorv1.OperatorStatusTypeProgressing)
}

func (r *Reporter) wakeUp() {
	select {
	case r.wakeUps <- struct{}{}:
	default: // a wake-up is pending
	}
}

// GetOperatorState returns the object in the cache with the statuses that the controllers applied, written or not.
func (r *Reporter) GetOperatorState() (*operatorv1.OperatorSpec, *operatorv1.OperatorStatus, string, error) {
	spec, status, resourceVersion, err := r.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return nil, nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return spec, r.merge(status, r.subjects()), resourceVersion, nil
}

// Condition returns the condition of a type that a controller applied in this cycle or before, or the zero value.
func (r *Reporter) Condition(conditionType string) operatorv1.OperatorCondition {
	_, status, _, err := r.GetOperatorState()
	if err != nil {
		return operatorv1.OperatorCondition{}
	}
	return *cmp.Or(v1helpers.FindOperatorCondition(status.Conditions, conditionType), &operatorv1.OperatorCondition{})
}

func (r *Reporter) subjects() *Subjects {
	if r.Subjects == nil {
		return nil
	}
	return r.Subjects()
}

// merge merges the applied statuses into the current parts of a written status, whose conditions are grouped by
// subjects.
func (r *Reporter) merge(status *operatorv1.OperatorStatus, subjects *Subjects) *operatorv1.OperatorStatus {
	status = status.DeepCopy()
	status.Conditions = subjects.unfold(status.Conditions)
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c operatorv1.OperatorCondition) bool { return !isSummary(c.Type) && !r.IsCurrent(c.Type) })
	for _, controller := range slices.Sorted(maps.Keys(r.applied)) {
		for _, c := range r.applied[controller].Conditions {
			setCondition(&status.Conditions, operatorv1.OperatorCondition{Type: *c.Type, Status: *c.Status,
				Reason: ptr.Deref(c.Reason, ""), Message: escape.Message(ptr.Deref(c.Message, ""), maxMessage), LastTransitionTime: r.statuses[*c.Type].at})
		}
		for _, g := range r.applied[controller].Generations {
			setGeneration(&status.Generations, operatorv1.GenerationStatus{Group: ptr.Deref(g.Group, ""), Resource: ptr.Deref(g.Resource, ""),
				Namespace: ptr.Deref(g.Namespace, ""), Name: ptr.Deref(g.Name, ""), LastGeneration: ptr.Deref(g.LastGeneration, 0)})
		}
	}
	return status
}

// setCondition sets a condition. If the status stays the same, the last transition time does, too.
func setCondition(conditions *[]operatorv1.OperatorCondition, condition operatorv1.OperatorCondition) {
	before := v1helpers.FindOperatorCondition(*conditions, condition.Type)
	if before == nil {
		*conditions = append(*conditions, condition)
		return
	}
	if before.Status == condition.Status {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	*before = condition
}

func setGeneration(generations *[]operatorv1.GenerationStatus, generation operatorv1.GenerationStatus) {
	i := slices.IndexFunc(*generations, func(other operatorv1.GenerationStatus) bool {
		return other.Group == generation.Group && other.Resource == generation.Resource &&
			other.Namespace == generation.Namespace && other.Name == generation.Name
	})
	if i < 0 {
		*generations = append(*generations, generation)
		return
	}
	(*generations)[i] = generation
}

// Run writes the status whenever it changes, until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	registration, err := r.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { r.wakeUp() }, // by us or by another client
	})
	if err != nil {
		return err
	}
	defer r.Informer().RemoveEventHandler(registration)
	for r.wakeUp(); ; {
		select {
		case <-r.wakeUps:
		case <-ctx.Done():
			return nil
		}
		pause := minWriteInterval
		if err := r.sync(ctx); err != nil && ctx.Err() == nil {
			if apierrors.IsConflict(err) {
				klog.V(2).InfoS("Conflict while writing the status: retrying", "clusterCSIDriver", r.Name)
			} else {
				klog.ErrorS(err, "Failed to write the status", "clusterCSIDriver", r.Name)
			}
			pause = time.Second
			r.wakeUp()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// sync writes the status unless it is up to date, and notifies the waiters. They keep waiting while the cache does not
// show the last write, or a concurrent one. sync writes nothing before the first controller has reported. Otherwise a
// restarted operator would briefly erase the conditions that its predecessor waited for, and an operator that always
// crashed at that point would never get further.
func (r *Reporter) sync(ctx context.Context) error {
	metadata, err := r.GetObjectMeta()
	if err != nil {
		return r.notify(err, 0)
	}
	_, live, resourceVersion, err := r.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return r.notify(err, 0)
	}
	r.mu.Lock()
	if !r.started || r.lastWrite.isAwaited(resourceVersion, time.Now()) {
		r.mu.Unlock()
		return nil
	}
	desired, revision := r.desired(live), r.revision
	if len(r.expected) > 0 && haveReported(r.expected, r.applied) {
		desired.Version = r.Version // until then the conditions are about an earlier version's installation
	}
	r.mu.Unlock()
	desired.ObservedGeneration = metadata.Generation
	if equality.Semantic.DeepEqual(desired, sorted(live)) {
		klog.V(4).InfoS("The status is up to date", "clusterCSIDriver", r.Name, "revision", revision)
		r.show(desired)
		return r.notify(nil, revision)
	}
	changed, err := r.write(ctx, resourceVersion, desired)
	if apierrors.IsConflict(err) {
		return err // the waiters keep waiting: the status is written again on top of the concurrent change
	}
	if err == nil {
		r.show(desired)
	}
	if changed {
		klog.V(2).InfoS("Wrote the status", "clusterCSIDriver", r.Name, "revision", revision)
		r.mu.Lock()
		r.lastWrite = write{resourceVersion, time.Now()}
		r.mu.Unlock()
		time.AfterFunc(cacheTimeout, r.wakeUp)
	}
	return r.notify(err, revision)
}

// show calls Show with the conditions of the object's status.
func (r *Reporter) show(status *operatorv1.OperatorStatus) {
	if r.Show != nil {
		r.Show(status.Conditions)
	}
}

// write replaces the reported parts of the status, unless the object has changed. It reports whether the status
// changed. If not, the object keeps its resource version, and the watch delivers nothing.
func (r *Reporter) write(ctx context.Context, resourceVersion string, status *operatorv1.OperatorStatus) (changed bool, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": resourceVersion},
		"status": map[string]any{
			"conditions": status.Conditions, "generations": status.Generations,
			"observedGeneration": status.ObservedGeneration, "version": status.Version,
		},
	})
	if err != nil {
		return false, err
	}
	written, err := r.customResource.Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: r.FieldManager}, "status")
	return err == nil && written.GetResourceVersion() != resourceVersion, err
}

// now returns the time in seconds, as the API server stores it, so that written and read times are equal.
func now() metav1.Time { return metav1.Now().Rfc3339Copy() }

// notify sends the result of a write to the waiters: to all of them if it failed, otherwise to the waiters of written
// revisions.
func (r *Reporter) notify(err error, revision int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.written = revision
	}
	r.waiters = slices.DeleteFunc(r.waiters, func(w waiter) bool {
		if err == nil && w.revision > revision {
			return false
		}
		w.result <- err
		return true
	})
	return err
}

// desired returns the status to write: the conditions by subject, and the summary of all applied conditions.
func (r *Reporter) desired(live *operatorv1.OperatorStatus) *operatorv1.OperatorStatus {
	subjects := r.subjects()
	desired := r.merge(live, subjects)
	summary := summarize(sorted(desired).Conditions, r.expected)
	var conditions []operatorv1.OperatorCondition
	awaited := subjects.awaited(pendingOf(desired.Conditions, r.expected))
	for _, c := range slices.Concat(subjects.fold(slices.Concat(desired.Conditions, awaited)), summary) {
		if c.LastTransitionTime.IsZero() || isSummary(c.Type) {
			c.LastTransitionTime = now()
			if before := v1helpers.FindOperatorCondition(live.Conditions, c.Type); before != nil && before.Status == c.Status {
				c.LastTransitionTime = before.LastTransitionTime
			}
		}
		setCondition(&conditions, c)
	}
	desired.Conditions = conditions
	return sorted(desired)
}

// sorted returns a copy of a status with its conditions sorted by type.
func sorted(status *operatorv1.OperatorStatus) *operatorv1.OperatorStatus {
	status = status.DeepCopy()
	slices.SortFunc(status.Conditions, func(a, b operatorv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) })
	return status
}
