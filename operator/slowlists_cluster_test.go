package operator_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/openstack"
)

// slowness is how much longer than others an API server takes for some lists: long enough for the controllers that do not wait
// for them to sync.
const slowness = 500 * time.Millisecond

// TestRestartWithSlowListIsNotDegraded: whichever list of a restarted operator takes long, as on a busy cluster, no controller
// takes what its cache does not have yet for missing, and reports a failure.
func TestRestartWithSlowListIsNotDegraded(t *testing.T) {
	t.Parallel()
	cloud := openstack.Start(t, "gold")
	env := newBackendTestEnv(t, cloud)
	lists := &listRecord{}
	cfg := env.ServiceAccountConfig(t, env.namespace, "operator")
	cfg.Wrap(lists.record)
	env.create(env.customResource())
	stop := env.startOperatorWith(cfg)
	env.waitForConditions(allWell)
	env.waitForBackend(operatorv1.ConditionTrue, operatorv1.ConditionFalse)
	stop()
	paths := env.withoutOwn(lists.paths)
	if !slices.ContainsFunc(paths, func(path string) bool { return strings.Contains(path, "/infrastructures?") }) {
		t.Errorf("the operator has listed only %q", paths)
	}
	changes := env.Record(t, &operatorv1.ClusterCSIDriverList{}, client.MatchingFields{metav1.ObjectNameField: env.driver.CSIName})
	for _, path := range paths {
		cfg := env.ServiceAccountConfig(t, env.namespace, "operator")
		t.Logf("slow: %s", path)
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return slow(next, path) })
		env.mustReconcile(cfg)
	}
	for _, change := range changes() {
		custom := change.Object.(*operatorv1.ClusterCSIDriver)
		for _, c := range custom.Status.Conditions {
			if strings.HasSuffix(c.Type, operatorv1.OperatorStatusTypeDegraded) && c.Status != operatorv1.ConditionFalse {
				t.Errorf("%s is %s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
}

// withoutOwn returns each of the lists once, without lists of the driver's own objects: controllers read these from the
// API server while their caches do not have them.
func (env *testEnv) withoutOwn(paths []string) []string {
	own := sets.New[string]()
	for _, object := range env.objects() {
		own.Insert("metadata.name=" + object.GetName())
	}
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	return slices.DeleteFunc(paths, func(path string) bool {
		_, selector, _ := strings.Cut(path, "?")
		return own.Has(selector)
	})
}

// mustReconcile starts an operator that finds objects missing, and ends it once it has recreated them.
func (env *testEnv) mustReconcile(cfg *rest.Config) {
	env.t.Helper()
	missing := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "manila-csi-driver-node-sa"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "csi-manila-gold"}},
	}
	for _, object := range missing {
		require.NoError(env.t, env.Client().Delete(env.t.Context(), object))
	}
	stop := env.startOperatorWith(cfg)
	defer stop()
	for _, object := range missing {
		cluster.Eventually(env.t, limit, "a missing object to be recreated", func(ctx context.Context) error {
			return env.Client().Get(ctx, client.ObjectKeyFromObject(object), object)
		})
	}
}

// A listRecord records a client's lists.
type listRecord struct {
	mu    sync.Mutex
	paths []string // of requests, with their field selectors
}

func (l *listRecord) record(next http.RoundTripper) http.RoundTripper {
	return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
		if path := listed(request); path != "" {
			l.mu.Lock()
			l.paths = append(l.paths, path)
			l.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// listed returns what fills an informer's cache by a request: a list, or a watch that begins with one. It is empty for others.
func listed(request *http.Request) string {
	query := request.URL.Query()
	if request.Method != http.MethodGet || !query.Has("limit") && !query.Has("resourceVersion") && query.Get("sendInitialEvents") != "true" {
		return ""
	}
	return request.URL.Path + "?" + query.Get("fieldSelector")
}

// slow delays a list.
func slow(next http.RoundTripper, path string) http.RoundTripper {
	return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
		if listed(request) == path {
			select {
			case <-time.After(slowness):
			case <-request.Context().Done():
				return nil, errors.New("the client gave up")
			}
		}
		return next.RoundTrip(request)
	})
}
