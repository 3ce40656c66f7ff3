// Package migrations runs migrations in tests as commands do, on a real cluster: each run is a tool, which can be killed and started again.
package migrations

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
)

// Tool is a command.
type Tool func(ctx context.Context, config *rest.Config) error

// Runner runs tools for a test.
type Runner struct {
	t       testing.TB
	cluster *cluster.Cluster
	limit   time.Duration
}

// New returns a Runner on a cluster. The limit is how long anything may take.
func New(t testing.TB, c *cluster.Cluster, limit time.Duration) *Runner {
	return &Runner{t: t, cluster: c, limit: limit}
}

// Create creates an object.
func (r *Runner) Create(object client.Object) {
	r.t.Helper()
	require.NoError(r.t, r.cluster.Client().Create(r.t.Context(), object))
}

// CreateSource creates a CatalogSource of a catalog that is served, and waits until OLM reads it.
func (r *Runner) CreateSource(namespace, name, address string) {
	r.t.Helper()
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}}
	r.Create(source)
	cluster.Eventually(r.t, r.limit, "OLM to read catalog "+name, func(ctx context.Context) error {
		if err := r.cluster.Client().Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if state := source.Status.GRPCConnectionState; state == nil || state.LastObservedState != "READY" {
			return fmt.Errorf("its connection is %+v", state)
		}
		return nil
	})
}

// Connect returns the cluster for a tool.
func (r *Runner) Connect(config *rest.Config) (migrate.Cluster, error) {
	c, err := client.New(config, client.Options{Scheme: r.cluster.Client().Scheme(), Mapper: r.cluster.Client().RESTMapper()})
	return migrate.Cluster{Config: config, Client: c}, err
}

// Apply is "berth NAME apply".
func Apply[P migrate.Plan](r *Runner, e migrate.Engine[P], request migrate.Request[P], o migrate.Options) Tool {
	return func(ctx context.Context, config *rest.Config) error {
		seen, err := r.Connect(config)
		if err != nil {
			return err
		}
		made, _, err := e.Ensure(ctx, seen, request)
		if err != nil {
			return err
		}
		if outline := made.GetOutline(); !outline.Safe {
			return fmt.Errorf("it is not safe: %+v", outline.Checks)
		}
		return e.Apply(ctx, seen, made, r.reporting(o))
	}
}

// ApplyUntil applies until a step is next, which is neither executed nor waited for.
func ApplyUntil[P migrate.Plan](r *Runner, e migrate.Engine[P], request migrate.Request[P], step migrate.StepName) {
	r.t.Helper()
	ctx, stop := context.WithTimeout(r.t.Context(), r.limit)
	defer stop()
	err := Apply(r, e, request, migrate.Options{Report: func(event migrate.Event) {
		if event.Step == step {
			stop()
		}
	}})(ctx, r.cluster.Config())
	if !errors.Is(err, context.Canceled) {
		r.t.Fatalf("got %v, want that step %s is next", err, step)
	}
}

// Rollback is "berth NAME rollback".
func Rollback[P migrate.Plan](r *Runner, e migrate.Engine[P], request migrate.Request[P], o migrate.Options) Tool {
	return func(ctx context.Context, config *rest.Config) error {
		seen, err := r.Connect(config)
		if err != nil {
			return err
		}
		status, err := e.Status(ctx, seen, request)
		if err != nil {
			return err
		}
		return e.Rollback(ctx, seen, status.Plan, r.reporting(o))
	}
}

// reporting returns options that also log the events of a run. All of them have a description.
func (r *Runner) reporting(o migrate.Options) migrate.Options {
	o.Report = r.Report(o.Report)
	return o
}

// Report logs the events of a run, which all have a description, and passes them on.
func (r *Runner) Report(next func(migrate.Event)) func(migrate.Event) {
	return func(e migrate.Event) {
		if next != nil {
			defer next(e)
		}
		r.t.Logf("%s: %s %s", e.Step, e.Does, e.Waits)
		if e.Does == "" {
			r.t.Errorf("step %s has no description", e.Step)
		}
	}
}

// Run runs a tool, which must succeed in time.
func (r *Runner) Run(t Tool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), r.limit)
	defer cancel()
	config := r.cluster.Config()
	config.Timeout = 10 * time.Second // an injected fault may be that the API server does not answer
	require.NoError(r.t, t(ctx, config))
}

// RunWith runs a tool with an injector of faults.
func (r *Runner) RunWith(injector *fault.Injector, t Tool) {
	r.t.Helper()
	r.Run(func(ctx context.Context, config *rest.Config) error { return injector.Run(ctx, config, t) })
}

// RunKilled runs a tool that is killed before and after each of its writes, and started again.
func (r *Runner) RunKilled(t Tool) {
	r.t.Helper()
	injector := fault.KillAtEach()
	r.RunWith(injector, t)
	r.t.Logf("the tool was killed at %d writes", len(injector.Writes()))
}

// MustWriteNothing runs a tool again, and fails the test if it writes anything.
func (r *Runner) MustWriteNothing(t Tool) {
	r.t.Helper()
	recorder := fault.Record()
	r.RunWith(recorder, t)
	if writes := recorder.Writes(); len(writes) > 0 {
		r.t.Errorf("a second run wrote %+v", writes)
	}
}
