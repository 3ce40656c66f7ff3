package e2e

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/walk"
)

var update = flag.Bool("update", false, "update the records of exercised permissions")

// TestPermissionsAreExact walks through the life of each driver's operator, from the adoption of an earlier one's
// objects to the end, and compares its requests to the API server with its permissions.
func TestPermissionsAreExact(t *testing.T) {
	t.Parallel()
	for _, driver := range registry.Packaged() {
		t.Run(driver.Name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, driver, cluster.Options{})
			w.serveCatalog()
			earlier := w.leaveEarlierOperator()
			w.subscribe(nil)
			w.checkOperatorProcess()
			w.checkMonitoring()
			w.create(&operatorv1.ClusterCSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: driver.CSIName},
				Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
			})
			w.replaceEarlierOperator(earlier)

			w.step(func(ctx context.Context, c client.Client) error { return journey.InstallDriver(ctx, c, driver.CSIName) })
			objects := w.driverObjectsIn(earlier.namespace)
			walk.LoseObjects(t, w.Cluster, objects...)
			walk.LoseObjects(t, w.Cluster, objects[:1]...) // again: a repeated event is counted in the same object
			w.reconfigure(earlier.namespace)
			w.useAPIs()
			w.uninstallInUse()
			w.account.ReplaceLeader(t, driver.Operator.Lock)

			w.checkPermissions()
			w.checkExercised()
		})
	}
}

// checkPermissions checks that the bundle's permissions were enough for all that the operator did.
func (w *environment) checkPermissions() {
	w.t.Helper()
	walk.CheckRefusals(w.t, w.requests(), givenByOthers)
}

// checkExercised compares the permissions that the operator has used with their record, and with the reasons why some
// are not used.
func (w *environment) checkExercised() {
	w.t.Helper()
	rules, err := w.driver.OperatorRules(permissions.Removable)
	require.NoError(w.t, err)
	used := walk.Exercise(w.t, rules, namespace, w.requests(), givenByOthers)
	root, err := tools.Root()
	require.NoError(w.t, err)
	file := filepath.Join(root, "drivers", w.driver.Name, permissions.RecordName)
	if *update {
		text := "# The permissions that the operator was seen to use. To update this record:\n" +
			"# go test ./test/e2e -run TestPermissionsAreExact -update\n" + used.String()
		require.NoError(w.t, os.WriteFile(file, []byte(text), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(w.t, err)
	recorded, err := permissions.Parse(string(text))
	require.NoError(w.t, err, file)
	if diff := cmp.Diff(recorded.String(), used.String()); diff != "" {
		w.t.Errorf("permissions that the operator has used (-recorded +used), `go test ./test/e2e -run TestPermissionsAreExact -update` updates the record:\n%s", diff)
	}
	for _, problem := range permissions.Check(rules, used) {
		w.t.Error(problem)
	}
}

// givenByOthers reports whether the bundle need not permit a request: everybody may discover the APIs, and OLM permits
// the use of each operator's OperatorCondition, a moment after it has started the operator.
func givenByOthers(event cluster.AuditEvent) bool {
	return walk.Discovers(event) || event.Group == "operators.coreos.com" && event.Resource == "operatorconditions"
}

// leader returns the operator's pod that holds the lock.
func (w *environment) leader() *corev1.Pod {
	w.t.Helper()
	pod, err := journey.LockHolder(w.t.Context(), w.Client(), namespace, w.driver.Operator.Lock)
	require.NoError(w.t, err)
	return pod
}
