package sharedvolume

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// turnsAt returns turns that go by a clock of the test's, and the names of those that were woken.
func slotsAt(clock *time.Time) (*slots, *[]string) {
	woken := &[]string{}
	t := newSlots()
	t.now = func() time.Time { return *clock }
	t.requeue = func(key types.NamespacedName) { *woken = append(*woken, key.String()) }
	return t, woken
}

func TestSlots(t *testing.T) {
	for _, test := range []struct {
		name string
		// do is what happens: a name asks for a turn, name- leaves, name= is handed over, and + lets a turn's
		// time pass. All is about one namespace unless a name has another's before it.
		do string
		// had are those that got a turn at once, woken those that got one later, both in that order.
		had, woken string
	}{
		{"some at once", "1 2 3 4", "1 2", ""},
		{"one leaves, the next comes", "1 2 3 4 2-", "1 2", "3"},
		{"first come, first served", "1 2 3 4 5 2- 1- 3-", "1 2", "3 4 5"},
		{"asking again changes nothing", "1 1 2 3 4 3 1- 2- 3-", "1 1 2", "3 4"},
		{"to be woken is to have a turn", "1 2 3 1- 3", "1 2 3", "3"},
		{"leaving the line", "1 2 3 4 3- 1-", "1 2", "4"},
		{"leaving the line, and coming back", "1 2 3 4 3- 3 1- 2-", "1 2", "4 3"},
		{"leaving twice", "1 2 3 4 1- 1-", "1 2", "3"},
		{"who left asks anew", "1 2 3 1- 1 2-", "1 2", "3 1"},
		{"leaving without a turn", "x- 1 2 3 x-", "1 2", ""},
		{"another namespace does not wait", "1 2 3 b/1", "1 2 b/1", ""},
		{"nor does its leaving help", "1 2 3 b/1 b/1-", "1 2 b/1", ""},
		{"a turn ends with its time", "1 2 3 4 + 2=", "1 2", "3"},
		{"and may be had again, in line", "1 2 3 + 1 2=", "1 2", "3 1"},
		{"at once if nobody waits", "1 2 + 1", "1 2 1", ""},
		{"who waits keeps the place", "1 2 3 4 3= + 3= 1=", "1 2", "3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := now
			turns, woken := slotsAt(&clock)
			turns.limiter.limit = 2
			var had []string
			for _, word := range strings.Fields(test.do) {
				name := strings.TrimRight(word, "-=")
				key := types.NamespacedName{Namespace: "a", Name: name}
				if namespace, of, ok := strings.Cut(name, "/"); ok {
					key = types.NamespacedName{Namespace: namespace, Name: of}
				}
				switch word[len(name):] {
				case "-":
					turns.release(key)
				case "=":
					turns.startBinding(key)
				default:
					if word == "+" {
						clock = clock.Add(slotTimeout)
					} else if turns.acquire(key) {
						had = append(had, name)
					}
				}
			}
			if diff := cmp.Diff(strings.Fields(test.had), had); diff != "" {
				t.Errorf("had a turn at once: %s", diff)
			}
			want := strings.Fields(test.woken)
			for i, name := range want {
				want[i] = "a/" + name
			}
			if diff := cmp.Diff(want, *woken); diff != "" {
				t.Errorf("woken: %s", diff)
			}
		})
	}
}

func TestSlotsTimeOut(t *testing.T) {
	clock := now
	turns, _ := slotsAt(&clock)
	key := types.NamespacedName{Namespace: "a", Name: "1"}
	if got := turns.startBinding(key); got != 0 {
		t.Errorf("without a turn, %v are left", got)
	}
	turns.acquire(key)
	clock = clock.Add(slotTimeout / 4)
	turns.acquire(key) // does not begin it anew
	if got, want := turns.startBinding(key), slotTimeout*3/4; got != want {
		t.Errorf("after a quarter, %v are left, want %v", got, want)
	}
	clock = clock.Add(slotTimeout * 3 / 4)
	if got := turns.startBinding(key); got != 0 || len(turns.namespaces) != 0 {
		t.Errorf("at the end, %v are left, and of the namespace %v", got, turns.namespaces)
	}
}

// Whatever happens in whichever order, no more than a few have a turn, everybody has one in the end,
// and nothing stays of those that have gone.
func TestSlotsReachEverybody(t *testing.T) {
	clock := now
	turns, woken := slotsAt(&clock)
	var all []types.NamespacedName
	for i := range 100 {
		all = append(all, types.NamespacedName{Namespace: fmt.Sprint("n", i%3), Name: fmt.Sprint(i)})
	}
	having := map[string][]types.NamespacedName{}
	for _, key := range all {
		if turns.acquire(key) {
			having[key.Namespace] = append(having[key.Namespace], key)
		}
	}
	var served []types.NamespacedName
	for len(served) < len(all) {
		for _, name := range *woken {
			key := requestOf(name).NamespacedName
			if !turns.acquire(key) {
				t.Fatalf("%v was woken without a turn", key)
			}
			having[key.Namespace] = append(having[key.Namespace], key)
		}
		*woken = nil
		before := len(served)
		for namespace, keys := range having {
			if len(keys) > turns.limiter.limit {
				t.Fatalf("in %s, %v have a turn", namespace, keys)
			}
			if len(keys) > 0 {
				turns.release(keys[0])
				served = append(served, keys[0])
				having[namespace] = keys[1:]
			}
		}
		if len(served) == before {
			t.Fatalf("nobody has a turn, but only %d of %d have had one", before, len(all))
		}
	}
	for _, key := range all {
		if !slices.Contains(served, key) {
			t.Errorf("%v never had a turn", key)
		}
	}
	if len(turns.namespaces) != 0 {
		t.Errorf("these are left: %v", turns.namespaces)
	}
}
