package clusterstorage_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const limit = 5 * time.Minute

// testEnv is a cluster for the cluster storage operator. The operators of drivers do not run in it: what they report, a
// test writes.
type testEnv struct {
	*cluster.Cluster
	t    *testing.T
	wrap func(*rest.Config) // changes how the operator connects to the cluster
	end  func()             // ends the operator
}

// newTestEnv returns a cluster of a platform, without the operator.
func newTestEnv(t *testing.T, platform configv1.PlatformType) *testEnv {
	t.Helper()
	e := &testEnv{Cluster: cluster.Shared(t, cluster.Options{}), t: t, wrap: func(*rest.Config) {}, end: func() {}}
	e.setPlatform(platform)
	e.must(e.EnsureNamespace(t.Context(), clusterstorage.Namespace))
	e.allow()
	t.Cleanup(e.checkPermissions)
	t.Cleanup(e.removeAll)
	return e
}

// account is the operator's, with exactly its permissions.
const account = "system:serviceaccount:" + clusterstorage.Namespace + ":" + clusterstorage.Name

// allow gives the operator's account its permissions.
func (e *testEnv) allow() {
	e.t.Helper()
	rules, err := clusterstorage.OperatorPolicyRules(registry.All())
	e.must(err)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: clusterstorage.Namespace, Name: clusterstorage.Name}}
	everywhere := metav1.ObjectMeta{Name: clusterstorage.Name}
	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: everywhere, Rules: rules.Cluster},
		&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterstorage.Name}, Subjects: subjects},
	}
	for namespace, rules := range map[string][]rbacv1.PolicyRule{clusterstorage.Namespace: rules.Own, drivers.ClusterStorageNamespace: rules.Drivers} {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: clusterstorage.Name}
		objects = append(objects, &rbacv1.Role{ObjectMeta: meta, Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: clusterstorage.Name}, Subjects: subjects})
	}
	for _, object := range objects {
		e.must(client.IgnoreAlreadyExists(e.Client().Create(e.t.Context(), object)))
	}
}

// checkPermissions fails the test if a request of the operator was forbidden.
func (e *testEnv) checkPermissions() {
	for _, request := range e.requests() {
		assert.NotEqualValuesf(e.t, http.StatusForbidden, request.Code, "a request of the operator: %s %s", request.Verb, request.URI)
	}
}

// requests returns the operator's requests.
func (e *testEnv) requests() []cluster.AuditEvent {
	return e.AuditOf(e.t, cluster.Requests{User: account})
}

func (e *testEnv) setPlatform(platform configv1.PlatformType) {
	e.t.Helper()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	e.get(infrastructure)
	infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{Type: platform}
	e.must(e.Client().Status().Update(e.t.Context(), infrastructure))
}

// start runs the operator until end or the end of the test.
func (e *testEnv) start(version string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	cfg := e.ServiceAccountConfig(e.t, clusterstorage.Namespace, clusterstorage.Name)
	e.wrap(cfg)
	process := clusterstorage.Process{
		KubeConfig: cfg, EventRecorder: events.NewInMemoryRecorder("test", clock.RealClock{}), Version: version, Clock: clock.RealClock{},
		Getenv: func(name string) string { return image(name, version) },
	}
	go func() { done <- clusterstorage.Run(ctx, registry.All(), process) }()
	e.end = func() {
		cancel()
		assert.NoError(e.t, <-done, "the operator ended")
		e.end = func() {}
	}
	e.t.Cleanup(func() { e.end() })
}

// image returns the pull spec of an environment variable.
func image(name, version string) string {
	return "quay.io/berth-csi/test/" + strings.ToLower(name) + ":" + version
}

func (e *testEnv) must(err error) {
	e.t.Helper()
	require.NoError(e.t, err)
}

func (e *testEnv) get(object client.Object) {
	e.t.Helper()
	e.must(e.Client().Get(e.t.Context(), client.ObjectKeyFromObject(object), object))
}

func (e *testEnv) driver(name string) drivers.Driver {
	e.t.Helper()
	d, err := registry.Get(name)
	e.must(err)
	return d
}

// report writes a driver's operator's report, as "Type=Status" or "Type=Status Reason".
func (e *testEnv) report(d drivers.Driver, version string, conditions ...string) {
	e.t.Helper()
	cluster.Eventually(e.t, limit, "a report in ClusterCSIDriver "+d.CSIName, func(ctx context.Context) error {
		custom := &operatorv1.ClusterCSIDriver{}
		if err := e.Client().Get(ctx, client.ObjectKey{Name: d.CSIName}, custom); err != nil {
			return err
		}
		custom.Status.Version, custom.Status.Conditions = version, nil
		for _, c := range conditions {
			conditionType, rest, _ := strings.Cut(c, "=")
			status, reason, _ := strings.Cut(rest, " ")
			custom.Status.Conditions = append(custom.Status.Conditions, operatorv1.OperatorCondition{
				Type: conditionType, Status: operatorv1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.Now()})
		}
		return e.Client().Status().Update(ctx, custom)
	})
}

// settled is the report of a driver's operator once the driver runs.
var settled = []string{"Available=True", "Progressing=False", "Degraded=False"}

// awaitSummary waits until the ClusterOperator has conditions, in the order Available, Progressing, Degraded, Upgradeable.
func (e *testEnv) awaitSummary(want string) {
	e.t.Helper()
	cluster.Eventually(e.t, limit, "the summary "+want, func(ctx context.Context) error {
		operator := &configv1.ClusterOperator{}
		if err := e.Client().Get(ctx, client.ObjectKey{Name: clusterstorage.ClusterOperatorName}, operator); err != nil {
			return err
		}
		if got := summaryOf(operator); got != want {
			return fmt.Errorf("it is %s: %+v", got, operator.Status.Conditions)
		}
		return nil
	})
}

// summaryOf returns the conditions of a ClusterOperator, such as "Available, not Degraded".
func summaryOf(operator *configv1.ClusterOperator) string {
	var parts []string
	for _, conditionType := range []configv1.ClusterStatusConditionType{configv1.OperatorAvailable, configv1.OperatorProgressing, configv1.OperatorDegraded, configv1.OperatorUpgradeable} {
		status := "none"
		for _, c := range operator.Status.Conditions {
			if c.Type == conditionType {
				status = string(c.Status)
			}
		}
		parts = append(parts, string(conditionType)+"="+status)
	}
	return strings.Join(parts, " ")
}

const (
	summaryStarting = "Available=False Progressing=True Degraded=False Upgradeable=True"
	summarySettled  = "Available=True Progressing=False Degraded=False Upgradeable=True"
)

// versions returns the versions that the ClusterOperator reports.
func (e *testEnv) versions() map[string]string {
	e.t.Helper()
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: clusterstorage.ClusterOperatorName}}
	e.get(operator)
	found := map[string]string{}
	for _, v := range operator.Status.Versions {
		found[v.Name] = v.Version
	}
	return found
}

// made returns the objects that the operator has made, as its ClusterOperator names them. Namespaces are not among them.
func (e *testEnv) made() []*unstructured.Unstructured {
	e.t.Helper()
	operator := &configv1.ClusterOperator{}
	if err := e.Client().Get(context.Background(), client.ObjectKey{Name: clusterstorage.ClusterOperatorName}, operator); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		e.t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	for _, related := range operator.Status.RelatedObjects {
		if related.Resource == "storages" || related.Resource == "namespaces" {
			continue
		}
		kind, err := e.Client().RESTMapper().KindFor(schema.GroupVersionResource{Group: related.Group, Resource: related.Resource})
		if err != nil {
			continue // the cluster does not serve monitoring
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(related.Namespace)
		object.SetName(related.Name)
		found = append(found, object)
	}
	return found
}

// removeAll removes the operator's objects, so that the next test begins with a cluster that never had them.
func (e *testEnv) removeAll() {
	e.end()
	objects := e.made()
	operator := &unstructured.Unstructured{}
	operator.SetGroupVersionKind(configv1.GroupVersion.WithKind("ClusterOperator"))
	operator.SetName(clusterstorage.ClusterOperatorName)
	for _, object := range append(objects, operator) {
		assert.NoError(e.t, client.IgnoreNotFound(e.Client().Delete(context.Background(), object)))
		cluster.Eventually(e.t, limit, object.GetName()+" to be gone", e.Gone(object))
	}
}
