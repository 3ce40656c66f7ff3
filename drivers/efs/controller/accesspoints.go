package controller

import (
	"maps"
	"slices"
	"sync"
)

// A place is an access point of a file system.
type place struct{ fileSystem, accessPoint string }

// AccessPoints holds the access points that SharedVolumes name, and the findings about them, so that a SharedVolume's
// status can report a mistyped ID before a pod hangs. The controller of SharedVolumes asks only about access points
// that the author of a SharedVolume was granted. Otherwise anybody could find out which access points exist.
type AccessPoints struct {
	mu    sync.Mutex
	users map[string]place // by SharedVolume
	known map[place]finding
	blind bool // the operator cannot call AWS
	// changed holds a value if the findings have changed. missing holds one if an access point has no finding.
	changed, missing chan struct{}
}

// newAccessPoints returns an empty set of access points.
func newAccessPoints() *AccessPoints {
	return &AccessPoints{
		users: map[string]place{}, known: map[place]finding{},
		changed: make(chan struct{}, 1), missing: make(chan struct{}, 1),
	}
}

// Find returns the finding about the access point that a SharedVolume names: whether it is present, with a reason and a
// message. The reason is "" if the operator cannot find out. At first there is no finding: known is false, and Find
// triggers the controller.
func (r *AccessPoints) Find(user, fileSystem, id string) (present bool, reason, message string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users[user] = place{fileSystem, id}
	if r.blind {
		return false, "", "", true
	}
	found, known := r.known[place{fileSystem, id}]
	if !known {
		signal(r.missing)
	}
	return found.present, found.reason, found.message, known
}

// Release forgets the access point of a SharedVolume.
func (r *AccessPoints) Release(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.users, user)
}

// Changed returns a channel that gets a value when Find would return a different result than before.
func (r *AccessPoints) Changed() <-chan struct{} { return r.changed }

// named returns the access points that SharedVolumes name, by file system. With unknown, it returns only file systems
// with an access point that has no finding.
func (r *AccessPoints) named(unknown bool) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	used, lacking := map[string]map[string]bool{}, map[string]bool{}
	for _, one := range r.users {
		if used[one.fileSystem] == nil {
			used[one.fileSystem] = map[string]bool{}
		}
		used[one.fileSystem][one.accessPoint] = true
		if _, known := r.known[one]; !known {
			lacking[one.fileSystem] = true
		}
	}
	found := map[string][]string{}
	for fileSystem, ids := range used {
		if !unknown || lacking[fileSystem] {
			found[fileSystem] = slices.Sorted(maps.Keys(ids))
		}
	}
	return found
}

// record records findings about access points of a file system, and forgets access points that no SharedVolume names
// any more.
func (r *AccessPoints) record(fileSystem string, findings map[string]finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := map[place]bool{}
	for _, one := range r.users {
		used[one] = true
	}
	maps.DeleteFunc(r.known, func(one place, _ finding) bool { return !used[one] })
	for id, found := range findings {
		one := place{fileSystem, id}
		if before, known := r.known[one]; used[one] && (!known || before != found) {
			r.known[one] = found
			signal(r.changed)
		}
	}
}

// signal puts a value into a channel with a buffer of one, unless the buffer is full.
func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// giveUp records, for each of a file system's access points that has no finding, that the operator cannot find out whether it exists.
// Other findings stay.
func (r *AccessPoints) giveUp(fileSystem string, ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if _, known := r.known[place{fileSystem, id}]; !known {
			r.known[place{fileSystem, id}] = finding{}
		}
	}
}

// setBlind records whether the operator cannot call AWS. If it cannot, setBlind removes the findings about all access points.
func (r *AccessPoints) setBlind(blind bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blind = blind; blind && len(r.known) > 0 {
		clear(r.known)
		signal(r.changed)
	}
}
