package clusterstorage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/test/release"
)

// sweepClusters is the number of clusters of a sweep. A hand-over waits most of the time.
const sweepClusters = 3

// notOfHandOver are writes of the cluster storage operator that its own sweep disturbs.
var notOfHandOver = slices.Concat(reports, []fault.Target{{Resource: "events"}, {Resource: "namespaces"}, {Resource: "serviceaccounts"}, {Resource: "services"},
	{Resource: "roles"}, {Resource: "rolebindings"}, {Resource: "clusterroles"}, {Resource: "clusterrolebindings"}, {Resource: "deployments"}, {Resource: "clustercsidrivers"},
	{Resource: "prometheusrules"}, {Resource: "servicemonitors"}})

// TestAdoptionSweep injects every fault into every write of a hand-over, both by the cluster storage operator and by
// the tool. With every fault, the end is the same, nothing that volumes need is touched, and in the end neither has
// anything to write.
func TestAdoptionSweep(t *testing.T) {
	if !fault.All() {
		t.Skip("it takes many minutes; run it with -all-faults, or make prove SUITE=sweep-adopt")
	}
	formers := make(chan *former, sweepClusters)
	for range sweepClusters {
		f := newFormer(t, succeedable()[0], nil)
		f.unoperated = true
		f.useVolumes()
		f.install(release.Payload{Version: version, Stopped: true})
		formers <- f
	}
	var plans []fault.Scenario
	for _, who := range []string{"the cluster storage operator", "the tool"} {
		play := func(t *testing.T, injector *fault.Injector) []string {
			t.Helper()
			of := <-formers
			defer func() { formers <- of }()
			f := *of // the test that runs
			environment := *of.environment
			f.environment, f.t, environment.t = &environment, t, t
			return f.play(injector, who == "the tool")
		}
		recorder := fault.Record(notOfHandOver...)
		reference := play(t, recorder)
		var points []fault.Point
		for _, w := range recorder.Writes() {
			if w.Code < http.StatusBadRequest {
				points = append(points, w.Point)
			}
		}
		plans = append(plans, fault.Scenario{Name: who, Points: points, Try: func(t *testing.T, at fault.Point, with fault.Fault) bool {
			injector := fault.Inject(at, with, notOfHandOver...)
			assert.Empty(t, cmp.Diff(reference, play(t, injector)), "the end (-undisturbed +disturbed)")
			return injector.Came()
		}})
	}
	for i, tally := range fault.Sweep(t, sweepClusters, plans...) {
		assert.Emptyf(t, tally.Missed, "%s: %s", plans[i].Name, tally)
	}
}

// play hands the driver over, checks that, and gives it back to OLM. It returns the end state.
func (f *former) play(injector *fault.Injector, tool bool) []string {
	f.t.Helper()
	defer f.giveBack()
	recorded := f.record()
	reporting, stopReporting := context.WithCancel(f.t.Context())
	reported := make(chan struct{})
	go func() { f.reportForOperator(reporting); close(reported) }()
	defer func() { stopReporting(); <-reported }()

	var stop func()
	if tool {
		stop = f.operate(fault.Record(), nil)
		f.awaitReason("OperatorOfOLM", "berth adopt plan")
		f.adopt(injector)
	} else {
		stop = f.operate(injector, handsOver)
	}
	f.awaitComplete()
	f.awaitSettled(version)
	stop()
	recorded.MustHold(f.t.(*testing.T))
	f.mustBeHandedOver()

	// A new operator applies every object of the driver's operator once, which changes nothing: its own sweep shows that.
	again := fault.Record(notOfHandOver...)
	stop = f.operate(again, handsOver)
	cluster.Eventually(f.t, limit, "the cluster storage operator to settle again", func(context.Context) error {
		if idle := again.Idle(); idle < time.Second {
			return fmt.Errorf("it has been idle for %s", idle)
		}
		return nil
	})
	stop()
	last := fault.Record()
	f.adopt(last)
	for _, w := range append(again.Writes(), last.Writes()...) {
		f.t.Errorf("in the end something was written: %s", w.Point)
	}
	return f.end()
}

// reportForOperator reports for the driver's operator, which runs in no pod here, until ctx ends.
func (f *former) reportForOperator(ctx context.Context) {
	for ctx.Err() == nil {
		custom := &operatorv1.ClusterCSIDriver{}
		if err := f.Client().Get(ctx, client.ObjectKey{Name: f.driver.CSIName}, custom); err == nil && custom.Status.Version != version {
			custom.Status.Version, custom.Status.Conditions = version, nil
			for conditionType, status := range map[string]operatorv1.ConditionStatus{"Available": "True", "Progressing": "False", "Degraded": "False"} {
				custom.Status.Conditions = append(custom.Status.Conditions, operatorv1.OperatorCondition{Type: conditionType, Status: status, LastTransitionTime: metav1.Now()})
			}
			_ = f.Client().Status().Update(ctx, custom) // otherwise again
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// madeByOperator returns the objects that the cluster storage operator has made for the driver.
func (f *former) madeByOperator() (found []*unstructured.Unstructured) {
	f.t.Helper()
	operator, err := f.clusterOperator(context.Background())
	require.NoError(f.t, err)
	for _, related := range operator.Status.RelatedObjects {
		if slices.Contains([]string{"storages", "namespaces"}, related.Resource) {
			continue
		}
		kind, err := f.Client().RESTMapper().KindFor(schema.GroupVersionResource{Group: related.Group, Resource: related.Resource})
		if err != nil {
			continue // the cluster does not serve monitoring
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(related.Namespace)
		object.SetName(related.Name)
		found = append(found, object)
	}
	return found
}

// end returns the end state of a hand-over.
func (f *former) end() (lines []string) {
	f.t.Helper()
	phase, err := f.phase(f.t.Context())
	require.NoError(f.t, err)
	lines = append(lines, "phase "+string(phase))
	for _, object := range f.madeByOperator() {
		f.get(object)
		lines = append(lines, object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName())
	}
	slices.Sort(lines)
	return lines
}

// giveBack makes OLM run the former operator again, as if there had been no hand-over.
func (f *former) giveBack() {
	f.t.Helper()
	ctx := context.Background()
	objects := []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: migrate.DefaultJournalNamespace, Name: "berth-adopt." + f.driver.CSIName}}}
	for _, object := range f.madeByOperator() {
		objects = append(objects, object)
	}
	for _, object := range objects {
		require.NoError(f.t, client.IgnoreNotFound(f.Client().Delete(ctx, object)))
		cluster.Eventually(f.t, limit, object.GetName()+" to be gone", f.Gone(object))
	}
	cluster.Eventually(f.t, limit, "the pods of the driver's operator to be gone", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		err := f.Client().List(ctx, pods, client.InNamespace(drivers.ClusterStorageNamespace), client.MatchingFields{"spec.serviceAccountName": f.driver.Operator.Name})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
	operator, err := f.clusterOperator(ctx)
	require.NoError(f.t, err)
	require.NoError(f.t, f.Client().Delete(ctx, operator))
	storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	f.get(storage)
	storage.Status = operatorv1.StorageStatus{}
	require.NoError(f.t, f.Client().Status().Update(ctx, storage))
	subscription := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.subscription.Name}, Spec: f.subscription.Spec}
	f.create(subscription)
	cluster.Eventually(f.t, limit, "OLM to install the operator again", func(ctx context.Context) error {
		plan, err := adoption.Adopt.NewPlan(ctx, migrate.Cluster{Config: f.Config(), Client: f.Client()}, adoption.Request{Driver: f.driver})
		switch {
		case err != nil:
			return err
		case plan.Operator == nil:
			return errors.New("it runs none")
		}
		for _, c := range plan.Checks {
			if c.Verdict == findings.Refused && c.Code != "cluster-storage-operator" {
				return errors.New(c.What)
			}
		}
		if text := plan.Text(findings.Plain); !strings.Contains(text, "of Subscription "+subscription.Name) {
			return errors.New(text)
		}
		return nil
	})
}
