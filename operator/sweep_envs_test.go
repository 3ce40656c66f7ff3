package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A variantEnv is an environment for a variant of the driver. Runs use it one after the other.
type variantEnv struct {
	*testEnv
	variant   *variant
	cfg       *rest.Config // the operator's
	view      *view
	formerAPI client.Object // of the community's operator

	bare      map[string]any    // its state without a driver
	installed bool              // the last run has left the driver as an undisturbed operator installs it
	unadopted map[string]string // the UIDs of the last run's initial objects, by key
}

// has reports whether an object belongs to the environment.
func (env *variantEnv) has(object metav1.Object) bool {
	return object.GetNamespace() == env.namespace || object.GetName() == env.variant.CSIName || strings.Contains(object.GetName(), env.variant.mark)
}

// customResourceNow returns the ClusterCSIDriver, nil if there is none.
func (env *variantEnv) customResourceNow() *operatorv1.ClusterCSIDriver {
	live := env.view.object("ClusterCSIDriver " + env.variant.originalName)
	if live == nil {
		return nil
	}
	custom := &operatorv1.ClusterCSIDriver{}
	require.NoError(env.t, runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, custom))
	return custom
}

// renamed returns an object of the original under the variant's names.
func (env *variantEnv) renamed(object *unstructured.Unstructured) *unstructured.Unstructured {
	env.t.Helper()
	text, err := json.Marshal(object)
	require.NoError(env.t, err)
	renamed := &unstructured.Unstructured{}
	require.NoError(env.t, json.Unmarshal([]byte(env.variant.toVariant.Replace(string(text))), &renamed.Object))
	return renamed
}

// clear removes everything that the environment did not have at the beginning.
func (env *variantEnv) clear() {
	env.t.Helper()
	var removing errgroup.Group
	for key, object := range env.view.all() {
		if env.bare[key] != nil || metav1.GetControllerOf(object) != nil {
			continue // a pod is deleted with its owner
		}
		removing.Go(func() error {
			if err := env.remove(object.DeepCopy()); err != nil {
				return fmt.Errorf("clearing away %s: %w", key, err)
			}
			return nil
		})
	}
	require.NoError(env.t, removing.Wait())
	env.await("the environment to be clean", func() error {
		var left []string
		for key := range env.view.all() {
			if env.bare[key] == nil {
				left = append(left, key)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("it still has %q", left)
		}
		return nil
	})
}

func (env *variantEnv) remove(object *unstructured.Unstructured) error {
	if object.GetKind() == "ClusterCSIDriver" && len(object.GetFinalizers()) > 0 { // no operator is running to remove them
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := env.Client().Patch(context.Background(), object, patch); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(env.Client().Delete(context.Background(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// pool has the environments that no run uses.
type pool struct {
	mu       sync.Mutex
	returned *sync.Cond
	idle     []*variantEnv
}

func newPool(t *testing.T) *pool {
	p := &pool{}
	p.returned = sync.NewCond(&p.mu)
	for number := range variantNames {
		v := newVariant(t, efsDriver(t), number)
		env := &variantEnv{testEnv: newTestEnvOf(t, v.Driver), variant: v}
		v.placed(env.namespace)
		env.cfg = env.ServiceAccountConfig(t, env.namespace, "operator")
		env.view = newView(env)
		p.idle = append(p.idle, env)
	}
	watchEnvs(t, slices.Clone(p.idle))
	t.Cleanup(func() { // other tests use the same drivers
		for _, env := range p.idle {
			env.clear()
		}
	})
	formerAPI := p.idle[0].createAPI()
	for _, env := range p.idle {
		env.formerAPI = formerAPI
		env.await("what every namespace has", func() error {
			if env.view.object("ConfigMap kube-root-ca.crt") == nil {
				return fmt.Errorf("the certificate of the API server is missing")
			}
			return nil
		})
		env.bare = env.view.state()
	}
	return p
}

// take waits for an environment, for the test to use until it calls giveBack. It prefers one in which the driver is
// installed, or not.
func (p *pool) take(t *testing.T, installed bool) (env *variantEnv, giveBack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) == 0 {
		p.returned.Wait()
	}
	i := max(0, slices.IndexFunc(p.idle, func(env *variantEnv) bool { return env.installed == installed }))
	env = p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	outer := env.testEnv
	env.testEnv = outer.in(t)
	return env, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		env.testEnv = outer
		p.idle = append(p.idle, env)
		p.returned.Signal()
	}
}
