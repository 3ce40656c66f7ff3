package sharedvolume_test

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// isolated returns a cluster, shared by some tests, without a running controller: each of these tests runs its own controllers,
// confined to its own namespaces. SharedVolumes require grants there.
func isolated(t *testing.T) testEnv {
	t.Helper()
	t.Parallel()
	env := newTestEnv(t, cluster.Shared(t, cluster.Options{Name: "isolated"}))
	isolatedCluster.Do(func() {
		env.defineAll()
		env.setAccess(v1alpha1.AccessGranted)
		isolatedConfig = env.controllerConfig()
		// One controller writes the status of the policy, so that the others need not.
		stop := env.runConfined("none")
		policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}
		env.eventually("the policy's status", policy, func() error {
			if len(policy.Status.Conditions) == 0 {
				return errors.New("it has none")
			}
			return nil
		})
		stop()
	})
	return env
}

var (
	isolatedCluster sync.Once
	isolatedConfig  *rest.Config // the controllers'
)

// keptNamespace creates a namespace that is never deleted, with a grant for all that the tests' SharedVolumes use. Its
// deletion would wait for a controller, and many deletions take longer than the tests.
func (env testEnv) keptNamespace() string {
	env.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "isolated-"}}
	env.do("create", env.client.Create(env.t.Context(), namespace))
	env.grant(namespace.Name, usualSpec.FileSystemID, v1alpha1.AllAccessPoints)
	return namespace.Name
}

// confined returns the configuration of a controller that sees only one namespace: requests that list or watch the whole
// cluster are narrowed down to that namespace.
func confined(cfg *rest.Config, namespace string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
			request = request.Clone(request.Context()) // a RoundTripper must not change the request
			confine(request, namespace)
			return next.RoundTrip(request)
		})
	})
	return cfg
}

// confine narrows a request down to one namespace.
func confine(request *http.Request, namespace string) {
	if request.Method != http.MethodGet {
		return
	}
	switch folder, resource := path.Split(request.URL.Path); resource {
	case "sharedvolumes", "persistentvolumeclaims":
		if !strings.Contains(folder, "/namespaces/") {
			request.URL.Path = folder + "namespaces/" + namespace + "/" + resource
		}
	case "sharedvolumegrants":
		query := request.URL.Query()
		query.Set("fieldSelector", "metadata.name="+namespace)
		request.URL.RawQuery = query.Encode()
	case "persistentvolumes":
		query := request.URL.Query()
		query.Set("labelSelector", query.Get("labelSelector")+","+sharedvolume.OwnerNamespaceLabel+"="+namespace)
		request.URL.RawQuery = query.Encode()
	}
}

// runConfined runs a controller for one namespace until the returned function is called.
func (env testEnv) runConfined(namespace string) (stop func()) {
	return env.run(confined(isolatedConfig, namespace))
}
