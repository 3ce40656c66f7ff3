package placement_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/sample"
)

// TestNothingShowsWhenTheNamespaceWasNamed: the API server records when a manager last changed any of its fields. An administrator who sets another
// annotation and removes it leaves a record of the namespace alone, whose time is later than when the namespace was named. A namespace that a stranger
// has created meanwhile must not count.
func TestNothingShowsWhenTheNamespaceWasNamed(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "ClusterCSIDriver"}
	server := managedfieldstest.NewTestFieldManager(managedfields.NewDeducedTypeConverter(), kind)
	written := func(annotations map[string]string) runtime.Object {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"logLevel": "Normal"}}}
		object.SetGroupVersionKind(kind)
		object.SetAnnotations(annotations)
		return object
	}
	require.NoError(t, server.Update(written(nil), "installer"))
	named := map[string]string{placement.NamespaceAnnotation: "named"}
	for _, annotations := range []map[string]string{named, {placement.NamespaceAnnotation: "named", "other.example.com/a": "b"}, named} {
		require.NoError(t, server.Update(written(annotations), "kubectl-annotate"))
	}
	records := server.ManagedFields()
	text, err := json.Marshal(records)
	require.NoError(t, err)
	require.Containsf(t, string(text), `"fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:berth.dev/driver-namespace":{}}}`, "the records")

	created := metav1.NewTime(time.Now().Add(-time.Hour))
	custom := &metav1.ObjectMeta{Name: "d", CreationTimestamp: created, Annotations: named, ManagedFields: records}
	observed, err := placement.Observe(t.Context(), fake.NewClientBuilder().Build(), sample.Driver, "", custom)
	require.NoError(t, err)
	assert.Equal(t, created.Time, observed.Driver.Created, "a namespace counts if it is not newer than")
}
