package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestCreateAndDelete(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	sv := env.create(namespace, "logs")
	assert.EqualValues(t, v1alpha1.Pending, sv.Status.Phase, "a new SharedVolume")

	p := env.ready(sv)
	assert.Equal(t, "fs-0123456789abcdef0::fsap-0123456789abcdef0", p.volume.Spec.CSI.VolumeHandle, "the volume's handle")
	want := v1alpha1.SharedVolumeStatus{
		Phase:              v1alpha1.Ready,
		Reason:             "Ready",
		ClaimRef:           corev1.TypedLocalObjectReference{APIGroup: new(""), Kind: "PersistentVolumeClaim", Name: "pvc-logs"},
		ObservedGeneration: 1,
		Conditions:         sv.Status.Conditions,
	}
	assert.Empty(t, cmp.Diff(want, sv.Status))
	assert.Truef(t, meta.IsStatusConditionTrue(sv.Status.Conditions, v1alpha1.ConditionReady), "it is not Ready by its conditions: %v", sv.Status.Conditions)
	assert.Empty(t, cmp.Diff([]string{
		"patch sharedvolumes 200",
		"create persistentvolumeclaims 201",
		"create persistentvolumes 201",
		"patch sharedvolumes/status 200",
	}, env.writes(controllerUser, time.Time{}, namespace, p.volume.Name)), "writes on the way to Ready")

	before := time.Now()
	env.do("delete", env.client.Delete(t.Context(), sv))
	env.gone(sv)
	env.gone(p.claim)
	env.gone(p.volume)
	assert.Empty(t, cmp.Diff([]string{
		"patch sharedvolumes/status 200",
		"delete persistentvolumeclaims 200",
		"delete persistentvolumes 200",
		"patch sharedvolumes 200",
	}, env.writes(controllerUser, before, namespace, p.volume.Name)), "writes on the way out")
}

// TestReadyDuration: the metric shows how long a SharedVolume took to become ready. Other tests use it, too.
func TestReadyDuration(t *testing.T) {
	measured := func() (count uint64, seconds float64) {
		vec, err := testutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer, "berth_shared_volume_ready_duration_seconds", map[string]string{"driver": "efs.csi.aws.com"})
		if err != nil { // no measurements yet
			return 0, 0
		}
		return vec.GetAggregatedSampleCount(), vec.GetAggregatedSampleSum()
	}
	env := served(t)
	before, _ := measured()
	env.ready(env.create(env.Namespace(t), "logs"))
	after, seconds := measured()
	if after == before || seconds <= 0 {
		t.Errorf("%d SharedVolumes were measured before, and %d with this one, %f seconds", before, after, seconds)
	}
}

// TestManyAtOnce: lagging caches must not lead to repeated writes.
func TestManyAtOnce(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	var volumes []*v1alpha1.SharedVolume
	for i := range 40 {
		volumes = append(volumes, env.create(namespace, fmt.Sprintf("logs-%d", i)))
	}
	var names []string
	for _, sv := range volumes {
		names = append(names, env.ready(sv).volume.Name)
	}
	count := func(writes []string) map[string]int {
		counts := map[string]int{}
		for _, write := range writes {
			counts[write]++
		}
		return counts
	}
	assert.Empty(t, cmp.Diff(map[string]int{
		"patch sharedvolumes 200": 40, "create persistentvolumeclaims 201": 40,
		"create persistentvolumes 201": 40, "patch sharedvolumes/status 200": 40,
	}, count(env.writes(controllerUser, time.Time{}, namespace, names...))), "writes on the way to Ready")

	before := time.Now()
	env.do("delete", env.client.DeleteAllOf(t.Context(), &v1alpha1.SharedVolume{}, client.InNamespace(namespace)))
	for _, sv := range volumes {
		env.gone(sv)
	}
	assert.Empty(t, cmp.Diff(map[string]int{
		"patch sharedvolumes/status 200": 40, "delete persistentvolumeclaims 200": 40,
		"delete persistentvolumes 200": 40, "patch sharedvolumes 200": 40,
	}, count(env.writes(controllerUser, before, namespace, names...))), "writes on the way out")
	env.noVolumes(namespace)
}

// TestNoWritesOnceSettled: reconciling a settled SharedVolume again writes nothing.
func TestNoWritesOnceSettled(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	sv := env.create(namespace, "logs")
	p := env.ready(sv)
	before := time.Now()
	for i := range 20 {
		poke := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"touch":"%d"}}}`, i))
		for _, object := range []client.Object{sv, p.claim, p.volume} {
			env.do("touch", env.client.Patch(t.Context(), object, poke))
		}
	}
	// A later SharedVolume is worked on after the poked one.
	env.ready(env.create(env.Namespace(t), "marker"))
	assert.Empty(t, env.writes(controllerUser, before, namespace, p.volume.Name), "writes about a settled SharedVolume")
}

func TestForgedStatusIsReplaced(t *testing.T) {
	env := served(t)
	sv := env.create(env.Namespace(t), "logs")
	env.ready(sv)
	want := sv.Status.DeepCopy()
	env.do("forge", env.client.Status().Patch(t.Context(), sv, client.RawPatch(types.MergePatchType, []byte(
		`{"status":{"phase":"Failed","message":"look here","claimRef":{"name":"other"},"conditions":[]}}`))))
	env.ready(sv)
	want.Conditions[0].LastTransitionTime = sv.Status.Conditions[0].LastTransitionTime
	assert.Empty(t, cmp.Diff(*want, sv.Status))
}

// events waits for the events about an object: type, reason and count of each, in order.
func (env testEnv) events(object client.Object, want ...string) {
	env.t.Helper()
	cluster.Eventually(env.t, waitLimit, "the events", func(ctx context.Context) error {
		var events corev1.EventList
		if err := env.client.List(ctx, &events, client.InNamespace(object.GetNamespace())); err != nil {
			return err
		}
		slices.SortFunc(events.Items, func(a, b corev1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		var got []string
		for _, event := range events.Items {
			if event.InvolvedObject.UID == object.GetUID() {
				got = append(got, fmt.Sprintf("%s %s %d", event.Type, event.Reason, max(event.Count, 1)))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// writesBut returns the controller's writes in a namespace, except to one resource.
func (env testEnv) writesBut(namespace, resource string) []string {
	env.t.Helper()
	var found []string
	for _, write := range env.writes(controllerUser, time.Time{}, namespace) {
		if !strings.Contains(write, resource) {
			found = append(found, write)
		}
	}
	return found
}
