package subscription

import (
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/migrate"
)

// TestAdoptDriver: the switch waits for the driver's pods, except on NotReady nodes, where the operator does not wait
// either.
func TestAdoptDriver(t *testing.T) {
	well := []operatorv1.OperatorCondition{
		{Type: "Available", Status: operatorv1.ConditionTrue}, {Type: "Progressing", Status: operatorv1.ConditionFalse}, {Type: "Degraded", Status: operatorv1.ConditionFalse},
	}
	progressing := append([]operatorv1.OperatorCondition{{Type: "Progressing", Status: operatorv1.ConditionTrue, Message: "not counting: worker-3"}}, well...)
	status := func(updated, ready int32) appsv1.DaemonSetStatus {
		return appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: updated, NumberReady: ready}
	}
	for _, tc := range []struct {
		name       string
		conditions []operatorv1.OperatorCondition
		stable     string // the generation whose rollout the operator has seen complete
		status     appsv1.DaemonSetStatus
		waits      string // a part of it
	}{
		{name: "complete", conditions: well, status: status(3, 3)},
		{name: "the operator waits", conditions: progressing, status: status(2, 2), waits: "not counting: worker-3"},
		{name: "a pod is outdated", conditions: well, status: status(2, 3), waits: "2 of 3 pods are up to date, 3 are ready"},
		{name: "a pod is not ready", conditions: well, status: status(3, 2), waits: "3 of 3 pods are up to date, 2 are ready"},
		{name: "a node is dead, and the operator does not wait", conditions: well, stable: "2", status: status(2, 2)},
		{name: "it did not wait for an earlier update", conditions: well, stable: "1", status: status(2, 2), waits: "2 of 3 pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &state{
				plan:   &Plan{Driver: &Driver{Create: true}},
				driver: &operatorv1.ClusterCSIDriver{Status: operatorv1.ClusterCSIDriverStatus{OperatorStatus: operatorv1.OperatorStatus{Conditions: tc.conditions}}},
				daemonSets: []appsv1.DaemonSet{{
					ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: map[string]string{"storage.openshift.io/stable-generation": tc.stable}},
					Status:     tc.status,
				}},
			}
			next, err := s.adoptDriver()
			if err != nil || !strings.Contains(next.Waits, tc.waits) || (next.Waits == "") != (tc.waits == "") {
				t.Errorf("it waits for %q (%v), want %q", next.Waits, err, tc.waits)
			}
		})
	}
}

// being is a switch that is being applied, with its Subscription as it was before.
func being(t *testing.T, strategy Strategy, steps ...migrate.StepName) *state {
	t.Helper()
	p := valid(strategy)
	journal, err := Switch.ParseJournal(stored(journalName, text(t, p), string(migrate.Applying), "", "", ""))
	require.NoError(t, err)
	s := &state{now: time.Now(), plan: p, journal: journal, subscription: &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "buoy", UID: "s-1"},
		Spec:       &v1alpha1.SubscriptionSpec{},
		Status:     v1alpha1.SubscriptionStatus{InstalledCSV: p.Installed},
	}}
	p.From.applyTo(s.subscription.Spec)
	s.csvs = []v1alpha1.ClusterServiceVersion{{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: p.Installed}}}
	for _, step := range steps {
		s.journal.Entries = append(s.journal.Entries, migrate.Entry{Step: step, At: s.now.Add(-time.Hour)})
	}
	return s
}

// TestHeld: objects that are deleted, and that a finalizer holds, are waited for, not deleted again. A rollback does not count a
// Subscription that is about to go as restored.
func TestHeld(t *testing.T) {
	held := func(object metav1.Object) {
		object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		object.SetFinalizers([]string{"example.com/hold"})
	}
	pending := func(s *state, name string) {
		plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "install-1", UID: "i-1"},
			Spec: v1alpha1.InstallPlanSpec{ClusterServiceVersionNames: []string{name}}, Status: v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseRequiresApproval}}
		held(plan)
		s.current = plan
		if name == s.plan.Target {
			s.installPlans = append(s.installPlans, plan)
		}
	}
	for _, tc := range []struct {
		name  string
		state func() *state
		next  func(*state) (migrate.Decision, error)
		step  migrate.StepName
		err   string // "" if the step waits for the finalizer
	}{
		{"the Subscription that the switch has deleted", func() *state {
			s := being(t, Replace, migrate.RecordPlan, RemoveOperator)
			held(s.subscription)
			return s
		}, (*state).Next, RemoveOperator, ""},
		{"its rollback", func() *state {
			s := being(t, Replace, migrate.RecordPlan, RemoveOperator)
			held(s.subscription)
			return s
		}, (*state).Back, "", "beyond the point of no return"},
		{"the ClusterServiceVersion", func() *state {
			s := being(t, Replace, migrate.RecordPlan, RemoveOperator)
			s.subscription = nil
			held(&s.csvs[0])
			return s
		}, (*state).Next, RemoveOperator, ""},
		{"an InstallPlan of a Subscription that is gone", func() *state {
			s := being(t, Replace, migrate.RecordPlan, RemoveOperator)
			pending(s, s.plan.Target)
			s.subscription, s.leftovers = nil, s.installPlans
			return s
		}, (*state).Next, RemoveOperator, ""},
		{"the InstallPlan of a rollback", func() *state {
			s := being(t, Update, migrate.RecordPlan, RequireApproval, SwitchSource, migrate.BeginRollback, RestoreSource, AwaitResolver)
			pending(s, s.plan.Target)
			return s
		}, (*state).Back, DeleteInstallPlan, ""},
		{"the InstallPlan of a later version", func() *state {
			s := being(t, Update, migrate.RecordPlan, RequireApproval, SwitchSource, Approve, RestoreApproval)
			pending(s, "buoy.v1.1.1")
			return s
		}, (*state).resumeUpdates, DiscardInstallPlan, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.state()
			if s.subscription != nil {
				require.NoError(t, s.Verify())
			}
			next, err := tc.next(s)
			if tc.err != "" {
				assert.ErrorContainsf(t, err, tc.err, "got %+v, error", next)
				return
			}
			if err != nil || next.Step != tc.step || !strings.Contains(next.Waits, "to be gone, which has the finalizers example.com/hold") {
				t.Errorf("got %+v, error %v; want step %s to wait for the finalizer", next, err, tc.step)
			}
		})
	}
	for _, strategy := range []Strategy{Update, Replace, Keep} {
		s := being(t, strategy, migrate.RecordPlan)
		if !s.IsRestored() || s.Verify() != nil {
			t.Fatalf("%s: the Subscription is not as it was: %v", strategy, s.Verify())
		}
		held(s.subscription)
		assert.Falsef(t, s.IsRestored(), "%s: a Subscription that is about to go counts as restored", strategy)
		if err := s.Verify(); err == nil || !strings.Contains(err.Error(), "somebody has deleted Subscription harbour/buoy") || !strings.Contains(err.Error(), "example.com/hold") {
			t.Errorf("%s: got %v, want an error that names the finalizer", strategy, err)
		}
	}
}
