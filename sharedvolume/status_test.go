package sharedvolume

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// definitionFile is the CustomResourceDefinition that is generated from the API types.
const definitionFile = "../drivers/efs/assets/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml"

func TestStatusOf(t *testing.T) {
	apiGroup := ""
	claim := corev1.TypedLocalObjectReference{APIGroup: &apiGroup, Kind: "PersistentVolumeClaim", Name: "pvc-logs"}
	condition := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now), Reason: reason, Message: message}}
	}
	for _, test := range []struct {
		name string
		do   func(*observed)
		v    readiness
		want v1alpha1.SharedVolumeStatus
	}{
		{"ready", func(*observed) {}, *ready("v"), v1alpha1.SharedVolumeStatus{
			Phase: "Ready", Reason: "Ready", ClaimRef: claim, ObservedGeneration: 1,
			Conditions: condition("True", "Bound", "The claim is bound to PersistentVolume v"),
		}},
		{"what was said before is gone", func(o *observed) {
			o.sharedVolume.Status = v1alpha1.SharedVolumeStatus{Phase: "Failed", Message: "old", ClaimRef: corev1.TypedLocalObjectReference{Name: "forged"}}
			o.claim = nil
		}, *failed(reasonConflict, "no %s", "way"), v1alpha1.SharedVolumeStatus{
			Phase: "Failed", Message: "no way", Reason: "Conflict", Summary: "no way", ObservedGeneration: 1, Conditions: condition("False", "Conflict", "no way"),
		}},
		{"a failure since the creation", func(o *observed) {
			o.claim, o.sharedVolume.CreationTimestamp = nil, metav1.NewTime(now)
			o.sharedVolume.Status = v1alpha1.SharedVolumeStatus{Phase: "Pending", Conditions: []metav1.Condition{{Type: "Ready", Status: "False",
				LastTransitionTime: metav1.NewTime(time.Unix(0, 0)), Reason: "Pending"}}} // as the API server's default has it
			o.now = now.Add(time.Minute)
		}, *failed(reasonConflict, "no %s", "way"), v1alpha1.SharedVolumeStatus{
			Phase: "Failed", Message: "no way", Reason: "Conflict", Summary: "no way", ObservedGeneration: 1, Conditions: condition("False", "Conflict", "no way"),
		}},
		{"no claimRef while not bound", func(o *observed) { o.claim.Status.Phase = corev1.ClaimLost }, waiting, v1alpha1.SharedVolumeStatus{
			Phase: "Pending", Reason: "Pending",
			Conditions: []metav1.Condition{{Type: "Ready", Status: "False", LastTransitionTime: metav1.NewTime(now), Reason: "Pending",
				Message: "Waiting for the claim and its volume to be bound to each other"}},
		}},
		{"no claimRef to a foreign claim", func(o *observed) { o.claim.Spec.Selector = nil }, *failed(reasonConflict, "no"), v1alpha1.SharedVolumeStatus{
			Phase: "Failed", Message: "no", Reason: "Conflict", Summary: "no", ObservedGeneration: 1, Conditions: condition("False", "Conflict", "no"),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := settled()
			test.do(&o)
			got := statusOf(o, test.v)
			assert.Empty(t, gocmp.Diff(test.want, got), "-want +got")
			// The same verdict later is the same status, to the letter.
			o.sharedVolume.Status, o.now = got, now.Add(time.Hour)
			if again := statusOf(o, test.v); !equality.Semantic.DeepEqual(got, again) {
				t.Errorf("the same again differs: %s", gocmp.Diff(got, again))
			}
		})
	}
}

// TestDefaultStatus: the CRD's default says that nobody has seen the SharedVolume, and has no time. Waiting for a moment costs no write.
func TestDefaultStatus(t *testing.T) {
	raw, err := os.ReadFile(definitionFile)
	require.NoError(t, err)
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(raw, &definition))
	o := settled()
	o.claim.Status.Phase = corev1.ClaimPending
	byDefault := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Default
	require.NoError(t, yaml.UnmarshalStrict(byDefault.Raw, &o.sharedVolume.Status))
	assert.Empty(t, gocmp.Diff(o.sharedVolume.Status, statusOf(o, waiting)), "-default +first status")
	condition := meta.FindStatusCondition(o.sharedVolume.Status.Conditions, v1alpha1.ConditionReady)
	if condition.Status != metav1.ConditionUnknown || condition.Reason != reasonNotYetSeen || !condition.LastTransitionTime.IsZero() {
		t.Errorf("the default is %+v, want Unknown, NotYetSeen, without a time", condition)
	}
	for _, r := range []readiness{*ready("v"), *failed(reasonConflict, "no"), *pending(reasonNotBound, "no")} {
		now := meta.FindStatusCondition(statusOf(o, r).Conditions, v1alpha1.ConditionReady)
		if now.Reason != r.reason || !now.LastTransitionTime.Time.Equal(o.now) {
			t.Errorf("with %+v after it, the condition is %+v, want that since now", r, now)
		}
	}
}

// TestColumns: the output of kubectl get fits into 110 columns for names of ten characters, names the problem, also one
// in AWS, and never cuts a command.
func TestColumns(t *testing.T) {
	missing := accessPoint{known: true, reason: "FileSystemNotFound", message: "AWS has none"}
	command := "berth grant team fs-0123456789abcdef0 fsap-0123456789abcdef0"
	for _, test := range []struct {
		name, namespace, accessPoint string
		v                            *readiness // nil: there is no grant
		found                        accessPoint
		reason, summary              string
	}{
		{"ready", "team", "", ready("v"), accessPoint{}, "Ready", ""},
		{"no file system", "team", "", ready("v"), missing, "FileSystemNotFound", "AWS has none"},
		{"not ready, and no file system", "team", "", failed(reasonConflict, "no"), missing, "Conflict", "no"},
		{"the claim's name is derived", "team", "", failed(reasonConflict, "PersistentVolumeClaim pvc-logs-of-all exists"), accessPoint{}, "Conflict", "The claim exists"},
		{"long", "team", "", failed(reasonRefused, "%s", strings.Repeat("ä", 200)), accessPoint{}, "Refused", strings.Repeat("ä", 119) + "…"},
		{"no grant", "team", "", nil, accessPoint{}, "NotGranted", "to grant it: " + command},
		{"no grant, long name", strings.Repeat("n", 63), "", nil, accessPoint{}, "NotGranted", strings.Replace(command, "team", strings.Repeat("n", 63), 1)},
		{"no grant, long ID", "team", "fsap-" + strings.Repeat("0", 100), nil, accessPoint{}, "NotGranted", "the condition Ready has the command that grants it"},
		{"the longest reason", "team", "", ready("v"), accessPoint{known: true, reason: "AccessPointNotAvailable", message: "m"}, "AccessPointNotAvailable", "m"},
	} {
		o := settled()
		sv := o.sharedVolume
		sv.Namespace, sv.Name = test.namespace, "logs-of-all"[:10]
		sv.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: "fs-0123456789abcdef0", AccessPointID: cmp.Or(test.accessPoint, "fsap-0123456789abcdef0")}
		if strings.Contains(test.summary, "The claim") {
			sv.Name = "logs-of-all"
		}
		if o.accessPoint = test.found; test.v == nil {
			test.v = notGranted(o)
		}
		sv.Status = statusOf(o, *test.v)
		sv.Status.ClaimRef.Name = ClaimName(sv.Name) // the widest there can be
		if sv.Status.Reason != test.reason || sv.Status.Summary != test.summary {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, sv.Status.Reason, sv.Status.Summary, test.reason, test.summary)
		}
		if width := widthOf(t, sv); test.accessPoint == "" && width > 110 {
			t.Errorf("%s: the table is %d wide", test.name, width)
		}
	}
}

// widthOf returns the width of the table that kubectl get shows for a SharedVolume that is some days old.
func widthOf(t *testing.T, sv *v1alpha1.SharedVolume) int {
	t.Helper()
	raw, err := os.ReadFile(definitionFile)
	require.NoError(t, err)
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(raw, &definition))
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sv)
	require.NoError(t, err)
	width := max(len("NAME"), len(sv.Name))
	for _, column := range definition.Spec.Versions[0].AdditionalPrinterColumns {
		if column.Priority > 0 {
			continue
		}
		value, _, err := unstructured.NestedFieldNoCopy(object, strings.Split(strings.TrimPrefix(column.JSONPath, "."), ".")...)
		require.NoError(t, err, column.JSONPath)
		text := fmt.Sprint(value)
		if column.Type == "date" {
			text = "5d23h"
		}
		width += len("   ") + max(len(column.Name), len(text))
	}
	return width
}

func TestMessageIsBounded(t *testing.T) {
	message := failed(reasonRefused, "%s", strings.Repeat("ä", 10000)).message
	assert.Len(t, []rune(message), maxMessage, "the message")
}

// TestStatusOfAccessPoint: the condition about AWS is there while the SharedVolume is Ready and something is known. Until somebody has
// looked, it stays.
func TestStatusOfAccessPoint(t *testing.T) {
	before := metav1.Condition{Type: "FileSystemAvailable", Status: "True", Reason: "Found", Message: "m", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}
	absent := accessPoint{known: true, reason: "AccessPointNotFound", message: "no"}
	for _, test := range []struct {
		name   string
		before bool
		found  accessPoint
		ready  bool
		want   string
	}{
		{"nobody has looked", false, accessPoint{}, true, ""},
		{"nobody has looked again", true, accessPoint{}, true, "True Found"},
		{"found", false, accessPoint{known: true, present: true, reason: "Found", message: "m"}, true, "True Found"},
		{"not found", false, absent, true, "False AccessPointNotFound"},
		{"not found any more", true, absent, true, "False AccessPointNotFound"},
		{"nothing can be known", true, accessPoint{known: true}, true, ""},
		{"not Ready", false, absent, false, ""},
		{"not Ready any more", true, absent, false, ""},
	} {
		o := settled()
		if test.before {
			o.sharedVolume.Status.Conditions = []metav1.Condition{before}
		}
		o.accessPoint = test.found
		verdict := *failed(reasonConflict, "no")
		if test.ready {
			verdict = *ready("v")
		}
		got := ""
		if c := meta.FindStatusCondition(statusOf(o, verdict).Conditions, "FileSystemAvailable"); c != nil {
			got = string(c.Status) + " " + c.Reason
		}
		assert.EqualValues(t, test.want, got, test.name)
	}
}
