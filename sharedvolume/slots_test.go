package sharedvolume

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// recordsAt returns records with a clock of the test, and the names of the SharedVolumes that they requeue.
func recordsAt(clock *time.Time) (*records, *[]string) {
	requeued := &[]string{}
	t := newRecords()
	t.now = func() time.Time { return *clock }
	t.requeue = func(key types.NamespacedName) { *requeued = append(*requeued, key.String()) }
	return t, requeued
}

func TestSlots(t *testing.T) {
	for _, test := range []struct {
		name string
		// do are the actions: a name acquires a slot, name- releases it, name= starts binding, and + lets slotTimeout pass.
		// All names are in one namespace unless they have another one's prefix.
		do string
		// immediate lists the names that get a slot immediately, requeued the ones that get it later, both in that order.
		immediate, requeued string
	}{
		{"some immediately", "1 2 3 4", "1 2", ""},
		{"a released slot goes to the next", "1 2 3 4 2-", "1 2", "3"},
		{"first come, first served", "1 2 3 4 5 2- 1- 3-", "1 2", "3 4 5"},
		{"acquiring again changes nothing", "1 1 2 3 4 3 1- 2- 3-", "1 1 2", "3 4"},
		{"a requeued one holds a slot", "1 2 3 1- 3", "1 2 3", "3"},
		{"no longer waiting", "1 2 3 4 3- 1-", "1 2", "4"},
		{"no longer waiting, and waiting again", "1 2 3 4 3- 3 1- 2-", "1 2", "4 3"},
		{"releasing twice", "1 2 3 4 1- 1-", "1 2", "3"},
		{"acquiring after a release", "1 2 3 1- 1 2-", "1 2", "3 1"},
		{"releasing without a slot", "x- 1 2 3 x-", "1 2", ""},
		{"another namespace does not wait", "1 2 3 b/1", "1 2 b/1", ""},
		{"its release does not help", "1 2 3 b/1 b/1-", "1 2 b/1", ""},
		{"a slot times out", "1 2 3 4 + 2=", "1 2", "3"},
		{"acquiring after a timeout, behind others", "1 2 3 + 1 2=", "1 2", "3 1"},
		{"acquiring after a timeout, nobody waits", "1 2 + 1", "1 2 1", ""},
		{"one that waits keeps its position", "1 2 3 4 3= + 3= 1=", "1 2", "3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := now
			records, requeued := recordsAt(&clock)
			records.limiter.limit = 2
			var immediate []string
			for _, word := range strings.Fields(test.do) {
				name := strings.TrimRight(word, "-=")
				key := types.NamespacedName{Namespace: "a", Name: name}
				if namespace, of, ok := strings.Cut(name, "/"); ok {
					key = types.NamespacedName{Namespace: namespace, Name: of}
				}
				switch word[len(name):] {
				case "-":
					records.release(records.of(key))
				case "=":
					records.startBinding(records.of(key))
				default:
					if word == "+" {
						clock = clock.Add(slotTimeout)
					} else if records.acquire(records.of(key)) {
						immediate = append(immediate, name)
					}
				}
			}
			assert.Empty(t, cmp.Diff(strings.Fields(test.immediate), immediate), "immediately")
			want := strings.Fields(test.requeued)
			for i, name := range want {
				want[i] = "a/" + name
			}
			assert.Empty(t, cmp.Diff(want, *requeued), "requeued")
		})
	}
}

func TestSlotsTimeOut(t *testing.T) {
	clock := now
	records, _ := recordsAt(&clock)
	key := types.NamespacedName{Namespace: "a", Name: "1"}
	assert.Zero(t, records.startBinding(records.of(key)), "what remains without a slot")
	records.acquire(records.of(key))
	clock = clock.Add(slotTimeout / 4)
	records.acquire(records.of(key)) // does not restart the timeout
	assert.Equal(t, slotTimeout*3/4, records.startBinding(records.of(key)), "what remains after a quarter")
	clock = clock.Add(slotTimeout * 3 / 4)
	if got := records.startBinding(records.of(key)); got != 0 || len(records.namespaces) != 0 {
		t.Errorf("at the end, %v remain, and of the namespace %v", got, records.namespaces)
	}
}

// TestSlotsReachEverybody: at any time only a few hold a slot, everybody gets one in the end, and released slots leave
// no state.
func TestSlotsReachEverybody(t *testing.T) {
	clock := now
	records, requeued := recordsAt(&clock)
	var all []types.NamespacedName
	for i := range 100 {
		all = append(all, types.NamespacedName{Namespace: fmt.Sprint("n", i%3), Name: fmt.Sprint(i)})
	}
	having := map[string][]types.NamespacedName{}
	for _, key := range all {
		if records.acquire(records.of(key)) {
			having[key.Namespace] = append(having[key.Namespace], key)
		}
	}
	var served []types.NamespacedName
	for len(served) < len(all) {
		for _, name := range *requeued {
			key := requestOf(name).NamespacedName
			require.Truef(t, records.acquire(records.of(key)), "%v was requeued without a slot", key)
			having[key.Namespace] = append(having[key.Namespace], key)
		}
		*requeued = nil
		before := len(served)
		for namespace, keys := range having {
			require.LessOrEqualf(t, len(keys), records.limiter.limit, "in %s, %v hold a slot", namespace, keys)
			if len(keys) > 0 {
				records.release(records.of(keys[0]))
				served = append(served, keys[0])
				having[namespace] = keys[1:]
			}
		}
		require.NotEqualf(t, before, len(served), "nobody holds a slot, and not all %d have had one", len(all))
	}
	for _, key := range all {
		assert.Containsf(t, served, key, "%v never got a slot", key)
	}
	assert.Empty(t, records.namespaces, "these remain")
}
