// Package handover records the events while a driver is handed over from OLM to the cluster storage operator, and
// checks what must hold throughout: no object that volumes need is replaced, and two operators never run together.
//
//	recorded := handover.Record(t, c, handover.Former{Driver: driver, Namespace: namespace, Operator: operator})
//	... // the hand-over
//	recorded.MustHold(t)
package handover

import (
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// limit is the time limit for the new operator's last action.
const limit = 6 * time.Minute

// WriterLabels are the labels of the pods of the application, which the hand-over must not disturb.
var WriterLabels = map[string]string{"app": "writer"}

// Former is a driver with an operator that OLM runs.
type Former struct {
	Driver    drivers.Driver
	Namespace string // of the operator
	Operator  string // its Deployment and its service account
	Own       bool   // ours, and not OpenShift 4.5's
	// Unoperated says that no operator of ours runs afterwards, so that nothing replaces the driver's pods.
	Unoperated bool
}

// Recording is a recording of a hand-over.
type Recording struct {
	of Former
	on *cluster.Cluster
	// kept are recordings of objects that must not be deleted, replaced or about to be deleted.
	kept   map[string]func() []watch.Event
	before map[string]map[string]types.UID // by kind and name
	pods   func() []watch.Event
	// podsBefore are all pods as they were before.
	podsBefore []corev1.Pod
	secrets    []corev1.Secret // of the driver, as they were before
	// formerPods are the pods of OLM's operator.
	formerPods []types.UID
	operators  func() []watch.Event // ClusterOperators
}

// kinds returns the kinds whose objects must not be lost, by the words for them in test names.
func (f Former) kinds() map[string]kind {
	settings := f.settings()
	ofDriver := client.InNamespace(f.Driver.Namespace)
	return map[string]kind{
		"PersistentVolume": {list: &corev1.PersistentVolumeList{}}, "PersistentVolumeClaim": {list: &corev1.PersistentVolumeClaimList{}},
		"VolumeAttachment": {list: &storagev1.VolumeAttachmentList{}, failures: "F7: "}, "StatefulSet": {list: &appsv1.StatefulSetList{}},
		"DaemonSet": {list: &appsv1.DaemonSetList{}, of: ofDriver, failures: "F7: "}, "Deployment": {list: &appsv1.DeploymentList{}, of: ofDriver, failures: "F7: "},
		"Secret": {list: &corev1.SecretList{}, of: ofDriver}, "Namespace": {list: &corev1.NamespaceList{}, failures: "F10: "},
		"StorageClass": {list: &storagev1.StorageClassList{}}, "CSIDriver": {list: &storagev1.CSIDriverList{}, failures: "F6: "},
		"CustomResourceDefinition":     {list: listOf(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}), failures: "F10: "},
		"CredentialsRequest":           {list: listOf(drivers.CredentialsRequestKind), failures: "F8: "},
		"VolumeSnapshot":               {list: listOf(snapshots.WithKind("VolumeSnapshot"))},
		"VolumeSnapshotContent":        {list: listOf(snapshots.WithKind("VolumeSnapshotContent"))},
		"what configures the operator": {list: listOf(settings), failures: "F1, F2: "},
	}
}

var snapshots = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// kind is a kind of objects.
type kind struct {
	list client.ObjectList
	of   client.ListOption // may be nil
	// failures are the failures that would delete objects of the kind, as package failures has them.
	failures string
}

func listOf(of schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	of.Kind += "List"
	list.SetGroupVersionKind(of)
	return list
}

// settings returns the kind of the object that configures the operator.
func (f Former) settings() schema.GroupVersionKind {
	if f.Own {
		return operatorv1.GroupVersion.WithKind("ClusterCSIDriver")
	}
	return f.Driver.OldCustomResources()[0].Kind
}

// Record starts to record. lacks are kinds that need not have an object at the beginning.
func Record(t testing.TB, on *cluster.Cluster, of Former, lacks ...string) *Recording {
	t.Helper()
	r := &Recording{of: of, on: on, kept: map[string]func() []watch.Event{}, before: map[string]map[string]types.UID{}}
	for name, kind := range of.kinds() {
		var options []client.ListOption
		if kind.of != nil {
			options = append(options, kind.of)
		}
		r.kept[name], r.before[name] = on.Record(t, kind.list, options...), map[string]types.UID{}
		require.NoError(t, meta.EachListItem(kind.list, func(object runtime.Object) error {
			accessor, err := meta.Accessor(object)
			if err == nil {
				r.before[name][nameOf(accessor)] = accessor.GetUID()
			}
			return err
		}))
	}
	for _, name := range append(lacks, "CredentialsRequest") { // not all drivers have one
		_, known := r.before[name]
		require.Truef(t, known, "there is no kind %q", name)
		if len(r.before[name]) == 0 {
			delete(r.before, name)
		}
	}
	for name, objects := range r.before {
		assert.NotEmptyf(t, objects, "there was no %s to begin with", name)
	}
	pods := &corev1.PodList{}
	r.pods = on.Record(t, pods)
	r.podsBefore = pods.Items
	for _, pod := range pods.Items {
		if pod.Namespace == of.Namespace && pod.Spec.ServiceAccountName == of.Operator {
			r.formerPods = append(r.formerPods, pod.UID)
		}
	}
	secrets := &corev1.SecretList{}
	require.NoError(t, on.Client().List(t.Context(), secrets, client.InNamespace(of.Driver.Namespace)))
	r.secrets = secrets.Items
	r.operators = on.Record(t, &configv1.ClusterOperatorList{})
	return r
}

func nameOf(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

// Secrets returns the secrets of the driver as they were before.
func (r *Recording) Secrets() []corev1.Secret { return r.secrets }

// MustHold ends the recording, and fails the test unless all invariants held at all times.
func (r *Recording) MustHold(t *testing.T) {
	t.Helper()
	r.awaitKeys(t)
	kinds := r.of.kinds()
	for name, end := range r.kept {
		events := end()
		if name == "Secret" {
			t.Run("F5: a Secret changes when no old pod is left", func(t *testing.T) { r.mustKeepSecrets(t, events, r.pods()) })
		}
		t.Run(kinds[name].failures+"no "+name+" is gone", func(t *testing.T) { r.mustKeep(t, name, events) })
	}
	t.Run("F3: two node pods", func(t *testing.T) { mustHaveOnePodOnEachNode(t, r.podsBefore, r.pods(), !r.of.Own && !r.of.Unoperated) })
	t.Run("F4: two operators", r.mustHaveOneOperator)
	t.Run("nothing happens to the application", r.mustLeaveWriters)
	t.Run("storage is available", func(t *testing.T) {
		for _, event := range r.operators() {
			operator := event.Object.(*configv1.ClusterOperator)
			for _, c := range operator.Status.Conditions {
				// Drivers that OLM did not run are installed, and are not available before that.
				if operator.Name == "storage" && c.Type == configv1.OperatorAvailable && c.Status != configv1.ConditionTrue && strings.Contains(c.Message, r.of.Driver.ConditionPrefix+"CSIDriverOperator") {
					t.Errorf("ClusterOperator storage was Available=%s: %s: %s", c.Status, c.Reason, c.Message)
				}
			}
		}
	})
}

// mustKeep fails the test if an object was deleted or replaced.
func (r *Recording) mustKeep(t *testing.T, kind string, events []watch.Event) {
	for _, event := range events {
		object, err := meta.Accessor(event.Object)
		require.NoError(t, err)
		uid, known := r.before[kind][nameOf(object)]
		if known && (event.Type == watch.Deleted || object.GetDeletionTimestamp() != nil || object.GetUID() != uid) {
			t.Errorf("%s %s was %s, with UID %s, deletion at %v; want it with UID %s throughout", kind, nameOf(object), event.Type, object.GetUID(), object.GetDeletionTimestamp(), uid)
		}
	}
}
