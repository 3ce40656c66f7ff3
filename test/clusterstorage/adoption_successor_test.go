package clusterstorage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/release"
	"github.com/berth-csi/berth/test/walk"
)

// handsOver makes the cluster storage operator take drivers over by itself, as the program does.
func handsOver(config *restclient.Config) (clusterstorage.HandOver, error) {
	return adoption.NewSuccessor(config)
}

// operate runs the cluster storage operator of the release in the test until stop is called. Without handOver it only waits until
// somebody else has handed the driver over. A crash restarts it.
func (f *former) operate(injector *fault.Injector, handOver func(*restclient.Config) (clusterstorage.HandOver, error)) (stop func()) {
	f.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: clusterstorage.Namespace, Name: clusterstorage.Name}}
	f.get(deployment)
	variables := map[string]string{}
	for _, v := range deployment.Spec.Template.Spec.Containers[0].Env {
		variables[v.Name] = v.Value
	}
	account := f.ServiceAccountConfig(f.t, clusterstorage.Namespace, clusterstorage.Name)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- injector.Run(ctx, account, func(ctx context.Context, config *restclient.Config) error {
			return clusterstorage.Run(ctx, registry.All(), clusterstorage.Process{
				KubeConfig: config, EventRecorder: events.NewInMemoryRecorder("test", clock.RealClock{}), Version: version, Clock: clock.RealClock{},
				Getenv: func(name string) string { return variables[name] }, HandOver: handOver,
			})
		})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		assert.NoError(f.t, <-done, "the cluster storage operator ended with")
	}
	f.t.Cleanup(stop)
	return stop
}

// reports are the targets of the cluster storage operator's routine reports.
var reports = []fault.Target{{Resource: "storages"}, {Resource: "clusteroperators"}, {Resource: "tokenreviews"}, {Resource: "subjectaccessreviews"}}

// awaitReason waits until Storage says something about the driver.
func (f *former) awaitReason(reason, message string) {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "the reason "+reason, func(context.Context) error {
		storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		f.get(storage)
		for _, c := range storage.Status.Conditions {
			if strings.HasPrefix(c.Type, f.driver.ConditionPrefix) && c.Reason == reason && strings.Contains(c.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("the conditions of Storage are %+v, want %q in the message", storage.Status.Conditions, message)
	})
}

// phase returns the phase of the driver's hand-over, or "".
func (f *former) phase(ctx context.Context) (migrate.Phase, error) {
	j, err := adoption.Adopt.ReadJournal(ctx, migrate.Cluster{Config: f.Config(), Client: f.Client()}, migrate.Subject{Name: f.driver.CSIName})
	if err != nil {
		return "", err
	}
	return j.Phase, nil
}

// awaitComplete waits until the driver is handed over.
func (f *former) awaitComplete() {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "the driver to be handed over", func(ctx context.Context) error {
		phase, err := f.phase(ctx)
		if err == nil && phase != migrate.Completed {
			err = fmt.Errorf("the phase is %q; Storage says %+v%s", phase, f.available(ctx), f.conditions(ctx))
		}
		return err
	})
}

// adoptAsWell runs the tool, from when the cluster storage operator has begun until the driver is handed over.
func (f *former) adoptAsWell() {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "the cluster storage operator to begin", func(ctx context.Context) error {
		phase, err := f.phase(ctx)
		if err == nil && phase == "" {
			err = fmt.Errorf("there is no journal; Storage says %+v", f.available(ctx))
		}
		return err
	})
	f.adopt(fault.Record())
}

// TestAdoptionKilled: the cluster storage operator is killed before and after each of its writes that hand the driver
// over, and the hand-over still succeeds.
func TestAdoptionKilled(t *testing.T) {
	t.Parallel()
	if !*allAdoptions {
		t.Skip("it takes minutes; run it with -all-adoptions, or make prove SUITE=adopt")
	}
	f := newFormer(t, succeedable()[0], programs(t))
	f.useVolumes()
	f.mustRefuseJournals()
	recorded := f.record()
	f.install(release.Payload{Version: version, Stopped: true})
	injector := fault.KillAtEach(notOfHandOver...)
	f.operate(injector, handsOver)
	f.awaitComplete()
	recorded.MustHold(t)
	f.mustBeHandedOver()
	f.awaitSettled(version)
	f.mustHaveMade(injector.Writes())
}

// mustHaveMade fails the test unless the writes make a hand-over, with a kill before and after each.
func (f *former) mustHaveMade(writes []fault.Write) {
	f.t.Helper()
	kills := map[fault.Fault]int{}
	for _, w := range writes {
		kills[w.Fault]++
		f.t.Logf("life %d wrote %s: %d %s", w.Life, w.Point, w.Code, w.Fault)
	}
	if kills[fault.KilledBefore] < 5 || kills[fault.KilledAfter] < 5 {
		f.t.Errorf("it was killed before %d writes, and after %d, want at least 5 each", kills[fault.KilledBefore], kills[fault.KilledAfter])
	}
}

// mustDecline spoils the cluster, starts the cluster storage operator, and fails the test unless that says why it does not take the
// driver over, and writes nothing else. Then the tool has to refuse, too.
func (f *former) mustDecline(name, reason, says, want string, spoil func() func()) {
	f.t.Helper()
	undo := spoil()
	defer undo()
	recorder := fault.Record(reports...)
	stop := f.operate(recorder, handsOver)
	f.awaitReason(reason, says)
	stop()
	for _, w := range recorder.Writes() {
		// The drivers that OLM did not run get operators as everywhere.
		if !slices.ContainsFunc(f.drivers, func(d drivers.Driver) bool {
			return d.Name != f.driver.Name && strings.Contains(w.Point.Name, d.Operator.Name)
		}) {
			f.t.Errorf("%s: the cluster storage operator wrote %s", name, w.Point)
		}
	}
	f.mustRefuse(name, want, func() func() { return func() {} })
}

// mustLeaveUnmanaged fails the test unless the cluster storage operator writes only its ClusterOperator while Storage
// is Unmanaged.
func (f *former) mustLeaveUnmanaged() {
	f.t.Helper()
	storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	f.patch(storage, `{"spec":{"managementState":"Unmanaged"}}`)
	recorder := fault.Record(reports...)
	stop := f.operate(recorder, handsOver)
	cluster.Eventually(f.t, limit, "the cluster storage operator to see that it is unmanaged", func(ctx context.Context) error {
		operator, err := f.clusterOperator(ctx)
		if err == nil && (len(operator.Status.Conditions) == 0 || operator.Status.Conditions[0].Reason != "Unmanaged") {
			err = fmt.Errorf("its conditions are %+v", operator.Status.Conditions)
		}
		return err
	})
	stop()
	if writes := recorder.Writes(); len(writes) > 0 {
		f.t.Errorf("it was Unmanaged, and wrote %+v", writes)
	}
	f.patch(storage, `{"spec":{"managementState":"Managed"}}`)
}

// checkPermissionsToSucceed fails the test unless the cluster storage operator has used all its permissions to take over the driver.
func (f *former) checkPermissionsToSucceed() {
	f.t.Helper()
	inOwn, _, err := clusterstorage.OperatorRules([]drivers.Driver{f.driver})
	require.NoError(f.t, err)
	// Only these are of interest, and others do no harm here.
	rules := slices.DeleteFunc(inOwn, func(r permissions.Rule) bool {
		return !slices.ContainsFunc(r.Verbs, func(verb string) bool { return r.Unexercised[verb] == clusterstorage.Succession })
	})
	allowed := permissions.SetOf(rules)
	var requests []cluster.AuditEvent
	for _, request := range f.account().Requests(f.t) {
		for _, name := range []string{request.Name, ""} {
			if p := (permissions.Permission{Group: request.Group, Resource: request.Resource, Name: name, Verb: request.Verb}); request.Subresource == "" && allowed[p] {
				requests = append(requests, request)
				break
			}
		}
	}
	used := walk.Exercise(f.t, rules, "", requests, walk.Discovers)
	for i := range rules {
		for verb, reason := range rules[i].Unexercised {
			if reason == clusterstorage.Succession {
				delete(rules[i].Unexercised, verb)
			}
		}
	}
	for _, problem := range permissions.Check(rules, used) {
		f.t.Errorf("%s: %s", clusterstorage.Name, problem)
	}
}

// journals returns the journals of hand-overs.
func (f *former) journals() []corev1.ConfigMap {
	f.t.Helper()
	list := &corev1.ConfigMapList{}
	if err := f.Client().List(f.t.Context(), list, client.InNamespace(migrate.DefaultJournalNamespace), client.MatchingLabels{"app.kubernetes.io/component": "adopt"}); err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}
