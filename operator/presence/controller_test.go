package presence

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-csi/berth/drivers"
)

// TestManyUnknown: however many IDs objects name, a parent is searched four times a minute at most, and all of it again only at the
// interval.
func TestManyUnknown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[
			{"metadata":{"name":"a","labels":{"topology.kubernetes.io/zone":"b"}}},{"metadata":{"name":"b","labels":{"topology.kubernetes.io/zone":"a"}}},
			{"metadata":{"name":"c","labels":{"topology.kubernetes.io/zone":"a"}}},{"metadata":{"name":"d"}}]}`)
	}))
	defer server.Close()
	clock := clocktesting.NewFakeClock(time.Now())
	searches := 0
	c := &controller{
		Options: Options{
			Registry: NewRegistry(), Clock: clock, Core: kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL}).CoreV1().RESTClient(),
			Driver: drivers.Driver{Presence: &drivers.Presence{Interval: 10 * time.Minute,
				Find: func(_ context.Context, _ drivers.CloudAccess, parent string, ids, zones []string) (map[string]drivers.Finding, error) {
					if searches++; parent != "fs" || fmt.Sprint(zones) != "[a b]" {
						t.Errorf("search of %s from %q, want of fs from zones a and b", parent, zones)
					}
					found := map[string]drivers.Finding{}
					for _, id := range ids {
						found[id] = drivers.Finding{Reason: "Lost"}
					}
					return found, nil
				}}},
		},
		looked: map[string]time.Time{},
	}
	observe := func(everything bool) time.Duration {
		t.Helper()
		wait, err := c.observe(t.Context(), drivers.CloudAccess{}, c.Registry.resources(!everything), everything)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	for second := range 60 {
		c.Registry.Find(fmt.Sprint("object", second), "fs", fmt.Sprint("id", second))
		wait := observe(false)
		if at := time.Duration(second%15) * time.Second; at > 0 && wait != pause-at {
			t.Errorf("after %d seconds, the next search is in %v, want %v", second, wait, pause-at)
		}
		clock.Step(time.Second)
	}
	if searches != 4 {
		t.Errorf("in a minute, the parent was searched %d times, want 4", searches)
	}
	observe(false)
	if _, _, _, known := c.Registry.Find("object59", "fs", "id59"); !known || searches != 5 {
		t.Errorf("the last resource is known (%v) after %d searches, want 5", known, searches)
	}
	clock.Step(time.Minute)
	if observe(false); searches != 5 {
		t.Errorf("although all is known, the parent was searched again")
	}
	if observe(true); searches != 6 {
		t.Errorf("at the interval, the parent was not searched again")
	}
}
