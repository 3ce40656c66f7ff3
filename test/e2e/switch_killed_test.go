package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/crashloop"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/statediff"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/journey"
)

const (
	// killedShares is the number of SharedVolumes in a switch whose operator is killed at each write: two of each
	// team. The operator makes the same writes for each, and each write kills it twice.
	killedShares = 4
	// killedLimit limits the adoption by such an operator, which is killed about a hundred times.
	killedLimit = 15 * time.Minute
	// idlePeriod is how long an operator without work makes no requests. On a busy machine, one with work may pause for seconds.
	idlePeriod = 10 * time.Second
)

// TestSwitchWithKilledOperator switches by hand, with an operator that is killed before and after each of its writes,
// from the lock on until it has nothing more to write. The end state is the same as of an undisturbed switch. Volumes
// are served all the time, because that does not depend on an operator, and the lock is handed over only once, because
// it belongs to the pod.
func TestSwitchWithKilledOperator(t *testing.T) {
	t.Parallel()
	undisturbed, killed := switchWith(t, crashloop.Recorded), switchWith(t, crashloop.Killed)
	assert.Equal(t, 1, undisturbed.record.Lives, "lives of an operator that is not killed")
	assert.Empty(t, statediff.Difference(undisturbed.state, killed.state), "end state (-undisturbed +killed)")
	killed.checkKills(t, undisturbed)
}

// switchOutcome is the result of a switch.
type switchOutcome struct {
	record crashloop.Record
	state  map[string]any
	names  *strings.Replacer
}

// switchWith switches from the community's operator to ours, which may be killed at its writes.
func switchWith(t *testing.T, mode crashloop.Mode) (done switchOutcome) {
	t.Helper()
	succeeded := t.Run(string(mode), func(t *testing.T) {
		image := crashloop.Image(t, "./cmd/berth-operator", mode)
		t.Cleanup(func() { tell(t, image) })
		w := newEnvironment(t, efs(t), cluster.Options{Images: map[string]string{operatorImage: image}})
		w.switchFrom(communityBundles(t)[0], way{update: byHand.update, adopt: func(w *environment) {
			w.stepWithin(killedLimit, func(ctx context.Context, c client.Client) error {
				return journey.InstallDriver(ctx, c, w.driver.CSIName)
			})
			done.record = w.awaitIdle(image)
		}}, killedShares)
		done.state, done.names = w.endState()
	})
	if !succeeded {
		t.FailNow()
	}
	return done
}

// tell logs the faults of the operator if the test has failed.
func tell(t *testing.T, image string) {
	if !t.Failed() {
		return
	}
	record, err := crashloop.Read(image)
	assert.NoError(t, err)
	t.Logf("the operator was started %d times", record.Lives)
	for _, write := range record.Writes {
		if write.Fault != "" {
			t.Logf("life %d: %s %s, answer %d", write.Life, write.Point, write.Fault, write.Code)
		}
	}
}

// awaitIdle waits until the operator of an image makes no requests any more, and returns its record.
func (w *environment) awaitIdle(image string) (record crashloop.Record) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the operator to be idle", func(context.Context) (err error) {
		if record, err = crashloop.Read(image); err == nil && record.Idle < idlePeriod {
			err = fmt.Errorf("its last request was %s ago", record.Idle)
		}
		return err
	})
	return record
}

// endState returns all objects that the operator reads or writes: the driver, its ClusterCSIDriver, the objects of
// users, the lock, and the OperatorCondition. names replaces random names by the same ones in each run.
func (w *environment) endState() (state map[string]any, names *strings.Replacer) {
	w.t.Helper()
	own, named := client.InNamespace(namespace), client.MatchingLabels{"name": w.driver.Operator.Name}
	objects := slices.Concat(
		slices.DeleteFunc(w.driverObjects(), func(object *unstructured.Unstructured) bool { return !w.read(object) }),
		w.list(operatorv1.GroupVersion.WithKind("ClusterCSIDriver")),
		w.list(sharedvolume.GroupVersion.WithKind("SharedVolume")),
		w.list(sharedvolume.GroupVersion.WithKind("SharedVolumePolicy")),
		w.list(corev1.SchemeGroupVersion.WithKind("PersistentVolume")),
		w.list(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")),
		w.list(corev1.SchemeGroupVersion.WithKind("ConfigMap"), own, client.MatchingFields{metav1.ObjectNameField: w.driver.Operator.Lock}),
		w.list(operatorsv2.GroupVersion.WithKind("OperatorCondition"), own),
	)
	owners := slices.Concat(w.list(corev1.SchemeGroupVersion.WithKind("Pod"), own, named), w.list(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind), own))
	var renamed []string
	for _, object := range slices.Concat(objects, owners) {
		name := cmp.Or(object.GetGenerateName(), object.GetName())
		if name != object.GetName() { // only the random suffix differs between runs, or the name of a ReplicaSet
			name = object.GetLabels()["name"]
			renamed = append(renamed, object.GetName(), name)
		}
		renamed = append(renamed, string(object.GetUID()), "uid-of-"+name)
	}
	names, state = strings.NewReplacer(renamed...), map[string]any{}
	for _, object := range objects {
		like, err := statediff.Of(object, names)
		require.NoError(w.t, err)
		state[names.Replace(fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName()))] = like
	}
	return state, names
}

// list returns the objects of a kind that the options select.
func (w *environment) list(kind schema.GroupVersionKind, options ...client.ListOption) (objects []*unstructured.Unstructured) {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	require.NoError(w.t, w.Client().List(w.t.Context(), list, options...))
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects
}

// read reads an object, and reports whether it exists.
func (w *environment) read(object client.Object) bool {
	w.t.Helper()
	err := w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

// checkKills checks that the operator was killed before and after each write of an undisturbed switch, and that it
// has written nothing else.
func (s switchOutcome) checkKills(t *testing.T, undisturbed switchOutcome) {
	t.Helper()
	want, got := undisturbed.faults(), s.faults()
	kills := map[fault.Fault]int{}
	for target, faults := range got {
		assert.NotNilf(t, want[target], "the killed operator has written to %s, which an undisturbed one does not", target)
		for _, f := range []fault.Fault{fault.KilledBefore, fault.KilledAfter} {
			kills[f] += faults[f]
		}
	}
	for target := range want {
		if strings.HasPrefix(target, "events ") {
			continue // an event reports a write that has succeeded, which a killed process cannot
		}
		if got[target][fault.KilledBefore] == 0 || got[target][fault.KilledAfter] == 0 {
			t.Errorf("the faults at writes to %s were %v, want %s and %s", target, got[target], fault.KilledBefore, fault.KilledAfter)
		}
	}
	line := fmt.Sprintf("%s: %d lives, killed %d times before a write and %d after it, at all of %d targets",
		t.Name(), s.record.Lives, kills[fault.KilledBefore], kills[fault.KilledAfter], len(want))
	t.Log(line)
	fmt.Println(line)
}

// faults counts the faults at the operator's writes, by object and field manager. Whether the operator creates an
// object or updates it again depends on concurrent writes of others.
func (s switchOutcome) faults() map[string]map[fault.Fault]int {
	faults := map[string]map[fault.Fault]int{}
	for _, write := range s.record.Writes {
		p := write.Point
		if p.Verb == "delete" && p.Resource == "configmaps" {
			continue // the lock of the pod before, if the garbage collector has not deleted it yet
		}
		if p.Resource == "deployments" || p.Resource == "daemonsets" {
			p.Manager = "" // they are created with the operator's field manager, and library-go updates them without one
		}
		target := s.names.Replace(strings.Join(strings.Fields(strings.Join([]string{p.Resource, p.Namespace, p.Name, p.Manager}, " ")), " "))
		if faults[target] == nil {
			faults[target] = map[fault.Fault]int{}
		}
		faults[target][write.Fault]++
	}
	return faults
}
