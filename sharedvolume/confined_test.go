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

	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
)

// apart returns a cluster, shared by some tests, in which no controller runs: each of these tests runs
// controllers of its own, confined to namespaces of its own. SharedVolumes need grants there.
func isolated(t *testing.T) testEnv {
	t.Helper()
	t.Parallel()
	env := newTestEnv(t, cluster.Shared(t, cluster.Options{Name: "apart"}))
	apartCluster.Do(func() {
		env.defineAll()
		env.setAccess(v1alpha1.AccessGranted)
		apartConfig = env.controllerConfig()
		// One controller writes what is to be said of the policy, so that none of the others has to.
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
	apartCluster sync.Once
	apartConfig  *rest.Config // the controllers'
)

// lasting creates a namespace that goes with the cluster, and grants it all that the tests' SharedVolumes ask
// for. Its deletion would wait for a controller, and many of them keep a cluster busy for longer than the tests.
func (env testEnv) keptNamespace() string {
	env.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "apart-"}}
	env.do("create", env.client.Create(env.t.Context(), namespace))
	env.grant(namespace.Name, usualSpec.FileSystemID, v1alpha1.AllAccessPoints)
	return namespace.Name
}

// confined returns the configuration of a controller that sees nothing but one namespace: where it
// lists or watches the whole cluster, it gets what belongs to that namespace.
func confined(cfg *rest.Config, namespace string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			request = request.Clone(request.Context()) // a RoundTripper must not change the request
			confine(request, namespace)
			return next.RoundTrip(request)
		})
	})
	return cfg
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// confine narrows a request down to one namespace, if it asks for more.
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
	return env.run(confined(apartConfig, namespace))
}
