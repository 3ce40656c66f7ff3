package sharedvolume

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podsList replaces the list requests for a namespace's pods.
type podsList struct {
	pods  []pod
	takes time.Duration
	err   error
	at    []time.Time // of the requests
}

func (l *podsList) list(ctx context.Context, _ string, do func(pod) error) error {
	l.at = append(l.at, time.Now())
	select {
	case <-time.After(l.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, p := range l.pods {
		if err := do(p); err != nil {
			return err
		}
	}
	return l.err
}

func podWith(name string, claims ...string) pod {
	var p pod
	p.Metadata.Name = name
	for _, claim := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, struct {
			PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim"`
		}{&corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
	}
	return p
}

func TestUsers(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "team", Name: name} }
	for _, test := range []struct {
		name  string
		takes time.Duration
		err   error
		asked int             // for so many seconds
		lists []time.Duration // when, since the start
	}{
		{"quick", 0, nil, 35, []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}},
		{"slow", time.Second, nil, 35, []time.Duration{0, 21 * time.Second}},
		{"as slow as in a large namespace", 2 * time.Minute, nil, 3000, []time.Duration{0, 42 * time.Minute}},
		{"too slow", 10 * time.Minute, nil, 3000, []time.Duration{0}},
		{"failing", 0, errors.New("no"), 35, []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				source := &podsList{takes: test.takes, err: test.err,
					pods: []pod{podWith("a", "pvc-1", "pvc-1", "pvc-3"), podWith("b", "pvc-1"), podWith("c"), podWith("d", "pvc-3")}}
				u := newUsers(nil)
				u.list = source.list
				var mu sync.Mutex
				var requeued []string
				u.requeue = func(key types.NamespacedName) {
					mu.Lock()
					defer mu.Unlock()
					requeued = append(requeued, key.Name)
				}
				done := make(chan error)
				go func() { done <- u.Start(ctx) }()
				began := time.Now()
				for range test.asked { // Two SharedVolumes ask continuously.
					for _, name := range []string{"1", "2"} {
						names, pending := u.lookUp(key("pvc-"+name), key(name))
						if want := map[string][]string{"1": {"a", "b"}}[name]; !pending && !slices.Equal(names, want) {
							t.Errorf("pods with claim %s: %q, want %q", name, names, want)
						}
					}
					time.Sleep(time.Second)
					synctest.Wait()
				}
				var at []time.Duration
				for _, asked := range source.at {
					at = append(at, asked.Sub(began))
				}
				assert.Equal(t, test.lists, at, "when pods are listed")
				if answered := test.err == nil && test.takes < listTimeout; answered == (len(requeued) == 0) {
					t.Errorf("requeued were %q", requeued)
				}
				cancel()
				assert.NoError(t, <-done)
			})
		})
	}
}

// TestUsersOfEachClaim: a list that was made for one claim does not hide the pods of another, until nobody asks for these any more.
func TestUsersOfEachClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source := &podsList{pods: []pod{podWith("a", "pvc-1"), podWith("b", "pvc-2")}}
		u := newUsers(nil)
		u.list, u.requeue = source.list, func(types.NamespacedName) {}
		done := make(chan error)
		go func() { done <- u.Start(ctx) }()
		lookUp := func(claim string) []string {
			names, _ := u.lookUp(types.NamespacedName{Namespace: "team", Name: claim}, types.NamespacedName{Namespace: "team", Name: claim})
			synctest.Wait()
			return names
		}
		lookUp("pvc-1")
		assert.Equal(t, []string{"a"}, lookUp("pvc-1"))
		lookUp("pvc-2") // asks for the second list
		time.Sleep(usersMaxAge + time.Second)
		synctest.Wait()
		assert.Len(t, source.at, 2, "lists")
		assert.Equal(t, []string{"a"}, lookUp("pvc-1"), "after a list for another claim")
		for range 8 {
			time.Sleep(usersMaxAge + time.Second)
			synctest.Wait()
			lookUp("pvc-2")
		}
		assert.NotContains(t, u.byNamespace["team"].found, "pvc-1", "long after it was looked up")
		cancel()
		assert.NoError(t, <-done)
	})
}

// TestUsersKeepFew: however many pods use a claim, only a few are kept, and only of claims in question.
func TestUsersKeepFew(t *testing.T) {
	source := &podsList{}
	for i := range 1000 {
		source.pods = append(source.pods, podWith(string(rune('a'+i%26))+time.Duration(i).String(), "pvc-1", "pvc-2"))
	}
	u := newUsers(nil)
	u.list = source.list
	found, err := u.find(t.Context(), "team", []string{"pvc-1"})
	if err != nil || len(found) != 1 || len(found["pvc-1"]) != maxUsers {
		t.Errorf("found %v (%v), want %d pods of one claim", found, err, maxUsers)
	}
}
