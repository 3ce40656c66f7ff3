package operator_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubemetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
	ownControllers "github.com/berth-csi/berth/drivers/registry/controllers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/operator/metrics"
)

func TestMain(m *testing.M) {
	log.SetLogger(klog.Background()) // operator-lib speaks through controller-runtime's logger
	// Tests wait for controllers most of the time.
	if err := flag.Set("test.parallel", strconv.Itoa(len(lanes))); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

const (
	limit   = 5 * time.Minute
	version = "v1.2.3" // of the operator
)

// testEnv is a cluster with the operator of one driver.
type testEnv struct {
	*cluster.Cluster
	t         *testing.T
	driver    drivers.Driver
	namespace string      // the operator's
	home      string      // the driver's namespace
	user      string      // the operator's
	ended     string      // a namespace that the test has deleted
	clock     clock.Clock // the operator's; nil for the real one
	permanent bool        // the driver cannot be removed
	// written counts the operator's writes to objects of the driver.
	written *atomic.Int64
	// variables are the operator's environment variables, strings by name. At first they are the driver's images, as in
	// its bundle.
	variables *sync.Map
	// own returns the driver's code besides its definition; nil for the code in releases.
	own func() controller.Own
	// metrics has the metrics of the operator that started last; nil before any did.
	metrics *atomic.Pointer[kubemetrics.KubeRegistry]
}

// newTestEnv returns an environment for the EFS driver.
func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnvWith(t, efsDriver(t))
}

func efsDriver(t *testing.T) drivers.Driver {
	t.Helper()
	driver, err := registry.Get("efs")
	require.NoError(t, err)
	return driver
}

// newTestEnvWith returns an environment for a driver.
func newTestEnvWith(t *testing.T, driver drivers.Driver) *testEnv {
	t.Helper()
	env := newTestEnvOf(t, driver)
	t.Cleanup(env.checkPermissions)
	t.Cleanup(env.removeDriver)
	return env
}

// lanes are the clusters of this package. A driver's cluster-scoped objects have the same names in every test, so each
// cluster is for one test at a time. The operators of all tests run in one process, so each has metrics and environment
// variables of its own.
var (
	lanes   [3]lane
	lanesMu sync.Mutex
)

type lane struct {
	test string // a top-level test, "" if the cluster is free
	envs int    // of that test
}

// takeLane returns a cluster for a test and its subtests.
func takeLane(t *testing.T) *cluster.Cluster {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	lanesMu.Lock()
	defer lanesMu.Unlock()
	i := slices.IndexFunc(lanes[:], func(l lane) bool { return l.test == test })
	if i < 0 {
		i = slices.IndexFunc(lanes[:], func(l lane) bool { return l.test == "" })
	}
	lanes[i].test = test
	lanes[i].envs++
	t.Cleanup(func() {
		lanesMu.Lock()
		defer lanesMu.Unlock()
		if lanes[i].envs--; lanes[i].envs == 0 {
			lanes[i].test = ""
		}
	})
	return cluster.Shared(t, cluster.Options{Name: fmt.Sprint("lane ", i)})
}

// newTestEnvOf creates a namespace for the driver's operator, with exactly the permissions of the driver's bundle. The test
// has to clean up.
func newTestEnvOf(t *testing.T, driver drivers.Driver) *testEnv {
	t.Helper()
	c := takeLane(t)
	env := &testEnv{Cluster: c, t: t, driver: driver, namespace: c.Namespace(t), written: &atomic.Int64{},
		variables: &sync.Map{}, metrics: &atomic.Pointer[kubemetrics.KubeRegistry]{}}
	for _, image := range driver.Images {
		env.variables.Store(image.Env, image.Default)
	}
	env.home = cmp.Or(driver.Namespace, env.namespace)
	env.user = fmt.Sprintf("system:serviceaccount:%s:operator", env.namespace)
	rules, err := driver.OperatorPolicyRules(permissions.Removable)
	require.NoError(t, err)
	named := metav1.ObjectMeta{Namespace: env.namespace, Name: env.namespace}
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: env.namespace}
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: env.namespace, Name: "operator"}}
	env.create(
		&rbacv1.Role{ObjectMeta: named, Rules: rules.Permissions},
		&rbacv1.RoleBinding{ObjectMeta: named, RoleRef: role("Role"), Subjects: subjects},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}, Rules: rules.ClusterPermissions},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}, RoleRef: role("ClusterRole"), Subjects: subjects},
	)
	return env
}

// makePermanent makes the operator run as the cluster storage operator runs it, with the permissions of such an operator.
func (env *testEnv) makePermanent() {
	env.t.Helper()
	env.permanent = true
	env.permit(permissions.Permanent)
}

// permit replaces the operator's permissions with its driver's, as OLM does when it updates the operator.
func (env *testEnv) permit(operators permissions.Operators) {
	env.t.Helper()
	rules, err := env.driver.OperatorPolicyRules(operators)
	require.NoError(env.t, err)
	change(env, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: env.namespace}}, func(r *rbacv1.Role) { r.Rules = rules.Permissions })
	change(env, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}, func(r *rbacv1.ClusterRole) { r.Rules = rules.ClusterPermissions })
}

// checkPermissions checks that no request of the operator was forbidden.
func (env *testEnv) checkPermissions() {
	for _, event := range env.requests() {
		// Nobody can create objects in a namespace that is being deleted.
		if event.Code == http.StatusForbidden && (env.ended == "" || event.Namespace != env.ended) {
			env.t.Errorf("the operator's request was forbidden: %s %s", event.Verb, event.URI)
		}
	}
}

// startOperator runs the operator, under an account of its own, until the test ends or stop is called.
func (env *testEnv) startOperator(apis ...operator.APIController) (stop func()) {
	env.t.Helper()
	cfg := env.ServiceAccountConfig(env.t, env.namespace, "operator")
	cfg.Wrap(env.countWrites)
	return env.startOperatorWith(cfg, apis...)
}

// startOperatorWith is startOperator with a configuration of the test's own.
func (env *testEnv) startOperatorWith(cfg *rest.Config, apis ...operator.APIController) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- env.operate(ctx, cfg, apis...) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(env.t, <-done, "the operator ended with")
	})
	env.t.Cleanup(stop)
	return stop
}

// operate runs the operator until ctx ends.
func (env *testEnv) operate(ctx context.Context, cfg *rest.Config, apis ...operator.APIController) error {
	kube := kubernetes.NewForConfigOrDie(cfg)
	reference := &corev1.ObjectReference{Kind: "Namespace", Name: env.namespace, Namespace: env.namespace}
	var now clock.Clock = clock.RealClock{}
	if env.clock != nil {
		now = env.clock
	}
	registry := kubemetrics.NewKubeRegistry()
	process := metrics.New(registry.MustRegister)
	env.metrics.Store(&registry)
	own := ownControllers.Of(env.driver.Name)
	if env.own != nil {
		own = env.own()
	}
	if own.Register != nil {
		own.Register(registry.MustRegister)
	}
	return operator.Run(ctx, env.driver, version, &operator.Process{
		KubeConfig:        cfg,
		EventRecorder:     events.NewRecorder(kube.CoreV1().Events(env.namespace), "operator", reference, clock.RealClock{}),
		OperatorNamespace: env.namespace,
		Clock:             now,
		Metrics:           process,
		Getenv:            env.getenv,
		Permanent:         env.permanent,
		Own:               own,
	}, apis...)
}

func (env *testEnv) getenv(name string) string {
	value, _ := env.variables.Load(name)
	text, _ := value.(string)
	return text
}

func (env *testEnv) countWrites(next http.RoundTripper) http.RoundTripper {
	return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		about := request.URL.Path
		if request.Method != http.MethodGet && !strings.Contains(about, "/clustercsidrivers/") && !strings.HasSuffix(about, "/events") {
			env.written.Add(1)
		}
		return response, err
	})
}

// installDriver creates the ClusterCSIDriver, and returns when the driver is available.
func (env *testEnv) installDriver() *operatorv1.ClusterCSIDriver {
	env.t.Helper()
	env.create(env.customResource())
	env.startOperator()
	return env.waitForConditions(allWell)
}

// removeDriver deletes the rest of a test's objects, without the operator.
func (env *testEnv) removeDriver() {
	ctx := context.Background()
	custom := env.customResource()
	if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err == nil {
		custom.Finalizers = nil
		assert.NoError(env.t, env.Client().Update(ctx, custom))
		assert.NoError(env.t, client.IgnoreNotFound(env.Client().Delete(ctx, custom)))
	}
	for _, object := range env.objects() {
		if env.kept()[nameOf(object)] {
			continue // it is never deleted
		}
		assert.NoError(env.t, client.IgnoreNotFound(env.Client().Delete(ctx, object)))
	}
	ours := client.MatchingLabels{"app.kubernetes.io/managed-by": env.driver.Operator.Name}
	assert.NoError(env.t, env.Client().DeleteAllOf(ctx, &storagev1.StorageClass{}, ours))
}

func (env *testEnv) create(objects ...client.Object) {
	env.t.Helper()
	for _, object := range objects {
		require.NoErrorf(env.t, env.Client().Create(env.t.Context(), object), "create %T %s", object, object.GetName())
	}
}

func (env *testEnv) customResource() *operatorv1.ClusterCSIDriver {
	return &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: env.driver.CSIName},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
}

// objects returns all objects of the driver.
func (env *testEnv) objects() []client.Object {
	manifests, err := env.driver.Operand(drivers.Values{Namespace: env.home, Image: func(env string) string { return env }})
	require.NoError(env.t, err)
	var objects []client.Object
	for _, m := range manifests {
		objects = append(objects, m.Object)
	}
	return objects
}

// uids returns the UIDs of the driver's existing objects, by kind and name.
func (env *testEnv) uids() map[string]types.UID {
	env.t.Helper()
	uids := map[string]types.UID{}
	for _, object := range env.objects() {
		if err := env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(object), object); err == nil {
			uids[nameOf(object)] = object.GetUID()
		} else if !apierrors.IsNotFound(err) {
			env.t.Fatal(err)
		}
	}
	return uids
}

// existing returns the driver's existing objects, as "Kind name".
func (env *testEnv) existing(ctx context.Context) (present, missing []string, err error) {
	for _, object := range env.objects() {
		name := nameOf(object)
		switch err := env.Client().Get(ctx, client.ObjectKeyFromObject(object), object); {
		case err == nil:
			present = append(present, name)
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
		default:
			return nil, nil, err
		}
	}
	return present, missing, nil
}

func (env *testEnv) waitForConditions(want map[string]operatorv1.ConditionStatus) *operatorv1.ClusterCSIDriver {
	env.t.Helper()
	custom := env.customResource()
	env.Await(env.t, limit, fmt.Sprintf("conditions %v", want), custom, func() error {
		types := map[string]bool{}
		for _, c := range custom.Status.Conditions {
			require.Falsef(env.t, types[c.Type], "condition %s is there twice", c.Type)
			types[c.Type] = true
		}
		for conditionType, status := range want {
			if got := condition(custom, conditionType); got.Status != status {
				return fmt.Errorf("condition %s is %q (%s: %s), want %q", conditionType, got.Status, got.Reason, got.Message, status)
			}
		}
		return nil
	})
	return custom
}

// waitForMetric waits until a metric of the operator has a value for its driver.
func (env *testEnv) waitForMetric(name string, want float64) {
	env.t.Helper()
	cluster.Eventually(env.t, limit, fmt.Sprintf("metric %s to be %v", name, want), func(context.Context) error {
		if got, found := env.metric(name, nil); got != want || !found {
			return fmt.Errorf("it is %v (found: %v)", got, found)
		}
		return nil
	})
}

func condition(custom *operatorv1.ClusterCSIDriver, conditionType string) operatorv1.OperatorCondition {
	for _, c := range custom.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return operatorv1.OperatorCondition{}
}

var allWell = map[string]operatorv1.ConditionStatus{
	"Available": operatorv1.ConditionTrue, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionFalse,
}

// requests returns the operator's requests.
func (env *testEnv) requests() []cluster.AuditEvent {
	env.t.Helper()
	return env.AuditOf(env.t, cluster.Requests{User: env.user})
}

// writes returns the operator's writes, except events.
func (env *testEnv) writes() []cluster.AuditEvent {
	var writes []cluster.AuditEvent
	for _, event := range env.requests() {
		switch event.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			if event.Resource != "events" {
				writes = append(writes, event)
			}
		}
	}
	return writes
}

func TestNothingIsTouchedWithoutCustomResource(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	other := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	env.create(other)
	t.Cleanup(func() { env.Client().Delete(context.Background(), other) })
	env.startOperator()
	env.waitForMetric("berth_cluster_csi_driver_missing", 1)
	env.waitForEvent("ClusterCSIDriverMissing", "ClusterCSIDriver "+env.driver.CSIName)
	env.waitForEvent("ClusterCSIDriverMissing", "oc label namespace "+env.namespace+" openshift.io/cluster-monitoring=true")

	cluster.Eventually(t, limit, "the operator to watch", func(context.Context) error {
		for _, event := range env.requests() {
			if event.Verb == "watch" && event.Resource == "clustercsidrivers" {
				assert.Contains(t, event.URI, "metadata.name%3D"+env.driver.CSIName, "the operator watches more than its own object")
				return nil
			}
		}
		return fmt.Errorf("no watch of ClusterCSIDrivers in the audit log")
	})
	began := time.Now()
	env.create(env.customResource())
	env.waitForConditions(allWell)
	env.waitForMetric("berth_cluster_csi_driver_missing", 0)
	for _, write := range env.writes() {
		assert.Falsef(t, write.Received.Before(began), "before its ClusterCSIDriver existed, the operator requested: %s %s %s", write.Verb, write.Resource, write.Name)
		assert.NotEqualf(t, other.Name, write.Name, "the operator touched another driver's ClusterCSIDriver: %s", write.Verb)
	}
	env.deleteCustomResource()
	env.waitForMetric("berth_cluster_csi_driver_missing", 1)
}

// TestReminderStays: the event that there is no ClusterCSIDriver is repeated before it expires. It names the label for
// the cluster's monitoring only where that is missing.
func TestReminderStays(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}
	label := `{"metadata":{"labels":{"openshift.io/cluster-monitoring":"true"}}}`
	require.NoError(t, env.Client().Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", []byte(label))))
	clock := clocktesting.NewFakeClock(time.Now())
	env.clock = clock
	env.startOperator()
	reminders := func() []string { return env.events("ClusterCSIDriverMissing") }
	cluster.Eventually(t, limit, "a reminder", func(context.Context) error {
		if len(reminders()) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	for _, message := range reminders() {
		assert.NotContains(t, message, "oc label", "the namespace is monitored, and the event says")
	}
	cluster.Eventually(t, limit, "another reminder", func(context.Context) error {
		clock.Step(time.Hour) // the event expires
		if len(reminders()) == 1 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	env.create(env.customResource())
	env.waitForMetric("berth_cluster_csi_driver_missing", 0)
	before := len(reminders())
	clock.Step(time.Hour)
	env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionTrue})
	assert.Len(t, reminders(), before, "reminders once the ClusterCSIDriver exists")
}

func TestMissingImageIsReported(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.variables.Delete("PROVISIONER_IMAGE")
	env.create(env.customResource())
	env.startOperator()
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})

	got := condition(custom, env.driver.ConditionPrefix+"OperatorDegraded")
	if got.Reason != "MissingImage" || !strings.Contains(got.Message, "PROVISIONER_IMAGE") || strings.Contains(got.Message, "DRIVER_IMAGE") {
		t.Errorf("condition = %s: %s; want the reason MissingImage and a message that names PROVISIONER_IMAGE only", got.Reason, got.Message)
	}
	if present, _, err := env.existing(t.Context()); err != nil || len(present) > 0 {
		t.Errorf("without its images the driver was installed in part: %q (%v)", present, err)
	}
}
