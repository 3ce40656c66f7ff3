package operator_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/lab/fault"
)

// TestObservedConfigOfOthersReachesNoPod: somebody applies a ClusterCSIDriver that was exported, with a
// spec.observedConfig that is not the cluster's. The driver's pods follow what the operator has observed, even before
// it has corrected the object. A restarted operator does not follow the field either.
func TestObservedConfigOfOthersReachesNoPod(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	held := &observedConfigHold{}
	operate := func() (stop func()) {
		cfg := env.ServiceAccountConfig(t, env.namespace, "operator")
		cfg.Wrap(held.wrap)
		return env.startOperatorWith(cfg)
	}
	env.create(env.customResource())
	stop := operate()
	custom := env.waitForConditions(allWell)
	observed := string(custom.Spec.ObservedConfig.Raw)
	foreign := []byte(`{"targetcsiconfig":{"proxy":{"HTTP_PROXY":"http://elsewhere.test:3128"},"servingInfo":{"cipherSuites":["TLS_AES_128_GCM_SHA256"],"minTLSVersion":"VersionTLS10"}}}`)

	// The log level shows that the workloads' controllers have handled the change. Meanwhile the operator cannot correct it.
	follow := func(when string, level operatorv1.LogLevel, argumentOfLevel string) {
		t.Helper()
		env.waitForWorkloads(when+": the log level "+string(level), func(l workloads) error {
			return l.onBoth(func(pod corev1.PodTemplateSpec, c corev1.Container) error {
				if err := argument(c, argumentOfLevel); err != nil {
					return err
				}
				if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "HTTP_PROXY" }) {
					t.Errorf("%s: container %s has a proxy that only spec.observedConfig names", when, c.Name)
				}
				for _, other := range pod.Spec.Containers {
					assert.NotContainsf(t, other.Args, "--tls-min-version=VersionTLS10", "%s: arguments of container %s, of which only spec.observedConfig names the TLS version", when, other.Name)
				}
				return nil
			})
		})
	}
	held.begin()
	change(env, custom, func(c *operatorv1.ClusterCSIDriver) {
		c.Spec.LogLevel, c.Spec.ObservedConfig.Raw = operatorv1.Trace, foreign
	})
	follow("applied while the operator runs", operatorv1.Trace, "--v=6")
	held.end()
	corrected := func() {
		t.Helper()
		env.Await(t, limit, "spec.observedConfig to be corrected", custom, func() error {
			if diff := cmp.Diff(observed, string(custom.Spec.ObservedConfig.Raw)); diff != "" {
				return fmt.Errorf("it is (-before +now):\n%s", diff)
			}
			return nil
		})
	}
	corrected()

	stop()
	change(env, custom, func(c *operatorv1.ClusterCSIDriver) {
		c.Spec.LogLevel, c.Spec.ObservedConfig.Raw = operatorv1.Debug, foreign
	})
	held.begin()
	operate()
	follow("applied while no operator ran", operatorv1.Debug, "--v=4")
	held.end()
	corrected()
}

// An observedConfigHold fails the operator's writes of spec.observedConfig while it is active.
type observedConfigHold struct{ active atomic.Bool }

func (h *observedConfigHold) begin() { h.active.Store(true) }
func (h *observedConfigHold) end()   { h.active.Store(false) }

func (h *observedConfigHold) wrap(next http.RoundTripper) http.RoundTripper {
	return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
		if !h.active.Load() || request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/clustercsidrivers/") {
			return next.RoundTrip(request)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(body, []byte("/spec/observedConfig")) {
			return nil, errors.New("the test holds writes of spec.observedConfig")
		}
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(body))
		return next.RoundTrip(request)
	})
}
