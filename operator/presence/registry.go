// Package presence has the controller that looks in the cloud for what objects of the driver's API refer to, such as access points, so
// that their status can tell of a mistyped ID before a pod hangs. It only reads, at the rate that all calls of the operator share.
package presence

import (
	"maps"
	"slices"
	"sync"

	"github.com/berth-csi/berth/drivers"
)

// A resource is one of a parent, such as an access point of a file system.
type resource struct{ parent, id string }

// A Registry has the resources that objects refer to, and what is known of them. The controller of the API registers only
// resources that the author of an object was granted: others would learn what exists.
type Registry struct {
	mu    sync.Mutex
	users map[string]resource // of objects
	known map[resource]drivers.Finding
	blind bool // nobody can look
	// changed and missing hold a value if what is known has changed, and if nothing is known of a resource.
	changed, missing chan struct{}
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{
		users: map[string]resource{}, known: map[resource]drivers.Finding{},
		changed: make(chan struct{}, 1), missing: make(chan struct{}, 1),
	}
}

// Find returns what is known of the resource that an object refers to: whether it is present, with a reason and a message. The reason
// is "" if nothing can be known. It is not known at first, and has the controller look.
func (r *Registry) Find(user, parent, id string) (present bool, reason, message string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users[user] = resource{parent, id}
	if r.blind {
		return false, "", "", true
	}
	finding, known := r.known[resource{parent, id}]
	if !known {
		signal(r.missing)
	}
	return finding.Present, finding.Reason, finding.Message, known
}

// Release forgets to what an object refers.
func (r *Registry) Release(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.users, user)
}

// Changed gets a value when Find would return something else than before.
func (r *Registry) Changed() <-chan struct{} { return r.changed }

// resources returns the IDs that objects refer to, by parent. If unknown, only those of parents with one of which nothing is known.
func (r *Registry) resources(unknown bool) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	used, lacking := map[string]map[string]bool{}, map[string]bool{}
	for _, one := range r.users {
		if used[one.parent] == nil {
			used[one.parent] = map[string]bool{}
		}
		used[one.parent][one.id] = true
		if _, known := r.known[one]; !known {
			lacking[one.parent] = true
		}
	}
	found := map[string][]string{}
	for parent, ids := range used {
		if !unknown || lacking[parent] {
			found[parent] = slices.Sorted(maps.Keys(ids))
		}
	}
	return found
}

// record records findings about resources of a parent, and forgets what no object refers to any more.
func (r *Registry) record(parent string, findings map[string]drivers.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := map[resource]bool{}
	for _, one := range r.users {
		used[one] = true
	}
	maps.DeleteFunc(r.known, func(one resource, _ drivers.Finding) bool { return !used[one] })
	for id, finding := range findings {
		one := resource{parent, id}
		if before, known := r.known[one]; used[one] && (!known || before != finding) {
			r.known[one] = finding
			signal(r.changed)
		}
	}
}

// signal puts a value into a channel of one, unless one is there.
func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// giveUp records that nothing can be known of those resources of a parent of which nothing is known. What is known of others stays.
func (r *Registry) giveUp(parent string, ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if _, known := r.known[resource{parent, id}]; !known {
			r.known[resource{parent, id}] = drivers.Finding{}
		}
	}
}

// setBlind says whether nobody can look. Then nothing is known of any resource, and nothing can be.
func (r *Registry) setBlind(blind bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blind = blind; blind && len(r.known) > 0 {
		clear(r.known)
		signal(r.changed)
	}
}
