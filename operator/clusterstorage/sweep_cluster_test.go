package clusterstorage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/statediff"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

// TestCrashSweep runs each scenario undisturbed first, and then once for each fault at a point of that run: at a write of
// the operator, or at a watch. Whatever the fault, the final objects and how often each was created and deleted must be the
// same as without it, and in the end the operator must write nothing but what was taken away.
func TestCrashSweep(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	account := e.ServiceAccountConfig(t, clusterstorage.Namespace, clusterstorage.Name)
	var plans []fault.Scenario
	for _, sc := range sweepScenarios {
		t.Run(sc.name, func(t *testing.T) {
			reference := e.sweep(t, account, sc, fault.Record(), nil)
			e.sweep(t, account, sc, fault.Record(), &reference).mustBe(t, reference)
			if t.Failed() {
				t.Fatalf("%s: two undisturbed runs differ", sc.name)
			}
			plans = append(plans, fault.Scenario{Name: sc.name, Points: reference.points, Sample: 8, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
				got := e.sweep(t, account, sc, fault.Inject(at, f), &reference)
				got.mustBe(t, reference)
				return got.came
			}})
		})
	}
	for i, tally := range fault.Sweep(t, 1, plans...) {
		tally.CheckMissed(t, plans[i].Name)
	}
}

// A sweepScenario is something that the operator has to complete despite faults, as the operator of the version.
type sweepScenario struct {
	name, version string
	// before is the version that an undisturbed operator has installed; "" for none.
	before string
}

var sweepScenarios = []sweepScenario{
	{name: "install", version: "1.0.0"},
	{name: "update", version: "1.1.0", before: "1.0.0"},
}

// A sweepOutcome is the result of a run.
type sweepOutcome struct {
	came   bool // to the point of the fault
	points []fault.Point
	state  map[string]any
	counts map[fault.Point]fault.Count
}

func (o sweepOutcome) mustBe(t *testing.T, want sweepOutcome) {
	t.Helper()
	assert.Empty(t, statediff.Difference(want.state, o.state), "final objects (-undisturbed +now)")
	assert.Empty(t, cmp.Diff(want.counts, o.counts), "creations and deletions of objects (-undisturbed +now)")
}

// quiet is for how long an operator that has settled sends no requests.
const quiet = 500 * time.Millisecond

// sweep runs a scenario until the operator has settled, in the state of the reference if there is one.
func (outer *testEnv) sweep(t *testing.T, account *rest.Config, sc sweepScenario, injector *fault.Injector, reference *sweepOutcome) sweepOutcome {
	t.Helper()
	env := *outer
	e := &env
	e.t = t
	e.removeAll()
	e.forgetStatus()
	d := e.driver("ebs")
	if sc.before != "" {
		before := fault.Record()
		stop := e.operate(account, sc.before, before)
		e.report(d, sc.before, settled...)
		e.settleSweep(before, nil)
		stop()
	}
	stop := e.operate(account, sc.version, injector)
	defer stop()
	e.awaitOperator(injector, "start the operator of the driver", func(ctx context.Context) error {
		deployment := e.operatorObject("Deployment", "apps/v1", d.Operator.Name)
		if err := e.Client().Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if text := fmt.Sprint(deployment.Object); !strings.Contains(text, image("OPERATOR_IMAGE", sc.version)) {
			return errors.New("it is of another version")
		}
		return nil
	})
	e.reportTo(injector, d, sc.version)
	e.settleSweep(injector, reference)

	// A settled operator recreates missing objects, and writes nothing else.
	settledAt := len(injector.Writes())
	service := e.operatorObject("Service", "v1", d.Operator.Name+"-metrics")
	e.must(e.Client().Delete(context.Background(), service))
	e.awaitOperator(injector, "create the Service again", func(ctx context.Context) error {
		return e.Client().Get(ctx, client.ObjectKeyFromObject(service), &corev1.Service{})
	})
	e.settleSweep(injector, reference)
	for _, write := range injector.Writes()[settledAt:] {
		if write.Fault == fault.KilledBefore || write.Fault == fault.KilledAfter {
			break // the next operator applies every object once, to know it; what that changes, the outcome shows
		}
		if write.Point.Resource != "services" && write.Fault == "" && !strings.HasSuffix(write.Point.Resource, "/status") {
			t.Errorf("the operator had settled and one Service was deleted, but it also wrote: %s", write.Point)
		}
	}
	stop()
	got := sweepOutcome{came: injector.Came(), points: injector.Points(), state: e.state(), counts: injector.Counts()}
	return got
}

// operate runs the operator until stop is called. A crash restarts it.
func (e *testEnv) operate(account *rest.Config, version string, injector *fault.Injector) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- injector.Run(ctx, account, func(ctx context.Context, cfg *rest.Config) error {
			return clusterstorage.Run(ctx, registry.All(), clusterstorage.Process{
				KubeConfig: cfg, EventRecorder: events.NewInMemoryRecorder("test", clock.RealClock{}), Version: version, Clock: clock.RealClock{},
				Getenv: func(name string) string { return image(name, version) },
			})
		})
	}()
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		assert.NoError(e.t, <-done, "the operator ended with")
	}
}

// reportTo reports for the driver's operator, as soon as there is a ClusterCSIDriver.
func (e *testEnv) reportTo(injector *fault.Injector, d drivers.Driver, version string) {
	e.t.Helper()
	e.awaitOperator(injector, "create the ClusterCSIDriver", func(ctx context.Context) error {
		return e.Client().Get(ctx, client.ObjectKey{Name: d.CSIName}, &operatorv1.ClusterCSIDriver{})
	})
	e.report(d, version, settled...)
}

// settleSweep waits until the operator no longer sends requests and storage has settled, in the state of the reference if there
// is one.
func (e *testEnv) settleSweep(injector *fault.Injector, reference *sweepOutcome) {
	e.t.Helper()
	e.awaitOperator(injector, "settle", func(ctx context.Context) error {
		operator := &configv1.ClusterOperator{}
		if err := e.Client().Get(ctx, client.ObjectKey{Name: clusterstorage.ClusterOperatorName}, operator); err != nil {
			return err
		}
		if got := summaryOf(operator); got != summarySettled || injector.Idle() < quiet {
			return fmt.Errorf("it has been idle for %s, and the summary is %s: %+v", injector.Idle(), got, operator.Status.Conditions)
		}
		if reference == nil {
			return nil
		}
		if diff := statediff.Difference(reference.state, e.state()); diff != "" {
			return fmt.Errorf("objects (-undisturbed +now):\n%s", diff)
		}
		return nil
	})
}

// awaitOperator waits until the operator has done something. Watch events that are withheld from it are delivered once it has
// settled without them.
func (e *testEnv) awaitOperator(injector *fault.Injector, what string, check func(context.Context) error) {
	e.t.Helper()
	cluster.Eventually(e.t, limit, "the operator to "+what, func(ctx context.Context) error {
		err := check(ctx)
		if err != nil && injector.Idle() >= quiet {
			injector.Deliver()
		}
		return err
	})
}

// forgetStatus removes what former operators have written about the cluster's storage.
func (e *testEnv) forgetStatus() {
	e.t.Helper()
	storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	e.get(storage)
	storage.Status = operatorv1.StorageStatus{}
	e.must(e.Client().Status().Update(context.Background(), storage))
}

// operatorObject returns an object of a driver's operator by its name.
func (e *testEnv) operatorObject(kind, apiVersion, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetKind(kind)
	object.SetAPIVersion(apiVersion)
	object.SetNamespace(drivers.ClusterStorageNamespace)
	object.SetName(name)
	return object
}

// state returns the operator's objects and reports, without details that differ between equivalent runs.
func (e *testEnv) state() map[string]any {
	e.t.Helper()
	state := map[string]any{}
	objects := e.made()
	for kind, name := range map[string]string{"ClusterOperator": clusterstorage.ClusterOperatorName, "Storage": "cluster"} {
		object := &unstructured.Unstructured{}
		object.SetKind(kind)
		object.SetAPIVersion(map[string]string{"ClusterOperator": "config.openshift.io/v1", "Storage": "operator.openshift.io/v1"}[kind])
		object.SetName(name)
		objects = append(objects, object)
	}
	for _, object := range objects {
		if err := e.Client().Get(context.Background(), client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			e.t.Fatal(err)
		}
		unstructured.RemoveNestedField(object.Object, "status", "generations")
		like, err := statediff.Of(object, strings.NewReplacer())
		e.must(err)
		state[object.GetKind()+" "+object.GetName()] = like
	}
	return state
}
