package sharedvolume_test

import (
	"context"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// TestRetryAfter: an overloaded API server says when to retry. The same request is repeated then, and not before.
func TestRetryAfter(t *testing.T) {
	env := isolated(t)
	namespace := env.Namespace(t)
	env.grant(namespace, usualSpec.FileSystemID, v1alpha1.AllAccessPoints)
	asked := attempts{of: "persistentvolumeclaims"}
	injector := fault.Inject(fault.Point{
		Verb: "create", Resource: "persistentvolumeclaims", Namespace: namespace, Name: "pvc-logs",
		Manager: "sharedvolume-controller", Occurrence: 1}, fault.TooManyRequests)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- injector.Run(ctx, confined(isolatedConfig, namespace), func(ctx context.Context, cfg *rest.Config) error {
			cfg.Wrap(asked.record) // as the client sees it, before the fault is injected
			return sharedvolume.Run(ctx, cfg, sharedvolume.Options{})
		})
	}()
	env.ready(env.create(namespace, "logs"))
	cancel()
	env.do("the controller", <-done)

	got := asked.all
	if len(got) != 2 || got[0].code != http.StatusTooManyRequests || got[1].code != http.StatusCreated {
		t.Fatalf("the requests to create the claim were %+v; want 429 and then 201", got)
	}
	if waited := got[1].sent.Sub(got[0].answered); waited < got[0].retryAfter || got[0].retryAfter == 0 {
		t.Errorf("the request was repeated after %v, want %v at least", waited, got[0].retryAfter)
	}
}

// attempts are a client's requests to create objects of one resource.
type attempts struct {
	of  string
	mu  sync.Mutex
	all []attempt
}

type attempt struct {
	sent, answered time.Time
	code           int
	retryAfter     time.Duration
}

func (a *attempts) record(next http.RoundTripper) http.RoundTripper {
	return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
		sent := time.Now()
		response, err := next.RoundTrip(request)
		if err == nil && request.Method == http.MethodPost && path.Base(request.URL.Path) == a.of {
			seconds, _ := time.ParseDuration(response.Header.Get("Retry-After") + "s")
			a.mu.Lock()
			defer a.mu.Unlock()
			a.all = append(a.all, attempt{sent, time.Now(), response.StatusCode, seconds})
		}
		return response, err
	})
}
