package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
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

func TestAccessPoints(t *testing.T) {
	found := finding{present: true, reason: "Found", message: "m"}
	r := newAccessPoints()
	find := func(user, fileSystem, id string, want finding, wantKnown bool) {
		t.Helper()
		present, reason, message, known := r.Find(user, fileSystem, id)
		if got := (finding{present: present, reason: reason, message: message}); got != want || known != wantKnown {
			t.Errorf("of %s/%s, %+v is known (%v), want %+v (%v)", fileSystem, id, got, known, want, wantKnown)
		}
	}
	changed := func(want bool) {
		t.Helper()
		assert.Equal(t, want, take(r.Changed()), "changed")
	}
	wanted := func(unknown bool, want map[string][]string) {
		t.Helper()
		assert.Emptyf(t, cmp.Diff(want, r.named(unknown)), "access points, only of file systems with unknown ones: %v (-want +got)", unknown)
	}

	find("a", "fs1", "1", finding{}, false)
	find("b", "fs1", "2", finding{}, false)
	find("c", "fs2", "1", finding{}, false)
	if !take(r.missing) || take(r.missing) {
		t.Error("want one signal that something is unknown")
	}
	wanted(true, map[string][]string{"fs1": {"1", "2"}, "fs2": {"1"}})

	r.record("fs1", map[string]finding{"1": found, "2": {reason: "Lost"}, "3": found}) // nobody names the last one
	changed(true)
	find("a", "fs1", "1", found, true)
	find("b", "fs1", "2", finding{reason: "Lost"}, true)
	r.record("fs1", map[string]finding{"1": found, "2": {reason: "Lost"}})
	changed(false)
	wanted(true, map[string][]string{"fs2": {"1"}})
	wanted(false, map[string][]string{"fs1": {"1", "2"}, "fs2": {"1"}})

	r.giveUp("fs2", []string{"1"})
	find("c", "fs2", "1", finding{}, true)
	r.giveUp("fs1", []string{"1"})
	find("a", "fs1", "1", found, true) // it stays
	changed(false)

	r.Release("b")
	r.record("fs1", nil)
	assert.NotContains(t, r.known, place{"fs1", "2"}, "what is known of an access point that nobody names")

	take(r.missing)
	r.setBlind(true)
	changed(true)
	find("a", "fs1", "1", finding{}, true)
	find("new", "fs3", "1", finding{}, true)
	r.setBlind(true)
	changed(false)
	assert.False(t, take(r.missing), "nobody can look, and there is a signal that something is unknown")
	r.setBlind(false)
	find("a", "fs1", "1", finding{}, false)
	wanted(true, map[string][]string{"fs1": {"1"}, "fs2": {"1"}, "fs3": {"1"}})
}
