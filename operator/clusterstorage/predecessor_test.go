package clusterstorage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
)

// TestSlowObservation: a hand-over that waits is observed again after ten times as long as the last observation took.
func TestSlowObservation(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{time.Second: settleInterval, time.Minute: 10 * time.Minute} {
		now := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
		c := &controller{process: Process{Clock: now}}
		c.handOver = func(context.Context, drivers.Driver, bool) (predecessor.Handover, error) {
			now.Step(took)
			return predecessor.Handover{Stage: predecessor.Refused}, nil
		}
		known := &handOverState{}
		require.NoError(t, c.goOn(t.Context(), drivers.Driver{}, known, true, false))
		assert.Equalf(t, want, known.due.Sub(now.Now()), "after %s", took)
	}
}

// TestHeldConditions: storage stays available while a driver's operator waits for OLM's.
func TestHeldConditions(t *testing.T) {
	for _, tc := range []struct {
		name string
		held hold
		want []string
	}{
		{"OLM runs an operator", hold{reason: "OperatorOfOLM", message: "m"}, []string{"XCSIDriverOperatorAvailable=True OperatorOfOLM",
			"XCSIDriverOperatorProgressing=False OperatorOfOLM", "XCSIDriverOperatorDegraded=False OperatorOfOLM", "XCSIDriverOperatorUpgradeable=True OperatorOfOLM"}},
		{"it ends", hold{reason: "OperatorOfOLMEnding", progresses: true}, []string{"XCSIDriverOperatorAvailable=True OperatorOfOLMEnding",
			"XCSIDriverOperatorProgressing=True OperatorOfOLMEnding", "XCSIDriverOperatorDegraded=False OperatorOfOLMEnding", "XCSIDriverOperatorUpgradeable=True OperatorOfOLMEnding"}},
		{"a person has to decide", hold{reason: "OldResourceUnsettled", degraded: true}, []string{"XCSIDriverOperatorAvailable=True OldResourceUnsettled",
			"XCSIDriverOperatorProgressing=False OldResourceUnsettled", "XCSIDriverOperatorDegraded=True OldResourceUnsettled", "XCSIDriverOperatorUpgradeable=True OldResourceUnsettled"}},
	} {
		s := state("1.1.0")
		s.held = &tc.held
		assert.Emptyf(t, cmp.Diff(tc.want, brief(s.conditions("1.1.0"))), "%s: conditions (-want +got)", tc.name)
	}
}

// namespaces are all namespaces, without anything in them.
type namespaces struct{ client.Client }

func (namespaces) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetUID(types.UID("uid of " + key.Name))
	return nil
}

// TestHold: what each stage of a hand-over means for the driver's operator, and that one is begun only while that is not started.
func TestHold(t *testing.T) {
	d := drivers.Driver{Name: "x", CSIName: "x.example.com", ConditionPrefix: "X", ClusterStorage: &drivers.ClusterStorage{},
		Operator: drivers.Operator{Name: "x-operator"}, History: drivers.History{Predecessors: []drivers.Predecessor{{Operator: "old-x"}}}}
	ofOLM := []predecessor.Operator{{Namespace: "n", Account: "old-x", Kind: predecessor.Version, Name: "x.v1"}}
	ours := []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: d.SuccessorBinding()}}}
	for _, tc := range []struct {
		name     string
		found    []predecessor.Operator
		bindings []*rbacv1.ClusterRoleBinding
		stage    predecessor.Stage
		err      error
		begin    bool
		held     *hold // without message
		text     string
	}{
		{"it is being removed", ofOLM, nil, predecessor.Removing, nil, true, &hold{reason: "OperatorOfOLM", progresses: true, after: endInterval}, "takes the driver over: m"},
		{"an administrator does not want that", ofOLM, nil, predecessor.Declined, nil, true, &hold{reason: "OperatorOfOLM", after: settleInterval}, "does not take the driver over: m"},
		{"it is refused", ofOLM, nil, predecessor.Refused, nil, true, &hold{reason: "HandOverRefused", degraded: true, after: settleInterval}, "ClusterServiceVersion n/x.v1. The cluster storage operator does not take the driver over: m"},
		{"it is stuck", ofOLM, nil, predecessor.Stuck, nil, true, &hold{reason: "HandOverStuck", degraded: true, after: settleInterval}, "does not go on: m"},
		{"its permissions are gone already", nil, nil, predecessor.Removing, nil, false, &hold{reason: "OperatorOfOLM", progresses: true, after: endInterval}, "is in progress"},
		{"a request failed", ofOLM, nil, "", errors.New("refused"), true, &hold{reason: "OperatorOfOLM", degraded: true}, "handing driver x.example.com over from OLM: refused"},
		{"a request failed, and ours runs", ofOLM, ours, "", errors.New("refused"), false, nil, ""},
		{"ours runs, and what OLM has installed again is removed", ofOLM, ours, predecessor.Removing, nil, false, nil, ""},
		{"ours runs, and the hand-over is stuck", nil, ours, predecessor.Stuck, nil, false, nil, "stuck: m"},
		{"ours runs, and so does that of OLM", ofOLM, ours, predecessor.None, nil, false, nil, "late: the Operator Lifecycle Manager"},
	} {
		begun := false
		c := &controller{cluster: &cluster{objects: namespaces{}}, process: Process{Clock: clock.RealClock{}}, handOvers: map[string]*handOverState{}, operators: map[string]*driverOperator{}}
		c.handOver = func(_ context.Context, _ drivers.Driver, begin bool) (predecessor.Handover, error) {
			begun = begin
			return predecessor.Handover{Stage: tc.stage, Message: "m"}, tc.err
		}
		s, err := c.succeed(t.Context(), d, observed{storage: &operatorv1.Storage{}, bindings: tc.bindings}, tc.found, nil)
		text := ""
		switch {
		case s.held != nil:
			text, s.held.message = s.held.message, ""
		case s.stuck != "":
			text = "stuck: " + s.stuck
		case s.late != "":
			text = "late: " + s.late
		}
		if (err != nil) != (tc.err != nil) || begun != tc.begin || !strings.Contains(text, tc.text) || tc.text == "" && text != "" || s.blocked != (tc.held != nil) {
			t.Errorf("%s: error %v, begin %t, blocked %t, text %q; want begin %t, %q", tc.name, err, begun, s.blocked, text, tc.begin, tc.text)
		}
		assert.Emptyf(t, cmp.Diff(tc.held, s.held, cmp.AllowUnexported(hold{})), "%s: hold (-want +got)", tc.name)
	}
}

// TestTakeover: from an operator of OLM until ours has arrived, a driver is available whatever ours reports.
func TestTakeover(t *testing.T) {
	starting := state("1.1.0")
	starting.deployment, starting.customResource = nil, nil
	first := starting
	first.first = true
	held := starting
	held.held = &hold{reason: "OperatorOfOLM"}
	for _, tc := range []struct {
		name   string
		state  driverState
		before string // the reason of the condition before
		want   bool
	}{
		{"a fresh cluster", starting, "", false},
		{"the driver is there already", first, "", true},
		{"OLM ran the operator", starting, "OperatorOfOLM", true},
		{"OLM's operator has just ended", starting, "OperatorOfOLMEnding", true},
		{"a person had to decide", starting, "OldResourceUnsettled", true},
		{"the hand-over was refused", starting, "HandOverRefused", true},
		{"the hand-over was stuck", starting, "HandOverStuck", true},
		{"it was being taken over", starting, "TakingOver", true},
		{"it is held", held, "OperatorOfOLM", false},
		{"ours has arrived", state("1.1.0"), "TakingOver", false},
		{"ours of another version has reported", state("1.0.0"), "TakingOver", true},
	} {
		o := observed{storage: &operatorv1.Storage{}}
		if tc.before != "" {
			o.storage.Status.Conditions = []operatorv1.OperatorCondition{{Type: "XCSIDriverOperatorAvailable", Status: "True", Reason: tc.before}}
		}
		assert.Equalf(t, tc.want, takesOver(tc.state, o, "1.1.0"), "%s: takes over =", tc.name)
		var unavailable []string
		for _, c := range conditionsOf(o, nil, []driverState{tc.state}, "1.1.0") {
			if strings.HasPrefix(c.Type, "X") && strings.HasSuffix(c.Type, "Available") && c.Status != operatorv1.ConditionTrue {
				unavailable = append(unavailable, c.Type)
			}
		}
		if tc.want && len(unavailable) > 0 {
			t.Errorf("%s: these are not True: %q", tc.name, unavailable)
		}
	}
}

// TestInitialCustomResource: a ClusterCSIDriver begins with the log levels of the earlier operator's custom resource,
// and with nothing else of it.
func TestInitialCustomResource(t *testing.T) {
	old := func(spec map[string]any) oldCustomResource {
		o := oldCustomResource{}
		o.OldSettings = drivers.ReadOldSettings(object(map[string]any{"spec": spec}))
		return o
	}
	for _, tc := range []struct {
		name            string
		old             []oldCustomResource
		level, operator string
	}{
		{"nothing", nil, "Normal", "Normal"},
		{"both levels", []oldCustomResource{old(map[string]any{"logLevel": "Debug", "operatorLogLevel": "Trace", "managementState": "Managed"})}, "Debug", "Trace"},
		{"one level", []oldCustomResource{old(map[string]any{"operatorLogLevel": "TraceAll"})}, "Normal", "TraceAll"},
		{"levels that do not exist", []oldCustomResource{old(map[string]any{"logLevel": "Loud", "operatorLogLevel": 7})}, "Normal", "Normal"},
		{"no spec", []oldCustomResource{old(nil)}, "Normal", "Normal"},
	} {
		want := map[string]any{"managementState": "Managed", "logLevel": tc.level, "operatorLogLevel": tc.operator}
		assert.Emptyf(t, cmp.Diff(want, customResource(drivers.Driver{CSIName: "x"}, tc.old).Object["spec"]), "%s: spec (-want +got)", tc.name)
	}
}

// TestUnsettled: an administrator must decide about a driver that nobody managed, or that has a configuration which is
// being deleted.
func object(content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}

func TestUnsettled(t *testing.T) {
	for state, want := range map[string]string{"": "", "Managed": "", "Unmanaged": "Unmanaged", "Removed": "Removed", "Force": "Force"} {
		got := drivers.ReadOldSettings(object(map[string]any{"spec": map[string]any{"managementState": state}})).Unsettled()
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("managementState %q: %q, want %q in it", state, got, want)
		}
	}
	deleted := object(map[string]any{})
	now := metav1.Now()
	deleted.SetDeletionTimestamp(&now)
	assert.Contains(t, drivers.ReadOldSettings(deleted).Unsettled(), "being deleted", "a deleted object")
}

// TestIsGone: a new namespace with the name of OLM's operator's namespace is not that namespace.
func TestIsGone(t *testing.T) {
	key := client.ObjectKey{Namespace: "harbour", Name: "boat-operator"}
	at := func(minutes int) metav1.Time { return metav1.Unix(1_700_000_000+60*int64(minutes), 0) }
	for name, test := range map[string]struct {
		known, uid types.UID
		since      metav1.Time
		created    metav1.Time
		gone       bool
	}{
		"the same":                                  {known: "a", uid: "a", created: at(1)},
		"deleted":                                   {known: "a", created: at(1), gone: true},
		"recreated":                                 {known: "a", uid: "b", created: at(1), gone: true},
		"after a restart, older than the wait":      {uid: "a", since: at(2), created: at(1)},
		"after a restart, recreated meanwhile":      {uid: "b", since: at(2), created: at(3), gone: true},
		"after a restart, deleted":                  {since: at(2), gone: true},
		"after a restart, when the wait is unknown": {uid: "a", created: at(3)},
	} {
		known := &handOverState{accounts: map[client.ObjectKey]types.UID{key: test.known}, since: test.since}
		assert.Equalf(t, test.gone, known.isGone(key, test.uid, test.created), "%s: gone", name)
	}
}
