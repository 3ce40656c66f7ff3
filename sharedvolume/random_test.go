package sharedvolume_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

var (
	randomSeed = flag.Uint64("seed", 0, "run only the random sequence of this seed")
	randomTime = flag.Duration("random-time", 30*time.Second, "for how long to start new random sequences")
)

// TestRandomSequences performs random actions on some SharedVolumes, one after the other. In the end the state must match a
// simple model, and no write may follow.
func TestRandomSequences(t *testing.T) {
	env := isolated(t)
	if *randomSeed != 0 {
		env.runRandom(*randomSeed)
		return
	}
	seeds := make(chan uint64)
	var players sync.WaitGroup
	for range 4 {
		players.Go(func() {
			for seed := range seeds {
				t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { env.in(t).runRandom(seed) })
			}
		})
	}
	first := uint64(time.Now().UnixMilli())
	next := first
	for end := time.Now().Add(*randomTime); time.Now().Before(end) && !t.Failed(); next++ {
		seeds <- next
	}
	close(seeds)
	players.Wait()
	t.Logf("%d sequences, from seed %d on", next-first, first)
}

// sequence is one random sequence of actions.
type sequence struct {
	testEnv
	dice      *rand.Rand
	namespace string
	model     model
	stop      func() // the controller; nil while none runs
	injector  *fault.Injector
	// unlabelled are the volumes without labels, and unfinalized the volumes whose SharedVolume lost its finalizer, by
	// name.
	unlabelled, unfinalized map[string]bool
}

// model is the expected state.
type model struct {
	volumes map[string]*v1alpha1.SharedVolume        // by name
	foreign map[string]*corev1.PersistentVolumeClaim // others' claims with a SharedVolume's claim name, by the SharedVolume's name
}

func newModel() model {
	return model{map[string]*v1alpha1.SharedVolume{}, map[string]*corev1.PersistentVolumeClaim{}}
}

func (env testEnv) runRandom(seed uint64) {
	t := env.t
	s := &sequence{testEnv: env, dice: rand.New(rand.NewPCG(seed, 0)), namespace: env.keptNamespace(), model: newModel(), unlabelled: map[string]bool{}, unfinalized: map[string]bool{}}
	defer func() {
		if t.Failed() {
			t.Logf("to repeat it: go test ./sharedvolume -run TestRandomSequences -seed=%d", seed)
		}
		s.stopController("")
	}()
	s.startController("")
	for range 10 + s.dice.IntN(30) {
		s.perform()
	}
	s.waitFor("")
	s.awaitNoWrites(s.injector, s.namespace)
	s.stopController("")
	s.startController("")
	s.awaitNoWrites(s.injector, s.namespace)
}

// awaitModel waits until the state matches the model.
func (s *sequence) awaitModel() {
	s.t.Helper()
	cluster.Eventually(s.t, 2*waitLimit, "the expected state", func(context.Context) error {
		if s.injector.Idle() < quiet {
			return errors.New("the controller is busy")
		}
		expected, actual := s.model.expected(s.namespace), s.actual(s.namespace)
		s.ignoreUnknown(actual, expected)
		if diff := cmp.Diff(expected, actual); diff != "" {
			return fmt.Errorf("(-expected +actual):\n%s", diff)
		}
		return nil
	})
}

// ignoreUnknown removes the lines about volumes that stay because their owner is unknown: their SharedVolume was
// deleted, without its finalizer, before the controller could restore the labels.
func (s *sequence) ignoreUnknown(actual, expected map[string]string) {
	for volume := range s.unlabelled {
		key := "PersistentVolume " + volume
		if s.unfinalized[volume] && expected[key] == "" && strings.HasSuffix(actual[key], noLabels) {
			delete(actual, key)
		}
	}
}

// noLabels ends the line about a volume without labels.
var noLabels = fmt.Sprintf(", %v", map[string]string{})

// expected returns a line about each expected object.
func (m model) expected(namespace string) map[string]string {
	lines := map[string]string{}
	for _, claim := range m.foreign {
		lines["PersistentVolumeClaim "+claim.Name] = fmt.Sprintf("Pending, UID %s", claim.UID)
	}
	for name, sv := range m.volumes {
		claim, volume := sharedvolume.ClaimName(name), "sharedvolume-"+string(sv.UID)
		if m.foreign[name] != nil {
			lines["SharedVolume "+name] = fmt.Sprintf("Failed, Conflict, UID %s, claim %q, message %q", sv.UID, "",
				"PersistentVolumeClaim "+claim+" exists and was not created for this SharedVolume; delete it, or use a SharedVolume of another name")
			continue
		}
		labels := map[string]string{
			sharedvolume.OwnedLabel: "true", sharedvolume.OwnerNamespaceLabel: namespace,
			sharedvolume.OwnerNameLabel: name, sharedvolume.OwnerUIDLabel: string(sv.UID),
		}
		lines["SharedVolume "+name] = fmt.Sprintf("Ready, Bound, UID %s, claim %q, message %q", sv.UID, claim, "")
		lines["PersistentVolumeClaim "+claim] = fmt.Sprintf("Bound to %s, %v", volume, labels)
		lines["PersistentVolume "+volume] = fmt.Sprintf("Bound to %s/%s, %s::%s, Retain, %v", namespace, claim, sv.Spec.FileSystemID, sv.Spec.AccessPointID, labels)
	}
	return lines
}

// actual returns such a line about each object that exists.
func (env testEnv) actual(namespace string) map[string]string {
	env.t.Helper()
	lines := map[string]string{}
	var volumes v1alpha1.SharedVolumeList
	env.do("list", env.client.List(env.t.Context(), &volumes, client.InNamespace(namespace)))
	for _, sv := range volumes.Items {
		reason := ""
		if ready := meta.FindStatusCondition(sv.Status.Conditions, v1alpha1.ConditionReady); ready != nil && (ready.Status == metav1.ConditionTrue) == (sv.Status.Phase == v1alpha1.Ready) {
			reason = ready.Reason
		}
		lines["SharedVolume "+sv.Name] = fmt.Sprintf("%s, %s, UID %s, claim %q, message %q", sv.Status.Phase, reason, sv.UID, sv.Status.ClaimRef.Name, sv.Status.Message) + going(&sv)
	}
	var claims corev1.PersistentVolumeClaimList
	env.do("list", env.client.List(env.t.Context(), &claims, client.InNamespace(namespace)))
	for _, claim := range claims.Items {
		line := fmt.Sprintf("%s to %s, %v", claim.Status.Phase, claim.Spec.VolumeName, claim.Labels)
		if claim.Spec.Selector == nil {
			line = fmt.Sprintf("%s, UID %s", claim.Status.Phase, claim.UID)
		}
		lines["PersistentVolumeClaim "+claim.Name] = line + going(&claim)
	}
	var all corev1.PersistentVolumeList
	env.do("list", env.client.List(env.t.Context(), &all))
	for _, volume := range all.Items {
		if ref := volume.Spec.ClaimRef; ref != nil && ref.Namespace == namespace {
			lines["PersistentVolume "+volume.Name] = fmt.Sprintf("%s to %s/%s, %s, %s, %v", volume.Status.Phase, ref.Namespace, ref.Name,
				volume.Spec.CSI.VolumeHandle, volume.Spec.PersistentVolumeReclaimPolicy, volume.Labels) + going(&volume)
		}
	}
	return lines
}

func going(object client.Object) string {
	if object.GetDeletionTimestamp() != nil {
		return ", being deleted"
	}
	return ""
}
