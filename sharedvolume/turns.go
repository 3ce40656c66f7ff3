package sharedvolume

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turnTime is how long a turn lasts if the claim is not bound.
const turnTime = 10 * time.Second

// turnUse says what use a SharedVolume has for its turn.
type turnUse string

const (
	noTurn    turnUse = ""          // none, so another may have it
	awaitTurn turnUse = "await"     // it is in line for one
	handOver  turnUse = "hand over" // the binder has to bind its claim
)

// turns are rights to have a claim made and bound. Kubernetes' binder settles all claims of a cluster
// one after the other, first come, first served, and nothing overtakes what it has been handed. So each
// namespace hands it a few claims at a time, and the next only when one of them is bound: a claim of
// another namespace then waits for a few and not for thousands.
//
// A SharedVolume leaves when its turn has served, or can serve no longer. One whose claim is never
// bound loses its turn after turnTime.
type turns struct {
	pace pace // that a namespace begins at
	now  func() time.Time
	// wake is told of a SharedVolume whose turn comes after it has waited. It must not call back.
	wake func(types.NamespacedName)

	mu         sync.Mutex
	namespaces map[string]*namespaceTurns
}

// namespaceTurns are those of one namespace, by the names of its SharedVolumes.
type namespaceTurns struct {
	pace   pace                     // how many may have a turn at a time
	taken  map[string]*turn         // those that have one
	line   list.List                // those that wait for one, the first first
	places map[string]*list.Element // their places in the line
}

// turn tells since when a SharedVolume has its turn, and its claim has been the binder's to bind.
type turn struct{ since, handed time.Time }

func newTurns() *turns {
	return &turns{pace: pace{atOnce: firstPace}, now: time.Now, namespaces: map[string]*namespaceTurns{}}
}

// take tells whether a SharedVolume has a turn. If not, it is in line for one.
func (t *turns) take(key types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.namespaces[key.Namespace]
	if of == nil {
		of = &namespaceTurns{pace: t.pace, taken: map[string]*turn{}, places: map[string]*list.Element{}}
		t.namespaces[key.Namespace] = of
	}
	if its := of.taken[key.Name]; its != nil {
		if t.left(its) > 0 {
			return true
		}
		delete(of.taken, key.Name)
	}
	if of.places[key.Name] == nil {
		of.places[key.Name] = of.line.PushBack(key.Name)
	}
	t.advance(key.Namespace, key.Name)
	return of.taken[key.Name] != nil
}

// handOver is told that a claim and its volume are made, and are the binder's to bind. It returns how
// long the SharedVolume may keep its turn for that; 0 is that it has none, or none any more.
func (t *turns) handOver(key types.NamespacedName) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.namespaces[key.Namespace]
	if of == nil || of.taken[key.Name] == nil {
		return 0
	}
	its := of.taken[key.Name]
	if its.handed.IsZero() {
		its.handed = t.now()
	}
	left := t.left(its)
	if left == 0 {
		t.end(key)
	}
	return left
}

// leave ends the turn of a SharedVolume that waits for the binder no longer, or its waiting for a turn.
func (t *turns) leave(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.namespaces[key.Namespace]
	if of == nil {
		return
	}
	if place := of.places[key.Name]; place != nil {
		of.line.Remove(place)
		delete(of.places, key.Name)
	}
	if its := of.taken[key.Name]; its != nil && !its.handed.IsZero() {
		of.pace.bound(t.now(), t.now().Sub(its.handed), of.line.Len() > 0)
	}
	t.end(key)
}

// end ends a turn.
func (t *turns) end(key types.NamespacedName) {
	of := t.namespaces[key.Namespace]
	delete(of.taken, key.Name)
	t.advance(key.Namespace, "")
	if len(of.taken) == 0 {
		delete(t.namespaces, key.Namespace)
	}
}

// advance gives the turns that are free to those who have waited longest. It tells them, but for the
// one that asks itself.
func (t *turns) advance(namespace, asking string) {
	of := t.namespaces[namespace]
	for len(of.taken) < of.pace.atOnce && of.line.Len() > 0 {
		name := of.line.Remove(of.line.Front()).(string)
		delete(of.places, name)
		of.taken[name] = &turn{since: t.now()}
		if name != asking {
			t.wake(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// left returns how much of a turn's time is left.
func (t *turns) left(its *turn) time.Duration { return max(0, turnTime-t.now().Sub(its.since)) }
