package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	olmv1 "github.com/operator-framework/api/pkg/operators/v1"
	olmv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	olmv2 "github.com/operator-framework/api/pkg/operators/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scheme has all types of the cluster's APIs, and the types added by AddToScheme.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		configv1.Install, operatorv1.Install, securityv1.Install,
		olmv1.AddToScheme, olmv1alpha1.AddToScheme, olmv2.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two of these packages define the same type: they cannot be used together
		}
	}
	return s
}()

// AddToScheme adds types to the scheme of all clients, for APIs that come with programs on clusters. It may be called only while no cluster
// has been started, such as in init, and panics if the types conflict with others.
func AddToScheme(add func(*runtime.Scheme) error) {
	if err := add(scheme); err != nil {
		panic(err)
	}
}

func newClient(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: scheme})
}

// polling is how often a condition is checked. A check is late by at most a tenth of the time waited, and at most half a second. Many tests
// wait at the same time, and the API server then spends most of its time on these checks.
var polling = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.1, Steps: math.MaxInt, Cap: 500 * time.Millisecond}

// Until waits until check returns nil or ctx ends. Its error then has what, which completes the sentence "waited for
// …", and the last error of check. Tests use Eventually.
func Until(ctx context.Context, what string, check func(context.Context) error) error {
	next := polling
	began := time.Now()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// An error caused by the end of ctx is less useful than the previous one.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(cause, context.DeadlineExceeded) {
				return fmt.Errorf("waited %s for %s: %w", time.Since(began).Round(time.Millisecond), what, last)
			}
			return fmt.Errorf("wait for %s: %w", what, cause)
		case <-time.After(next.Step()):
		}
	}
}
