package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
)

var update = flag.Bool("update", false, "write the records of exercised permissions anew")

// TestPermissionsAreExact walks through the life of each driver's operator, from the adoption of what an
// earlier one left to the end, and compares what it has asked of the API server with its permissions.
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
			w.loseObjects(objects...)
			w.loseObjects(objects[:1]...) // again: what has happened before is told in the same event
			w.reconfigure(earlier.namespace)
			w.useAPIs()
			w.uninstallInUse()
			w.replaceLeader()

			w.checkPermissions()
			w.checkExercised()
		})
	}
}

// checkPermissions checks that the bundle's permissions were enough for all that the operator did.
func (w *environment) checkPermissions() {
	w.t.Helper()
	requests := 0
	for _, event := range w.requests() {
		requests++
		if event.Code == http.StatusForbidden && !givenByOthers(event) {
			w.t.Errorf("the bundle does not permit: %s %s", event.Verb, event.URI)
		}
	}
	if requests == 0 {
		w.t.Error("the audit log has no request of the operator")
	}
}

// checkExercised compares what the operator has used of its permissions with the record of that, and with
// the reasons why some are not used.
func (w *environment) checkExercised() {
	w.t.Helper()
	grants, err := w.driver.OperatorRules(permissions.Removable)
	if err != nil {
		w.t.Fatal(err)
	}
	var requests []permissions.Permission
	for _, event := range w.requests() {
		if event.Code != http.StatusForbidden && !givenByOthers(event) {
			requests = append(requests, needsOf(event)...)
		}
	}
	used, unforeseen := permissions.Exercise(grants, requests)
	for _, request := range unforeseen {
		w.t.Errorf("no grant is for %q: somebody else permits it", request)
	}
	root, err := tools.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(root, "drivers", w.driver.Name, permissions.RecordName)
	if *update {
		text := "# What the operator was seen to use of its permissions. To record it anew:\n" +
			"# go test ./test/e2e -run TestPermissionsAreExact -update\n" + used.String()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	recorded, err := permissions.Parse(string(text))
	if err != nil {
		w.t.Fatalf("%s: %v", file, err)
	}
	if diff := cmp.Diff(recorded.String(), used.String()); diff != "" {
		w.t.Errorf("permissions that the operator has used (-recorded +used), `go test ./test/e2e -run TestPermissionsAreExact -update` records them anew:\n%s", diff)
	}
	for _, problem := range permissions.Check(grants, used) {
		w.t.Error(problem)
	}
}

// givenByOthers tells whether a request is about something that the bundle need not permit: everybody may
// ask what the API server serves, and OLM permits the use of the object that it makes for each operator, a
// moment after it has started that.
func givenByOthers(event cluster.AuditEvent) bool {
	return event.Resource == "" || event.Group == "operators.coreos.com" && event.Resource == "operatorconditions"
}

// needsOf returns the permissions that it took to have a request answered.
func needsOf(event cluster.AuditEvent) []permissions.Permission {
	need := permissions.Permission{
		Own: event.Namespace == namespace, Group: event.Group, Resource: event.Resource, Name: event.Name, Verb: event.Verb,
	}
	if event.Subresource != "" {
		need.Resource += "/" + event.Subresource
	}
	switch {
	case need.Verb == "create" && event.Subresource == "":
		need.Name = "" // It stands in the body, which nobody has read when the permission is looked for.
	case event.Code == http.StatusCreated:
		create := need
		create.Verb = "create"
		return []permissions.Permission{need, create}
	}
	return []permissions.Permission{need}
}

// awaitRequest waits until the operator has sent a request.
func (w *environment) awaitRequest(what string, is func(cluster.AuditEvent) bool) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the operator to "+what, func(context.Context) error {
		if !slices.ContainsFunc(w.requests(), is) {
			return fmt.Errorf("the audit log has no such request of %s", w.account)
		}
		return nil
	})
}

// leader returns the operator's pod that holds the lock.
func (w *environment) leader() *corev1.Pod {
	w.t.Helper()
	pod, err := journey.LockHolder(w.t.Context(), w.Client(), namespace, w.driver.Operator.Lock)
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}
