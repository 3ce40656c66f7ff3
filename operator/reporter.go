package operator

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// reportEvery is the shortest time between two writes of the status. A person reads no faster.
const reportEvery = 200 * time.Millisecond

// A reporter is the client of the driver's ClusterCSIDriver for all controllers. It gathers what they say
// of the status, and writes it, with its summary, in one go. A dozen controllers that each wrote on their
// own would write some forty times during an installation, which is most of what an installation costs
// the API server.
type reporter struct {
	v1helpers.OperatorClientWithFinalizers
	customResource dynamic.ResourceInterface
	name           string // of the ClusterCSIDriver
	manager        string // the field manager
	version        string // of the operator
	// current tells whether a condition is one that controllers write now. All others are removed, as
	// nobody keeps them up to date.
	current func(conditionType string) bool

	mu       sync.Mutex
	begun    bool                                                         // something was said or is expected
	expected []part                                                       // that the summary waits for
	said     map[string]*applyoperatorv1.OperatorStatusApplyConfiguration // by controller
	turned   map[string]turn                                              // by type of condition
	words    int                                                          // how often something else was said than before
	recorded int                                                          // how many of these words are on record
	waiting  []waiting                                                    // for their words to be on record
	based    string                                                       // the resource version that the last write was based on
	news     chan struct{}                                                // carries something when there may be something to write
}

// waiting is somebody who waits until so many words are on record.
type waiting struct {
	words  int
	result chan error
}

// turn is when a condition was said to have another status than before.
type turn struct {
	to operatorv1.ConditionStatus
	at metav1.Time
}

func (o *operator) newReporter(inner v1helpers.OperatorClientWithFinalizers, client dynamic.Interface, asked mode) *reporter {
	return &reporter{
		OperatorClientWithFinalizers: inner, customResource: client.Resource(clusterCSIDrivers),
		name: o.driver.CSIName, manager: o.driver.Operator.Name, version: o.version,
		current: func(conditionType string) bool { return slices.Contains(o.writtenIn(conditionType), asked) },
		said:    map[string]*applyoperatorv1.OperatorStatusApplyConfiguration{},
		turned:  map[string]turn{}, news: make(chan struct{}, 1),
	}
}

// ApplyOperatorStatus takes note of what a controller says, in place of all that it has said before, and
// returns when it is on record.
func (r *reporter) ApplyOperatorStatus(ctx context.Context, controller string, status *applyoperatorv1.OperatorStatusApplyConfiguration) error {
	select {
	case err := <-r.note(controller, status):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note returns a channel that gets the result when a status is on record.
func (r *reporter) note(controller string, status *applyoperatorv1.OperatorStatusApplyConfiguration) <-chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
	if !equality.Semantic.DeepEqual(r.said[controller], status) {
		r.said[controller] = status
		r.words++
		for _, c := range status.Conditions {
			if r.turned[*c.Type].to != *c.Status {
				r.turned[*c.Type] = turn{*c.Status, metav1.Now()}
			}
		}
		r.wake()
	}
	result := make(chan error, 1)
	if r.recorded == r.words {
		result <- nil
	} else {
		r.waiting = append(r.waiting, waiting{r.words, result})
	}
	return result
}

// expect has the summary wait for word of parts.
func (r *reporter) expect(parts []part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun, r.expected = true, parts
	r.wake()
}

func (r *reporter) wake() {
	select {
	case r.news <- struct{}{}:
	default: // it is about to be looked at anyway
	}
}

// GetOperatorState returns the object as the cache has it, but with the status that the controllers have
// reported, on record or not.
func (r *reporter) GetOperatorState() (*operatorv1.OperatorSpec, *operatorv1.OperatorStatus, string, error) {
	spec, status, version, err := r.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return nil, nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return spec, r.over(status), version, nil
}

// over lays what was said over those parts of a status that are still current.
func (r *reporter) over(status *operatorv1.OperatorStatus) *operatorv1.OperatorStatus {
	status = status.DeepCopy()
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c operatorv1.OperatorCondition) bool { return !isSummary(c.Type) && !r.current(c.Type) })
	for _, controller := range slices.Sorted(maps.Keys(r.said)) {
		for _, c := range r.said[controller].Conditions {
			setCondition(&status.Conditions, operatorv1.OperatorCondition{Type: *c.Type, Status: *c.Status,
				Reason: ptr.Deref(c.Reason, ""), Message: ptr.Deref(c.Message, ""), LastTransitionTime: r.turned[*c.Type].at})
		}
		for _, g := range r.said[controller].Generations {
			setGeneration(&status.Generations, operatorv1.GenerationStatus{Group: ptr.Deref(g.Group, ""), Resource: ptr.Deref(g.Resource, ""),
				Namespace: ptr.Deref(g.Namespace, ""), Name: ptr.Deref(g.Name, ""), LastGeneration: ptr.Deref(g.LastGeneration, 0)})
		}
	}
	return status
}

// setCondition sets a condition. One that keeps its status keeps the time when it got that.
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

// run writes the status whenever there is something to write, until ctx ends.
func (r *reporter) run(ctx context.Context) error {
	registration, err := r.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { r.wake() }, // by ourselves, or by somebody else
	})
	if err != nil {
		return err
	}
	defer r.Informer().RemoveEventHandler(registration)
	for r.wake(); ; {
		select {
		case <-r.news:
		case <-ctx.Done():
			return nil
		}
		pause := reportEvery
		if err := r.record(ctx); err != nil && ctx.Err() == nil {
			klog.Errorf("ClusterCSIDriver %s: writing the status: %v", r.name, err)
			pause = time.Second
			r.wake()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// record writes the status if it is not as it is to be, and tells those who wait for that. As long as the
// cache does not show the last write, or one of somebody else who was faster, they go on waiting. Nothing is
// written before anything is known: an operator that starts anew in the middle of an installation would forget
// for a moment what the earlier one was waiting for, and one that is killed there would never get further.
func (r *reporter) record(ctx context.Context) error {
	meta, err := r.GetObjectMeta()
	if err != nil {
		return r.told(err, 0)
	}
	_, is, version, err := r.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return r.told(err, 0)
	}
	r.mu.Lock()
	if !r.begun || version == r.based {
		r.mu.Unlock()
		return nil
	}
	wanted, words := r.summarized(is), r.words
	r.mu.Unlock()
	wanted.ObservedGeneration, wanted.Version = meta.Generation, r.version
	if equality.Semantic.DeepEqual(wanted, sorted(is)) {
		return r.told(nil, words)
	}
	err = r.write(ctx, version, wanted)
	if apierrors.IsConflict(err) {
		return err // nobody needs to hear of it: what was said is written over what somebody else wrote
	}
	if err == nil {
		r.mu.Lock()
		r.based = version
		r.mu.Unlock()
	}
	return r.told(err, words)
}

// write replaces those parts of the status that controllers report, unless the object has changed.
func (r *reporter) write(ctx context.Context, version string, status *operatorv1.OperatorStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version},
		"status": map[string]any{
			"conditions": status.Conditions, "generations": status.Generations,
			"observedGeneration": status.ObservedGeneration, "version": status.Version,
		},
	})
	if err != nil {
		return err
	}
	_, err = r.customResource.Patch(ctx, r.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: r.manager}, "status")
	return err
}

// told tells the result of a write to those who wait for it: all if it failed, else those whose words were
// among the first so many.
func (r *reporter) told(err error, words int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.recorded = words
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(w waiting) bool {
		if err == nil && w.words > words {
			return false
		}
		w.result <- err
		return true
	})
	return err
}

// summarized is what the status is to be: the current conditions and their summary.
func (r *reporter) summarized(is *operatorv1.OperatorStatus) *operatorv1.OperatorStatus {
	wanted := r.over(is)
	for _, c := range summarize(sorted(wanted).Conditions, r.expected) {
		c.LastTransitionTime = metav1.Now()
		setCondition(&wanted.Conditions, c)
	}
	return sorted(wanted)
}

// sorted returns a status whose conditions are sorted by type.
func sorted(status *operatorv1.OperatorStatus) *operatorv1.OperatorStatus {
	status = status.DeepCopy()
	slices.SortFunc(status.Conditions, func(a, b operatorv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) })
	return status
}
