package adoption

import (
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
)

// begun is the state of an adoption that has only recorded its plan.
func begun() *state {
	in := healthy()
	p := in.plan()
	s := &state{
		now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), plan: p, driver: boat, namespaceUID: "n-1",
		subscriptions: in.subscriptions, installPlans: in.installPlans, versions: in.versions, proven: in.proven,
		left: "Deployment harbour/old-boat-operator", old: &in.old[0].OldSettings, conditions: in.storage.Status.Conditions,
	}
	s.journal = emptyJournal()
	s.journal.Plan = p
	s.log(migrate.RecordPlan, 0)
	return s
}

// emptyJournal is an open journal without entries.
func emptyJournal() *migrate.Journal {
	j, err := Adopt.ParseJournal(stored(valid()))
	if err != nil {
		panic(err)
	}
	j.Entries = nil
	return j
}

// log adds a step that was started some time ago.
func (s *state) log(step migrate.StepName, ago time.Duration) {
	s.journal.Entries = append(s.journal.Entries, migrate.Entry{Step: step, At: s.now.Add(-ago)})
}

func unsubscribed() *state {
	s := begun()
	s.subscriptions = nil
	s.log(DeleteSubscription, time.Minute)
	return s
}

func deleted() *state {
	s := unsubscribed()
	s.installPlans, s.versions = nil, nil
	s.log(DeleteVersion, 30*time.Second)
	return s
}

func quiet() *state {
	s := deleted()
	s.log(AwaitOLM, olmDelay)
	return s
}

func ended() *state {
	s := quiet()
	s.left, s.proven, s.conditions = "", nil, nil
	return s
}

func started() *state {
	s := ended()
	s.successor = &appsv1.Deployment{}
	s.successor.Status.AvailableReplicas = 1
	s.custom = &operatorv1.ClusterCSIDriver{}
	return s
}

func handedOver() *state {
	s := started()
	for suffix, status := range map[string]operatorv1.ConditionStatus{"CRAvailable": "True", "CRProgressing": "False", "CRDegraded": "False"} {
		s.conditions = append(s.conditions, operatorv1.OperatorCondition{Type: "BoatCSIDriverOperator" + suffix, Status: status})
	}
	return s
}

// TestNext: the next step for each state.
func TestNext(t *testing.T) {
	with := func(s *state, change func(*state)) *state { change(s); return s }
	for _, tc := range []struct {
		name  string
		state *state
		step  migrate.StepName
		waits string // a fragment; "" if the step can be executed
	}{
		{"the beginning", begun(), DeleteSubscription, ""},
		{"a finalizer holds the Subscription", with(begun(), func(s *state) {
			s.subscriptions[0].DeletionTimestamp, s.subscriptions[0].Finalizers = &metav1.Time{}, []string{"example.com/hold"}
		}), DeleteSubscription, "to be gone, which has the finalizers example.com/hold"},
		{"unsubscribed", unsubscribed(), DeleteInstallPlans, ""},
		{"an InstallPlan that is being deleted", with(unsubscribed(), func(s *state) { s.installPlans[0].DeletionTimestamp = &metav1.Time{} }), DeleteInstallPlans, "install-1 to be gone"},
		{"an InstallPlan that OLM carries out", with(unsubscribed(), func(s *state) { s.installPlans[0].Status.Phase = v1alpha1.InstallPlanPhaseInstalling }), DeleteInstallPlans, "carry out"},
		{"no InstallPlans", with(unsubscribed(), func(s *state) { s.installPlans = nil }), DeleteVersion, ""},
		{"a ClusterServiceVersion that is being deleted", with(unsubscribed(), func(s *state) {
			s.installPlans, s.versions[0].DeletionTimestamp = nil, &metav1.Time{}
		}), DeleteVersion, "to be gone"},
		{"everything is deleted", deleted(), AwaitOLM, ""},
		{"OLM has not had enough time", with(deleted(), func(s *state) { s.log(AwaitOLM, olmDelay-time.Second) }), AwaitOLM, "15 seconds"},
		{"the clock was ahead", with(deleted(), func(s *state) { s.log(AwaitOLM, -time.Hour) }), AwaitOLM, ""},
		{"OLM has installed it again", with(quiet(), func(s *state) { s.versions = healthy().versions }), DeleteVersion, ""},
		{"it was deleted again", with(quiet(), func(s *state) { s.log(DeleteVersion, time.Second) }), AwaitOLM, ""},
		{"the operator runs", quiet(), AwaitEnd, "Deployment harbour/old-boat-operator to be gone"},
		{"its permissions are there", with(ended(), func(s *state) { s.proven = healthy().proven }), AwaitEnd, "ClusterRoleBinding b-1"},
		{"permissions in another namespace", with(started(), func(s *state) {
			s.proven = []predecessor.Operator{{Namespace: "quay", Kind: predecessor.Version}}
		}), AwaitDriver, "Boat"},
		{"nothing of OLM is left", ended(), AwaitOperator, "to create Deployment " + drivers.ClusterStorageNamespace + "/boat-operator"},
		{"no pod runs", with(started(), func(s *state) { s.successor.Status.AvailableReplicas = 0 }), AwaitOperator, "a pod of Deployment"},
		{"no ClusterCSIDriver", with(started(), func(s *state) { s.custom = nil }), AwaitOperator, "ClusterCSIDriver"},
		{"it has not reported", started(), AwaitDriver, "BoatCSIDriverOperatorCRAvailable"},
		{"it is degraded", with(handedOver(), func(s *state) {
			for i := range s.conditions {
				if strings.HasSuffix(s.conditions[i].Type, "Degraded") {
					s.conditions[i].Status, s.conditions[i].Message = "True", "no credentials"
				}
			}
		}), AwaitDriver, "no credentials"},
		{"pods are old", with(handedOver(), func(s *state) {
			s.sets = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Name: "boat-node", Generation: 2}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 1}}}
		}), AwaitDriver, "1 of 3 pods"},
		{"the end", handedOver(), "", ""},
	} {
		next, err := tc.state.Next()
		if err != nil || next.Step != tc.step || (next.Waits == "") != (tc.waits == "") || !strings.Contains(next.Waits, tc.waits) {
			t.Errorf("%s: step %q, waits for %q, error %v; want step %q, waits for %q", tc.name, next.Step, next.Waits, err, tc.step, tc.waits)
		}
	}
}

// TestVerify: an adoption stops when somebody changes the objects that it moves.
func TestVerify(t *testing.T) {
	with := func(s *state, change func(*state)) *state { change(s); return s }
	for _, tc := range []struct {
		name  string
		state *state
		want  string // a fragment of the error; "" for none
	}{
		{"the beginning", begun(), ""}, {"unsubscribed", unsubscribed(), ""}, {"everything is deleted", deleted(), ""}, {"the end", handedOver(), ""},
		{"another namespace of the name", with(begun(), func(s *state) { s.namespaceUID = "n-9" }), "recreated under the same name"},
		{"the namespace is gone", with(ended(), func(s *state) { s.namespaceUID = "" }), ""},
		{"F13: another Subscription of the name", with(begun(), func(s *state) { s.subscriptions[0].UID = "s-9" }), "subscribed to package boat-operator again"},
		{"F13: somebody subscribes again", with(deleted(), func(s *state) { s.subscriptions = healthy().subscriptions; s.subscriptions[0].UID = "s-9" }), "GitOps"},
		{"F11: OLM updates the operator", with(begun(), func(s *state) { s.subscriptions[0].Status.CurrentCSV = "boat-operator.v1.5.0" }), "OLM updates the operator"},
		{"another ClusterServiceVersion of the name", with(begun(), func(s *state) { s.versions[0].UID = "v-9" }), "not in the plan"},
		{"another version", with(unsubscribed(), func(s *state) { s.versions[0].Name = "boat-operator.v1.5.0" }), "not in the plan"},
		{"OLM has installed the same version again", with(unsubscribed(), func(s *state) { s.versions[0].UID = "v-9" }), ""},
		{"the ClusterServiceVersion is gone before the Subscription", with(begun(), func(s *state) { s.versions = nil }), "but not its Subscription"},
		{"F1, F2: what configured it is gone", with(begun(), func(s *state) { s.old = nil }), "deleted Boat cluster"},
		{"what configured it is another one", with(begun(), func(s *state) { s.old.UID = "o-9" }), "recreated Boat cluster"},
		{"F1, F2: what configured it is being deleted", with(begun(), func(s *state) { s.old.Deleted = true }), "being deleted"},
		{"somebody does not want it managed any more", with(begun(), func(s *state) { s.old.ManagementState = operatorv1.Unmanaged }), "Unmanaged"},
		{"the same, with the new operator", with(started(), func(s *state) { s.old = nil }), ""},
		{"the ClusterCSIDriver is gone", with(begun(), func(s *state) { s.plan.Subject.UID = "c-1" }), "deleted ClusterCSIDriver"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.state.Verify()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestBack: an adoption can be rolled back as long as OLM has everything.
func TestBack(t *testing.T) {
	withoutVersion := begun()
	withoutVersion.versions = nil
	for _, tc := range []struct {
		name  string
		state *state
		want  bool
	}{
		{"the beginning", begun(), true}, {"unsubscribed", unsubscribed(), false}, {"everything is deleted", deleted(), false}, {"the end", handedOver(), false},
		{"without the ClusterServiceVersion", withoutVersion, false},
	} {
		next, err := tc.state.Back()
		if (err == nil) != tc.want || next != (migrate.Decision{}) {
			t.Errorf("%s: %+v, error %v; want an error: %t", tc.name, next, err, !tc.want)
		}
		assert.Equalf(t, tc.want, tc.state.IsRestored(), "%s: restored", tc.name)
	}
}

// TestHolds: an adoption no longer holds when OLM has something of the operator again.
func TestHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*state)
		want   bool
	}{
		"the end":                 {func(*state) {}, true},
		"a Subscription":          {func(s *state) { s.subscriptions = healthy().subscriptions }, false},
		"a ClusterServiceVersion": {func(s *state) { s.versions = healthy().versions }, false},
		"permissions":             {func(s *state) { s.proven = healthy().proven }, false},
	} {
		s := handedOver()
		tc.change(s)
		if holds, err := s.Holds(); holds != tc.want || err != nil {
			t.Errorf("%s: holds: %t, error %v; want %t", name, holds, err, tc.want)
		}
	}
}
