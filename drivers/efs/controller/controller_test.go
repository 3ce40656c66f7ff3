package controller

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-csi/berth/lab/aws"
)

// serveLists makes the loop read lists of nodes and StorageClasses.
func serveLists(t *testing.T, c *loop, classes ...string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/storageclasses") {
			_, _ = fmt.Fprintf(w, `{"kind":"StorageClassList","apiVersion":"storage.k8s.io/v1","metadata":{},"items":[%s]}`, strings.Join(classes, ","))
			return
		}
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[
			{"metadata":{"name":"a","labels":{"topology.kubernetes.io/zone":"b"}}},{"metadata":{"name":"b","labels":{"topology.kubernetes.io/zone":"a"}}},
			{"metadata":{"name":"c","labels":{"topology.kubernetes.io/zone":"a"}}},{"metadata":{"name":"d"}}]}`)
	}))
	t.Cleanup(server.Close)
	kube := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	c.Core, c.Storage = kube.CoreV1().RESTClient(), kube.StorageV1().RESTClient()
}

// caller returns what calls the cloud without a limit.
func (c *tagsCloud) caller() *caller {
	c.t.Helper()
	made, err := connect(access{Infrastructure: c.infrastructure(), Credentials: keyPair(c.key), Wait: func(context.Context, bool) error { return nil }})
	require.NoError(c.t, err)
	c.t.Cleanup(made.close)
	return made
}

// since returns how often each call was made after the first ones.
func (c *tagsCloud) since(first int) map[string]int {
	made := map[string]int{}
	for _, call := range c.Calls()[first:] {
		made[call.Action]++
	}
	return made
}

// TestListsOnce: when tags, the count and SharedVolumes are due at the same time, the access points of a file system
// are listed once.
func TestListsOnce(t *testing.T) {
	t.Parallel()
	cloud := newTagsCloud(t, aws.Options{})
	fileSystem := cloud.fileSystem()
	handles := []string{cloud.accessPoint(fileSystem, ours), cloud.accessPoint(fileSystem, ours)}
	_, id, _ := strings.Cut(handles[0], "::")
	c := newTestLoop()
	serveLists(t, c, fmt.Sprintf(`{"metadata":{"name":"efs"},"provisioner":"efs.csi.aws.com","parameters":{"provisioningMode":"efs-ap","fileSystemId":%q}}`, fileSystem))
	c.count, c.look = time.Time{}, time.Time{}
	c.accessPoints.Find("shared", fileSystem, id)
	before := len(cloud.Calls())
	result, err := c.setTags(t.Context(), &tagger{caller: cloud.caller(), tags: map[string]string{"team": "storage"}, refused: map[string]string{}}, accessPointsOf(handles))
	require.NoError(t, err)
	assert.Equal(t, 2, result.changed, "access points that got tags")
	if _, reason, _, known := c.accessPoints.Find("shared", fileSystem, id); !known || reason != "Found" {
		t.Errorf("the SharedVolume's access point is known: %v, %q; want it found", known, reason)
	}
	assert.NotNil(t, c.shown.used.shown[fileSystem], "the access points were not counted")
	want := map[string]int{"DescribeAccessPoints": 1, "DescribeMountTargets": 1, "TagResource": 2}
	assert.Empty(t, cmp.Diff(want, cloud.since(before)), "calls (-want +got)")
	// At the next look, the count is due within a minute, and one list serves both.
	c.count, c.look = c.Clock.Now().Add(lead), time.Time{}
	before = len(cloud.Calls())
	if _, err := c.lookAt(t.Context(), cloud.caller(), nil, nil); err != nil || cloud.since(before)["DescribeAccessPoints"] != 1 || c.count.Sub(c.Clock.Now()) <= lead {
		t.Errorf("the calls are %v, error %v, and the next count is in %v; want one list, which counts, too", cloud.since(before), err, c.count.Sub(c.Clock.Now()))
	}
	before = len(cloud.Calls())
	if next, err := c.lookAt(t.Context(), cloud.caller(), nil, nil); err != nil || next <= 0 || len(cloud.Calls()) != before {
		t.Errorf("when nothing is due, the next look is in %v, error %v, after the calls %v", next, err, cloud.since(before))
	}
}

// TestManyUnknown: however many IDs SharedVolumes name, a file system is looked at four times a minute at most, and all of it again only
// at the interval.
func TestManyUnknown(t *testing.T) {
	t.Parallel()
	cloud := newTagsCloud(t, aws.Options{})
	fileSystem := cloud.fileSystem()
	clock := clocktesting.NewFakeClock(time.Now())
	c := newTestLoop()
	serveLists(t, c)
	c.Clock, c.count, c.look = clock, clock.Now().Add(24*time.Hour), clock.Now().Add(24*time.Hour)
	if zones, err := c.zones(t.Context()); err != nil || !slices.Equal(zones, []string{"a", "b"}) {
		t.Errorf("the zones are %q, error %v, want a and b", zones, err)
	}
	caller, first := cloud.caller(), len(cloud.Calls())
	look := func(want int) time.Duration {
		t.Helper()
		wait, err := c.lookAt(t.Context(), caller, nil, nil)
		if got := cloud.since(first)["DescribeAccessPoints"]; err != nil || got != want {
			t.Errorf("the file system was looked at %d times, error %v; want %d", got, err, want)
		}
		return wait
	}
	for second := range 60 {
		c.accessPoints.Find(fmt.Sprint("object", second), fileSystem, fmt.Sprint("id", second))
		wait := look(second/15 + 1)
		if at := time.Duration(second%15) * time.Second; at > 0 && wait != pause-at {
			t.Errorf("after %d seconds, the next look is in %v, want %v", second, wait, pause-at)
		}
		clock.Step(time.Second)
	}
	look(5)
	if _, _, _, known := c.accessPoints.Find("object59", fileSystem, "id59"); !known {
		t.Error("nothing is known of the last one")
	}
	clock.Step(time.Minute)
	look(5) // all is known
	c.look = clock.Now()
	look(6)
}
