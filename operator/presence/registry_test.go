package presence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/drivers"
)

// take reports whether a channel has a value, and takes it.
func take(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func TestRegistry(t *testing.T) {
	found := drivers.Finding{Present: true, Reason: "Found", Message: "m"}
	r := NewRegistry()
	find := func(user, parent, id string, want drivers.Finding, wantKnown bool) {
		t.Helper()
		present, reason, message, known := r.Find(user, parent, id)
		if got := (drivers.Finding{Present: present, Reason: reason, Message: message}); got != want || known != wantKnown {
			t.Errorf("of %s/%s, %+v is known (%v), want %+v (%v)", parent, id, got, known, want, wantKnown)
		}
	}
	changed := func(want bool) {
		t.Helper()
		if got := take(r.Changed()); got != want {
			t.Errorf("changed: %v, want %v", got, want)
		}
	}
	wanted := func(unknown bool, want map[string][]string) {
		t.Helper()
		if diff := cmp.Diff(want, r.resources(unknown)); diff != "" {
			t.Errorf("resources, only of parents with unknown ones: %v (-want +got):\n%s", unknown, diff)
		}
	}

	find("a", "fs1", "1", drivers.Finding{}, false)
	find("b", "fs1", "2", drivers.Finding{}, false)
	find("c", "fs2", "1", drivers.Finding{}, false)
	if !take(r.missing) || take(r.missing) {
		t.Error("want one signal that something is unknown")
	}
	wanted(true, map[string][]string{"fs1": {"1", "2"}, "fs2": {"1"}})

	r.record("fs1", map[string]drivers.Finding{"1": found, "2": {Reason: "Lost"}, "3": found}) // nobody refers to the last one
	changed(true)
	find("a", "fs1", "1", found, true)
	find("b", "fs1", "2", drivers.Finding{Reason: "Lost"}, true)
	r.record("fs1", map[string]drivers.Finding{"1": found, "2": {Reason: "Lost"}})
	changed(false)
	wanted(true, map[string][]string{"fs2": {"1"}})
	wanted(false, map[string][]string{"fs1": {"1", "2"}, "fs2": {"1"}})

	r.giveUp("fs2", []string{"1"})
	find("c", "fs2", "1", drivers.Finding{}, true)
	r.giveUp("fs1", []string{"1"})
	find("a", "fs1", "1", found, true) // it stays
	changed(false)

	r.Release("b")
	r.record("fs1", nil)
	if _, kept := r.known[resource{"fs1", "2"}]; kept {
		t.Error("a resource is kept to which nobody refers")
	}

	take(r.missing)
	r.setBlind(true)
	changed(true)
	find("a", "fs1", "1", drivers.Finding{}, true)
	find("new", "fs3", "1", drivers.Finding{}, true)
	r.setBlind(true)
	changed(false)
	if take(r.missing) {
		t.Error("nobody can look, and there is a signal that something is unknown")
	}
	r.setBlind(false)
	find("a", "fs1", "1", drivers.Finding{}, false)
	wanted(true, map[string][]string{"fs1": {"1"}, "fs2": {"1"}, "fs3": {"1"}})
}
