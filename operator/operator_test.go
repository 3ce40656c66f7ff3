package operator_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/test/cluster"
)

func TestMain(m *testing.M) {
	log.SetLogger(klog.Background()) // operator-lib speaks through controller-runtime's logger
	cluster.Main(m)
}

const (
	limit   = 2 * time.Minute
	version = "v1.2.3" // of the operator
)

// world is a cluster with the operator of one driver running in it.
type world struct {
	*cluster.Cluster
	t         *testing.T
	driver    drivers.Driver
	namespace string // the operator's
	home      string // the driver's namespace
	user      string // the operator's
	ended     string // a namespace that the test has deleted
	// written counts the requests with which the operator changed something of the driver's.
	written *atomic.Int64
}

// newWorld is a world with the driver that most of these tests are about.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, efsDriver(t))
}

func efsDriver(t *testing.T) drivers.Driver {
	t.Helper()
	driver, err := registry.Get("efs")
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// newWorldWith is newWorld for any driver.
func newWorldWith(t *testing.T, driver drivers.Driver) *world {
	t.Helper()
	w := newWorldOf(t, driver)
	t.Cleanup(w.checkPermissions)
	t.Cleanup(w.removeDriver)
	return w
}

// newWorldOf gives the test a namespace of its own to run the driver's operator in, with just the
// permissions that the driver's bundle gives it. The driver's cluster-scoped objects are shared, so
// these tests run one after the other. It leaves the cleaning up to the test.
func newWorldOf(t *testing.T, driver drivers.Driver) *world {
	t.Helper()
	c := cluster.Shared(t, cluster.Options{})
	w := &world{Cluster: c, t: t, driver: driver, namespace: c.Namespace(t), written: &atomic.Int64{}}
	w.home = cmp.Or(driver.Namespace, w.namespace)
	w.user = fmt.Sprintf("system:serviceaccount:%s:operator", w.namespace)
	rules, err := driver.OperatorRules()
	if err != nil {
		t.Fatal(err)
	}
	named := metav1.ObjectMeta{Namespace: w.namespace, Name: w.namespace}
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: w.namespace}
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: "operator"}}
	w.create(
		&rbacv1.Role{ObjectMeta: named, Rules: rules.Permissions},
		&rbacv1.RoleBinding{ObjectMeta: named, RoleRef: role("Role"), Subjects: subjects},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Rules: rules.ClusterPermissions},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, RoleRef: role("ClusterRole"), Subjects: subjects},
	)
	return w
}

// checkPermissions checks that the operator has asked for nothing that it may not have.
func (w *world) checkPermissions() {
	for _, event := range w.Audit(w.t) {
		// In a namespace that is being deleted nobody may make anything.
		if event.User == w.user && event.Code == http.StatusForbidden && (w.ended == "" || event.Namespace != w.ended) {
			w.t.Errorf("the operator may not: %s %s", event.Verb, event.URI)
		}
	}
}

// startOperator runs the operator, under an account of its own, until the test ends or stop is called.
func (w *world) startOperator(apis ...operator.APIController) (stop func()) {
	w.t.Helper()
	w.setImages()
	cfg := w.ServiceAccountConfig(w.t, w.namespace, "operator")
	cfg.Wrap(w.countWrites)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.operate(ctx, cfg, apis...) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the operator ended with: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// setImages sets the variables that carry the driver's images, as its bundle does, until the test ends.
func (w *world) setImages() {
	for _, image := range w.driver.Images {
		if _, set := os.LookupEnv(image.Env); !set {
			w.t.Setenv(image.Env, image.Default)
		}
	}
}

// operate runs the operator until ctx ends.
func (w *world) operate(ctx context.Context, cfg *rest.Config, apis ...operator.APIController) error {
	kube := kubernetes.NewForConfigOrDie(cfg)
	reference := &corev1.ObjectReference{Kind: "Namespace", Name: w.namespace, Namespace: w.namespace}
	return operator.Run(ctx, w.driver, version, &operator.Process{
		KubeConfig:        cfg,
		EventRecorder:     events.NewRecorder(kube.CoreV1().Events(w.namespace), "operator", reference, clock.RealClock{}),
		OperatorNamespace: w.namespace,
		Clock:             clock.RealClock{},
	}, apis...)
}

func (w *world) countWrites(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		about := request.URL.Path
		if request.Method != http.MethodGet && !strings.Contains(about, "/clustercsidrivers/") && !strings.HasSuffix(about, "/events") {
			w.written.Add(1)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// installDriver asks for the driver, and returns when the operator says that it is available.
func (w *world) installDriver() *operatorv1.ClusterCSIDriver {
	w.t.Helper()
	w.create(w.customResource())
	w.startOperator()
	return w.waitForConditions(allWell)
}

// removeDriver takes away what a test has left, without the operator's help.
func (w *world) removeDriver() {
	ctx := context.Background()
	custom := w.customResource()
	if err := w.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err == nil {
		custom.Finalizers = nil
		if err := w.Client().Update(ctx, custom); err != nil {
			w.t.Error(err)
		}
		if err := w.Client().Delete(ctx, custom); client.IgnoreNotFound(err) != nil {
			w.t.Error(err)
		}
	}
	for _, object := range w.objects() {
		if w.kept()[nameOf(object)] {
			continue // it is never deleted
		}
		if err := w.Client().Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			w.t.Error(err)
		}
	}
	ours := client.MatchingLabels{"app.kubernetes.io/managed-by": w.driver.Operator.Name}
	if err := w.Client().DeleteAllOf(ctx, &storagev1.StorageClass{}, ours); err != nil {
		w.t.Error(err)
	}
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.Client().Create(w.t.Context(), object); err != nil {
			w.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

func (w *world) customResource() *operatorv1.ClusterCSIDriver {
	return &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
}

// objects are all objects that the driver consists of.
func (w *world) objects() []client.Object {
	manifests, err := w.driver.Operand(drivers.Values{Namespace: w.home, Image: func(env string) string { return env }})
	if err != nil {
		w.t.Fatal(err)
	}
	var objects []client.Object
	for _, m := range manifests {
		objects = append(objects, m.Object)
	}
	return objects
}

// uids returns the UIDs of those of the driver's objects that the cluster has, by kind and name.
func (w *world) uids() map[string]types.UID {
	w.t.Helper()
	uids := map[string]types.UID{}
	for _, object := range w.objects() {
		if err := w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err == nil {
			uids[nameOf(object)] = object.GetUID()
		} else if !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	return uids
}

// existing returns those of the driver's objects that the cluster has, as "Kind name".
func (w *world) existing(ctx context.Context) (present, missing []string, err error) {
	for _, object := range w.objects() {
		name := nameOf(object)
		switch err := w.Client().Get(ctx, client.ObjectKeyFromObject(object), object); {
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

func (w *world) waitForConditions(want map[string]operatorv1.ConditionStatus) *operatorv1.ClusterCSIDriver {
	w.t.Helper()
	custom := w.customResource()
	cluster.Eventually(w.t, limit, fmt.Sprintf("conditions %v", want), func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		types := map[string]bool{}
		for _, c := range custom.Status.Conditions {
			if types[c.Type] {
				w.t.Fatalf("condition %s is there twice", c.Type)
			}
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
func (w *world) waitForMetric(name string, want float64) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, fmt.Sprintf("metric %s to be %v", name, want), func(context.Context) error {
		if got, found := metric(w.t, name, map[string]string{"driver": w.driver.CSIName}); got != want || !found {
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

// writes are the operator's requests that change something but its own events and lock.
func (w *world) writes() []cluster.AuditEvent {
	var writes []cluster.AuditEvent
	for _, event := range w.Audit(w.t) {
		switch event.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			if event.User == w.user && event.Resource != "events" {
				writes = append(writes, event)
			}
		}
	}
	return writes
}

func TestWithoutTheCustomResourceNothingIsTouched(t *testing.T) {
	w := newWorld(t)
	other := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	w.create(other)
	t.Cleanup(func() { w.Client().Delete(context.Background(), other) })
	w.startOperator()
	w.waitForMetric("berth_cluster_csi_driver_missing", 1)

	cluster.Eventually(t, limit, "the operator to watch", func(context.Context) error {
		for _, event := range w.Audit(t) {
			if event.User == w.user && event.Verb == "watch" && event.Resource == "clustercsidrivers" {
				if !strings.Contains(event.URI, "metadata.name%3D"+w.driver.CSIName) {
					t.Errorf("the operator watches more than its own object: %s", event.URI)
				}
				return nil
			}
		}
		return fmt.Errorf("no watch of ClusterCSIDrivers in the audit log")
	})
	began := time.Now()
	w.create(w.customResource())
	w.waitForConditions(allWell)
	w.waitForMetric("berth_cluster_csi_driver_missing", 0)
	for _, write := range w.writes() {
		if write.Received.Before(began) {
			t.Errorf("before its ClusterCSIDriver existed, the operator did: %s %s %s", write.Verb, write.Resource, write.Name)
		}
		if write.Name == other.Name {
			t.Errorf("the operator touched another driver's ClusterCSIDriver: %s", write.Verb)
		}
	}
	w.deleteCustomResource()
	w.waitForMetric("berth_cluster_csi_driver_missing", 1)
}

func TestAMissingImageIsNamed(t *testing.T) {
	w := newWorld(t)
	t.Setenv("PROVISIONER_IMAGE", "")
	w.create(w.customResource())
	w.startOperator()
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})

	got := condition(custom, w.driver.ConditionPrefix+"ManifestsDegraded")
	if got.Reason != "MissingImage" || !strings.Contains(got.Message, "PROVISIONER_IMAGE") || strings.Contains(got.Message, "DRIVER_IMAGE") {
		t.Errorf("condition = %s: %s; want the reason MissingImage and a message that names PROVISIONER_IMAGE only", got.Reason, got.Message)
	}
	if present, _, err := w.existing(t.Context()); err != nil || len(present) > 0 {
		t.Errorf("without its images the driver was installed in part: %q (%v)", present, err)
	}
}
