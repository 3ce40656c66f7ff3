package clustercsidriver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
)

const prefix = "Sample"

// is returns a condition from a text such as "TagsDegraded=True Because: it is so".
func is(text string) operatorv1.OperatorCondition {
	what, message, _ := strings.Cut(text, ": ")
	what, reason, _ := strings.Cut(what, " ")
	conditionType, status, _ := strings.Cut(what, "=")
	return operatorv1.OperatorCondition{Type: prefix + conditionType, Status: operatorv1.ConditionStatus(status), Reason: reason, Message: message}
}

func conditionsOf(texts ...string) []operatorv1.OperatorCondition {
	var conditions []operatorv1.OperatorCondition
	for _, text := range texts {
		conditions = append(conditions, is(text))
	}
	return conditions
}

// TestFold: what controllers apply is written by subject, and an operator that starts knows from it which faults there are.
func TestFold(t *testing.T) {
	for name, tc := range map[string]struct {
		applied, written []string
	}{
		"all is well": {
			applied: []string{"ManifestsDegraded=False AsExpected", "TagsDegraded=False AsExpected", "DriverPodsDegraded=False AsExpected",
				"DriverSettingsApplied=True AsExpected", "TagsAccepted=True AsExpected", "TagsSet=True AsExpected"},
			written: []string{"DriverPodsDegraded=False AsExpected", "DriverSettingsApplied=True AsExpected", "OperatorDegraded=False AsExpected", "TagsSet=True AsExpected"},
		},
		"what OpenShift's operators write": {
			applied: []string{"DriverNodeServiceControllerAvailable=False Pending: none", "DriverNodeServiceControllerProgressing=True Pending: none", "DriverNodeServiceControllerDegraded=True SyncError: no"},
			written: []string{"DriverNodeServiceControllerAvailable=False Pending: none", "DriverNodeServiceControllerDegraded=True SyncError: no", "DriverNodeServiceControllerProgressing=True Pending: none"},
		},
		"one fault": {
			applied: []string{"ManifestsDegraded=True MissingImage: there is none", "TagsDegraded=False AsExpected"},
			written: []string{"OperatorDegraded=True MissingImage: Manifests: there is none"},
		},
		"several faults, in several lines": {
			applied: []string{"DriverObjectsControllerDegraded=True SyncError: one\ntwo", "TagsDegraded=True TagsNotSet: three"},
			written: []string{"OperatorDegraded=True SyncError::TagsNotSet: DriverObjectsController: one\ntwo\nTags: three"},
		},
		"faults of the same reason": {
			applied: []string{"DriverObjectsControllerDegraded=True SyncError: one", "DriverAdoptionControllerDegraded=True SyncError: two"},
			written: []string{"OperatorDegraded=True SyncError: DriverObjectsController: one\nDriverAdoptionController: two"},
		},
		"a fault that is not certain": {
			applied: []string{"ManifestsDegraded=Unknown Asking: wait", "TagsDegraded=False AsExpected"},
			written: []string{"OperatorDegraded=Unknown Asking: Manifests: wait"},
		},
		"the member of the subject's name": {
			applied: []string{"DriverPodsDegraded=True PodsRefused: no", "DriverPodsControllerDegraded=True SyncError: neither"},
			written: []string{"DriverPodsDegraded=True PodsRefused::SyncError: no\nDriverPodsController: neither"},
		},
		"what is left out": {
			applied: []string{"DriverSettingsApplied=True AsExpected", "TagsAccepted=False LeftOut: fs", "BackendClassesMade=False LeftOut: gold"},
			written: []string{"DriverSettingsApplied=False LeftOut: TagsAccepted: fs\nBackendClassesMade: gold"},
		},
		"credentials that are missing": {
			applied: []string{"ControllerCredentialsRequestControllerAvailable=False RoleMissing: set it", "ControllerCredentialsRequestControllerProgressing=True RoleMissing: set it"},
			written: []string{"ControllerCredentialsRequestControllerAvailable=False RoleMissing: set it"},
		},
		"credentials that have been missing for too long": {
			applied: []string{"NodeCredentialsRequestControllerDegraded=False AsExpected", "NodeCredentialsRequestControllerWaitingDegraded=True RoleMissing: set it",
				"ControllerCredentialsRequestControllerDegraded=False AsExpected", "ControllerCredentialsRequestControllerWaitingDegraded=True RoleMissing: set it"},
			written: []string{"NodeCredentialsRequestControllerDegraded=True RoleMissing: NodeCredentialsRequestControllerWaiting: set it",
				"OperatorDegraded=True RoleMissing: ControllerCredentialsRequestControllerWaiting: set it"},
		},
		"credentials that the driver does without, as long as there are no tags": {
			applied: []string{"ControllerCredentialsRequestControllerAvailable=True CredentialsByHand: used", "ControllerCredentialsRequestControllerProgressing=False CredentialsByHand: used",
				"TagsCredentialsRequestControllerAvailable=True RoleMissing: set it", "TagsCredentialsRequestControllerProgressing=False RoleMissing: set it", "TagsSet=True AsExpected"},
			written: []string{"ControllerCredentialsRequestControllerAvailable=True CredentialsByHand: used", "TagsSet=True AsExpected: also TagsCredentialsRequestController: set it"},
		},
		"tags without credentials": {
			applied: []string{"TagsCredentialsRequestControllerAvailable=True RoleMissing: set it\nor create it", "TagsCredentialsRequestControllerProgressing=False RoleMissing: set it\nor create it",
				"TagsSet=Unknown NoCredentials: no tags\nat all"},
			written: []string{"TagsSet=Unknown NoCredentials: no tags\nat all\nalso TagsCredentialsRequestController: set it\nor create it"},
		},
		"a second DaemonSet": {
			applied: []string{"DriverNodeServiceControllerAvailable=True AsExpected", "DriverNodeServiceControllerProgressing=False AsExpected", "DriverNodeServiceControllerDegraded=False AsExpected",
				"DriverNodeServiceController2Available=False NoPods: none", "DriverNodeServiceController2Progressing=True Deploying: wait", "DriverNodeServiceController2Degraded=False AsExpected"},
			written: []string{"DriverNodeServiceControllerAvailable=False NoPods: DriverNodeServiceController2: none", "DriverNodeServiceControllerDegraded=False AsExpected",
				"DriverNodeServiceControllerProgressing=True Deploying: DriverNodeServiceController2: wait"},
		},
		"a backend that is about to be asked": {
			applied: []string{"BackendAvailable=False Asking: wait", "BackendProgressing=True Asking: wait"},
			written: []string{"BackendAnswers=False Asking: Backend: wait"},
		},
		"a fault without a message": {
			applied: []string{"ManifestsDegraded=True InvalidAssets"},
			written: []string{"OperatorDegraded=True InvalidAssets: Manifests: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			subjects := NewSubjects(drivers.Driver{ConditionPrefix: prefix})
			applied := conditionsOf(tc.applied...)
			written := byType(subjects.fold(applied))
			assert.Empty(t, cmp.Diff(conditionsOf(tc.written...), written), "written (-want +got)")

			unfolded := subjects.unfold(written)
			for _, c := range applied {
				if i := slices.IndexFunc(unfolded, func(other operatorv1.OperatorCondition) bool { return other.Type == c.Type }); i < 0 || unfolded[i].Status != c.Status || unfolded[i].Message != c.Message ||
					c.Status != healthyStatus(c.Type) && strings.HasSuffix(c.Type, "Degraded") && unfolded[i].Reason != c.Reason {
					t.Errorf("%s=%s (%s: %s) is not known to an operator that starts: %+v", c.Type, c.Status, c.Reason, c.Message, unfolded)
				}
			}
			assert.Empty(t, cmp.Diff(written, byType(subjects.fold(unfolded))), "an operator that starts writes something else (-want +got)")
			got := summarize(byType(unfolded), nil) // the reporter sorts them, too
			for _, want := range summarize(byType(applied), nil) {
				i := slices.IndexFunc(got, func(c operatorv1.OperatorCondition) bool { return c.Type == want.Type })
				if want.Reason != "NoData" && (got[i].Status != want.Status || got[i].Reason != want.Reason || got[i].Message != want.Message) {
					t.Errorf("the summary of an operator that starts is %+v, want %+v", got[i], want)
				}
			}
		})
	}
}

func byType(conditions []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	return slices.SortedFunc(slices.Values(conditions), func(a, b operatorv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) })
}

// TestStorageClassControllerKeepsItsName: OpenShift's operators of the drivers that clusters are installed with write the condition, too.
func TestStorageClassControllerKeepsItsName(t *testing.T) {
	applied := conditionsOf("DriverStorageClassControllerDegraded=True SyncError: no")
	for want, driver := range map[string]drivers.Driver{
		"OperatorDegraded":                     {},
		"DriverStorageClassControllerDegraded": {ClusterStorage: &drivers.ClusterStorage{}},
	} {
		driver.ConditionPrefix = prefix
		if got := NewSubjects(driver).fold(applied); len(got) != 1 || got[0].Type != prefix+want {
			t.Errorf("written are %+v, want %s", got, want)
		}
	}
}

// TestComponentsAreAwaitedAfterRestart: an operator ends before all components of a subject have reported. The next one does not take
// the driver for available meanwhile.
func TestComponentsAreAwaitedAfterRestart(t *testing.T) {
	subjects := NewSubjects(drivers.Driver{ConditionPrefix: prefix})
	started := func() *Reporter {
		r := NewReporter(nil, nil, ReporterOptions{IsCurrent: func(string) bool { return true }, Subjects: func() *Subjects { return subjects }})
		r.expected = []Component{{Name: prefix + "DriverNodeServiceController", Manifest: manifest("DaemonSet")}, {Name: prefix + "DriverNodeServiceController2", Manifest: manifest("DaemonSet")}}
		return r
	}
	first := started()
	first.applied["node"] = applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(prefix+"DriverNodeServiceControllerAvailable").WithStatus(operatorv1.ConditionTrue),
		applyoperatorv1.OperatorCondition().WithType(prefix+"DriverNodeServiceControllerProgressing").WithStatus(operatorv1.ConditionFalse))
	before := first.desired(&operatorv1.OperatorStatus{})
	assert.Empty(t, cmp.Diff(before, started().desired(before)), "the next operator writes something else (-before +after)")
	for _, c := range before.Conditions {
		if strings.HasSuffix(c.Type, "Available") && c.Status != operatorv1.ConditionFalse {
			t.Errorf("%s is %s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// TestEarlierConditionsAreRemoved: an earlier operator wrote each controller's reports. Its conditions go with the
// first write, faults among them are still known, and what stays has its time of transition. Those of other operators
// stay while this one stands back.
func TestEarlierConditionsAreRemoved(t *testing.T) {
	live := &operatorv1.OperatorStatus{Conditions: conditionsOf("ManifestsDegraded=False AsExpected", "DriverObjectsControllerDegraded=True SyncError: refused",
		"DriverPodsDegraded=False AsExpected", "TagsAccepted=True AsExpected", "DriverSettingsApplied=True AsExpected",
		"ControllerCredentialsRequestControllerAvailable=True AsExpected", "ControllerCredentialsRequestControllerProgressing=False AsExpected")}
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for i := range live.Conditions {
		live.Conditions[i].LastTransitionTime = at
	}
	subjects := NewSubjects(drivers.Driver{ConditionPrefix: prefix})
	reporter := NewReporter(nil, nil, ReporterOptions{IsCurrent: func(string) bool { return true }, Subjects: func() *Subjects { return subjects }})
	types := func(status *operatorv1.OperatorStatus) (types []string) {
		for _, c := range status.Conditions {
			types = append(types, strings.TrimPrefix(c.Type, prefix))
		}
		return types
	}

	desired := reporter.desired(live)
	want := []string{"Available", "Degraded", "Progressing", "ControllerCredentialsRequestControllerAvailable", "DriverPodsDegraded", "DriverSettingsApplied", "OperatorDegraded"}
	assert.Equal(t, want, types(desired))
	for _, c := range desired.Conditions {
		if faulty := strings.HasSuffix(c.Type, "Degraded") && c.Type != prefix+"DriverPodsDegraded"; faulty != (c.Status == operatorv1.ConditionTrue && strings.HasSuffix(c.Type, "Degraded")) {
			t.Errorf("%s is %s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
		}
		if c.Type == prefix+"DriverPodsDegraded" && !c.LastTransitionTime.Equal(&at) {
			t.Errorf("%s has changed at %s, want %s", c.Type, c.LastTransitionTime, at)
		}
	}
	assert.Empty(t, cmp.Diff(desired, reporter.desired(desired)), "an operator that starts writes something else (-before +after)")

	reporter.applied["objects"] = applyoperatorv1.OperatorStatus().WithConditions(applyoperatorv1.OperatorCondition().
		WithType(prefix + "DriverObjectsControllerDegraded").WithStatus(operatorv1.ConditionFalse).WithReason("AsExpected"))
	for _, c := range reporter.desired(desired).Conditions {
		if strings.HasSuffix(c.Type, "Degraded") && c.Status != operatorv1.ConditionFalse {
			t.Errorf("once the fault has ended, %s is %s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
		}
	}

	subjects = nil
	reporter.applied = map[string]*applyoperatorv1.OperatorStatusApplyConfiguration{}
	assert.Len(t, types(reporter.desired(live)), len(live.Conditions)+3, "while it stands back, all that there were")
}
