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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/crashloop"
	"github.com/berth-csi/berth/test/fault"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/statediff"
)

const (
	// killedShares is how many SharedVolumes live through a switch whose operator is killed at each write: two
	// of each team. The operator writes the same of each, and each costs it two lives.
	killedShares = 4
	// killedLimit bounds the adoption by such an operator, which takes it about a hundred lives.
	killedLimit = 6 * time.Minute
	// silence is for how long an operator that has settled asks for nothing.
	silence = 3 * time.Second
)

// TestSwitchWithKilledOperator is the switch by hand with an operator that is killed at each of its writes,
// before it and after it, from the lock on until it has nothing more to write. In the end all is as if nobody
// had killed it, and nobody has noticed: no volume was without service at any moment, as that does not depend
// on an operator, and the lock was handed over once, as it is the pod's.
func TestSwitchWithKilledOperator(t *testing.T) {
	undisturbed, killed := switchWith(t, crashloop.Recorded), switchWith(t, crashloop.Killed)
	if undisturbed.record.Lives != 1 {
		t.Errorf("an operator that nobody kills was started %d times", undisturbed.record.Lives)
	}
	if diff := statediff.Difference(undisturbed.state, killed.state); diff != "" {
		t.Errorf("objects in the end (-undisturbed +killed):\n%s", diff)
	}
	killed.checkKills(t, undisturbed)
}

// switchOutcome is what has come of a switch.
type switchOutcome struct {
	record crashloop.Record
	state  map[string]any
	names  *strings.Replacer
}

// switchWith goes from the community's operator to ours, which runs in a mode.
func switchWith(t *testing.T, mode crashloop.Mode) (done switchOutcome) {
	t.Helper()
	succeeded := t.Run(string(mode), func(t *testing.T) {
		image := crashloop.Image(t, "./cmd/berth-operator", mode)
		t.Cleanup(func() { tell(t, image) })
		w := newEnvironment(t, efs(t), cluster.Options{Images: map[string]string{operatorImage: image}})
		w.switchFrom(communityBundles(t)[0], way{turn: byHand.turn, adopt: func(w *environment) {
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

// tell logs what has happened to the operator, if the test has failed.
func tell(t *testing.T, image string) {
	if !t.Failed() {
		return
	}
	record, err := crashloop.Read(image)
	if err != nil {
		t.Error(err)
	}
	t.Logf("the operator was started %d times", record.Lives)
	for _, write := range record.Writes {
		if write.Fault != "" {
			t.Logf("life %d: %s %s, answer %d", write.Life, write.Point, write.Fault, write.Code)
		}
	}
}

// awaitIdle waits until the operator that an image runs has nothing to do any more, and returns what has
// happened to it.
func (w *environment) awaitIdle(image string) (record crashloop.Record) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the operator to have nothing to do", func(context.Context) (err error) {
		if record, err = crashloop.Read(image); err == nil && record.Idle < silence {
			err = fmt.Errorf("it has asked for something %s ago", record.Idle)
		}
		return err
	})
	return record
}

// endState is all that the operator has to do with: the driver, its ClusterCSIDriver, what users have, the
// lock, and what OLM hears. names gives what is named at random the same name in each run.
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
		if name != object.GetName() { // all but the random end of it is the same in each run, or the name of a ReplicaSet
			name = object.GetLabels()["name"]
			renamed = append(renamed, object.GetName(), name)
		}
		renamed = append(renamed, string(object.GetUID()), "uid-of-"+name)
	}
	names, state = strings.NewReplacer(renamed...), map[string]any{}
	for _, object := range objects {
		like, err := statediff.Of(object, names)
		if err != nil {
			w.t.Fatal(err)
		}
		state[names.Replace(fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName()))] = like
	}
	return state, names
}

// list returns all objects of a kind that the options say.
func (w *environment) list(kind schema.GroupVersionKind, options ...client.ListOption) (objects []*unstructured.Unstructured) {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := w.Client().List(w.t.Context(), list, options...); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects
}

// read fills an object with what the cluster has of it, and tells whether there is one.
func (w *environment) read(object client.Object) bool {
	w.t.Helper()
	err := w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

// checkKills checks that the operator was killed at all that it writes in an undisturbed switch, before it and
// after it, and that it has written nothing else.
func (s switchOutcome) checkKills(t *testing.T, undisturbed switchOutcome) {
	t.Helper()
	want, got := undisturbed.faults(), s.faults()
	kills := map[fault.Fault]int{}
	for target, faults := range got {
		if want[target] == nil {
			t.Errorf("the operator that was killed has written to %s, and an undisturbed one does not", target)
		}
		for _, f := range []fault.Fault{fault.KilledBefore, fault.KilledAfter} {
			kills[f] += faults[f]
		}
	}
	for target := range want {
		if strings.HasPrefix(target, "events ") {
			continue // an event tells of a write that has succeeded, and a process that has died tells nothing
		}
		if got[target][fault.KilledBefore] == 0 || got[target][fault.KilledAfter] == 0 {
			t.Errorf("at its writes to %s the operator has met: %v, want %s and %s", target, got[target], fault.KilledBefore, fault.KilledAfter)
		}
	}
	line := fmt.Sprintf("%s: %d lives, killed %d times before a write and %d after it, at all of %d targets",
		t.Name(), s.record.Lives, kills[fault.KilledBefore], kills[fault.KilledAfter], len(want))
	t.Log(line)
	fmt.Println(line)
}

// faults counts what has happened at the operator's writes, by what they are to and in whose name. Whether it
// creates an object, or updates it some more, depends on what others are doing to it meanwhile.
func (s switchOutcome) faults() map[string]map[fault.Fault]int {
	faults := map[string]map[fault.Fault]int{}
	for _, write := range s.record.Writes {
		p := write.Point
		if p.Resource == "deployments" || p.Resource == "daemonsets" {
			p.Manager = "" // They are created in the operator's name, and updated by library-go in nobody's.
		}
		target := s.names.Replace(strings.Join(strings.Fields(strings.Join([]string{p.Resource, p.Namespace, p.Name, p.Manager}, " ")), " "))
		if faults[target] == nil {
			faults[target] = map[fault.Fault]int{}
		}
		faults[target][write.Fault]++
	}
	return faults
}
