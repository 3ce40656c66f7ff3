package listing_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/tenant"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestTenantMakesLargePods: reading pods of 1 MB takes little more memory than one of them.
func TestTenantMakesLargePods(t *testing.T) {
	const pods, each, most = 60, 1_000_000, 12 << 20
	c := cluster.Shared(t, cluster.Options{})
	who := tenant.New(t, c)
	project := who.Project(t, "")
	for i := range pods {
		err := who.Client.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: fmt.Sprintf("large-%d", i)},
			Spec: corev1.PodSpec{
				SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}},
				Containers:      []corev1.Container{{Name: "main", Image: "example.com/any", Args: []string{strings.Repeat("x", each)}}},
			},
		})
		require.NoError(t, err)
	}
	core := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().RESTClient()
	alive := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	type pod struct {
		Metadata struct{ Name string }
	}
	before, peak, names := alive(), 0, map[string]bool{}
	err := listing.Each(t.Context(), core, listing.List{Resource: "pods", Namespace: project}, func(p pod) error {
		names[p.Metadata.Name] = true
		peak = max(peak, alive())
		return nil
	})
	require.NoError(t, err)
	require.Len(t, names, pods, "pods were read")
	t.Logf("%d KiB are in memory at most", (peak-before)>>10)
	assert.LessOrEqualf(t, peak-before, most, "bytes in memory at a time, of %d", pods*each)
}

// The selectors go to the API server.
func TestSelectors(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	for _, name := range []string{"a", "b", "c"} {
		err := c.Client().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"vowel": fmt.Sprint(name == "a")}}})
		require.NoError(t, err)
	}
	core := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().RESTClient()
	for _, test := range []struct {
		list listing.List
		want string
	}{
		{listing.List{Labels: "vowel=true"}, "a"},
		{listing.List{Labels: "vowel=false", Fields: "metadata.name!=b"}, "c"},
		{listing.List{Fields: "metadata.name!=kube-root-ca.crt,metadata.name!=openshift-service-ca.crt"}, "abc"},
	} {
		test.list.Resource, test.list.Namespace = "configmaps", namespace
		got := ""
		err := listing.Each(t.Context(), core, test.list, func(object metav1.PartialObjectMetadata) error {
			got += object.Name
			return nil
		})
		assert.NoError(t, err)
		assert.Equalf(t, test.want, got, "%+v", test.list)
	}
}

// TestExpiredPages: between two pages, etcd forgets the revision of the first. The list continues, and returns each
// object once. The API server reads each page of events from etcd: it does not cache them.
func TestExpiredPages(t *testing.T) {
	const events = 120 // more than a page
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	create := func(name string) {
		t.Helper()
		require.NoError(t, c.Client().Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
			InvolvedObject: corev1.ObjectReference{Namespace: namespace},
		}))
	}
	for i := range events {
		create(fmt.Sprintf("event-%03d", i))
	}
	seen := map[string]int{}
	core := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().RESTClient()
	err := listing.Each(t.Context(), core, listing.List{Resource: "events", Namespace: namespace}, func(event metav1.PartialObjectMetadata) error {
		if len(seen) == 0 {
			create("after") // the list is of an earlier revision
			c.Compact(t)
		}
		seen[event.Name]++
		return nil
	})
	require.NoError(t, err)
	for i := range events {
		if name := fmt.Sprintf("event-%03d", i); seen[name] != 1 {
			t.Errorf("%s was listed %d times, want once", name, seen[name])
		}
	}
}
