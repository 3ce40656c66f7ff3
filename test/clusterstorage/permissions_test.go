package clusterstorage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/release"
	"github.com/berth-csi/berth/test/walk"
)

var allPlatforms = flag.Bool("all-platforms", false, "compare the permissions on every platform, and not only on some")

// TestPermissionsAreExact walks through the life of the cluster storage operator and of the operators that it runs, and
// compares their requests to the API server with their permissions.
func TestPermissionsAreExact(t *testing.T) {
	t.Parallel()
	walked := []configv1.PlatformType{configv1.AWSPlatformType, configv1.OpenStackPlatformType}
	if *allPlatforms {
		walked = platforms()
	}
	for _, platform := range walked {
		t.Run(string(platform), func(t *testing.T) {
			t.Parallel()
			w := &walker{environment: newEnvironment(t, platform, cluster.Options{Images: programs(t)})}
			w.makeNamespaces()
			w.makeUnfit()
			metrics := w.metrics()
			w.install(release.Payload{Version: version})
			w.awaitSettled(version)

			for _, m := range metrics {
				m.Await(t)
			}
			w.loseObjects()
			w.declineClasses()
			w.reconfigureWithoutNode()
			w.replaceLeaders()
			w.install(release.Payload{Version: nextVersion})
			w.awaitSettled(nextVersion)
			w.loseNamespaces()
			w.awaitSettled(nextVersion)

			w.checkDrivers()
			w.checkOwn()
		})
	}
}

// A walker is an environment that loses namespaces.
type walker struct {
	*environment
	losses []loss
}

// A loss is the time while a namespace was missing or incomplete.
type loss struct {
	namespace    string
	began, ended time.Time
}

// permittedByOthers reports whether the rules need not permit a request: everybody may discover the APIs. In a
// namespace that is being deleted, nobody may create anything, and a Role in it is gone with it.
func (w *walker) permittedByOthers(request cluster.AuditEvent) bool {
	return walk.Discovers(request) || request.Code == http.StatusForbidden && slices.ContainsFunc(w.losses, func(l loss) bool {
		return request.Namespace == l.namespace && request.Answered.After(l.began) && request.Received.Before(l.ended)
	})
}

// makeNamespaces creates the namespaces of all operators and drivers.
func (w *walker) makeNamespaces() {
	w.t.Helper()
	names := []string{clusterstorage.Namespace, drivers.ClusterStorageNamespace}
	for _, d := range w.drivers {
		names = append(names, d.Namespace)
	}
	for _, name := range names {
		require.NoError(w.t, w.EnsureNamespace(w.t.Context(), name))
	}
}

// makeUnfit creates objects that cannot be changed to the desired state of the drivers and their operators.
func (w *walker) makeUnfit() {
	w.t.Helper()
	for _, d := range w.drivers {
		for _, object := range w.objectsOf(d) {
			if walk.MakeUnfit(object) {
				w.create(object)
			}
		}
	}
	_, rules, err := clusterstorage.OperatorRules(w.drivers)
	require.NoError(w.t, err)
	for _, rule := range rules {
		// Where there may be a trial, there may be an object to be replaced.
		name, isTrial := strings.CutSuffix(strings.Join(rule.Names, ","), drivers.TrialName(""))
		if !isTrial || rule.Delegated {
			continue
		}
		kind, err := w.Client().RESTMapper().KindFor(schema.GroupVersionResource{Group: rule.Group, Resource: rule.Resources[0]})
		require.NoError(w.t, err)
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetGroupVersionKind(kind)
		object.SetName(name)
		if rule.Own {
			object.SetNamespace(drivers.ClusterStorageNamespace)
		}
		if !walk.MakeUnfit(object) {
			w.t.Fatalf("nothing makes %s %s unfit", kind.Kind, name)
		}
		w.create(object)
	}
}

// objectsOf returns the objects of a driver.
func (w *walker) objectsOf(d drivers.Driver) []*unstructured.Unstructured {
	w.t.Helper()
	manifests, err := d.Operand(drivers.Values{Namespace: d.Namespace, Image: func(env string) string { return env }})
	require.NoError(w.t, err)
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		objects = append(objects, m.Object)
	}
	return objects
}

// monitoringOf returns the monitoring objects of a driver's operator.
func (w *walker) monitoringOf(d drivers.Driver, kind string) []*unstructured.Unstructured {
	w.t.Helper()
	manifests, err := d.OperatorMonitoring()
	require.NoError(w.t, err)
	var objects []*unstructured.Unstructured
	for _, m := range drivers.OfKind(manifests, kind) {
		m.Object.SetNamespace(drivers.ClusterStorageNamespace)
		objects = append(objects, m.Object)
	}
	return objects
}

// metrics returns scrapers of all operators' metrics; the operators get certificates.
func (w *walker) metrics() []walk.Scraper {
	w.t.Helper()
	own := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterstorage.Namespace, Name: strings.Split(clusterstorage.MetricsHost(""), ".")[0],
			Annotations: map[string]string{"service.beta.openshift.io/serving-cert-secret-name": clusterstorage.Name + "-serving-cert"}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"name": clusterstorage.Name}},
	}
	services := []*corev1.Service{own}
	for _, d := range w.drivers {
		for _, object := range w.monitoringOf(d, "Service") {
			service := &corev1.Service{}
			require.NoError(w.t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, service))
			own.Spec.Ports = service.Spec.Ports
			services = append(services, service)
		}
	}
	reader := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.Namespace(w.t), Name: "reader"}
	account := w.ServiceAccountConfig(w.t, reader.Namespace, reader.Name)
	walk.LetReadMetrics(w.t, w.Cluster, reader)
	w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Subjects: []rbacv1.Subject{reader},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}})
	authority := walk.NewAuthority(w.t, w.Cluster, clusterstorage.Namespace, drivers.ClusterStorageNamespace)
	var scrapers []walk.Scraper
	for _, service := range services {
		authority.Issue(w.t, w.Cluster, service)
		scrapers = append(scrapers, walk.Scraper{Service: service, DiscoverAs: account, Authority: authority, Shows: "# TYPE go_goroutines gauge"})
	}
	return scrapers
}

// loseObjects deletes all objects of the drivers, and the cluster storage operator's objects that no permissions depend
// on. Services are lost twice: the second loss updates the event of the first. The ClusterCSIDriver of an optional
// driver is lost once the driver's objects exist again: they show that somebody has asked for it.
func (w *walker) loseObjects() {
	w.t.Helper()
	lost := []*unstructured.Unstructured{named(configv1.GroupVersion.WithKind("ClusterOperator"), clusterstorage.ClusterOperatorName)}
	var later []*unstructured.Unstructured
	for _, d := range w.drivers {
		ofDriver, ofOperator := w.objectsOf(d), w.monitoringOf(d, "Service")
		custom := named(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"), d.CSIName)
		if d.ClusterStorage.Without == nil {
			lost = append(lost, custom)
		} else {
			later = append(later, custom)
		}
		lost = append(lost, slices.Concat(ofDriver, ofOperator)...)
		for _, object := range slices.Concat(ofDriver, ofOperator) {
			if object.GetKind() == "Service" {
				later = append(later, object)
			}
		}
	}
	walk.LoseObjects(w.t, w.Cluster, lost...)
	walk.LoseObjects(w.t, w.Cluster, later...)
}

func named(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	return object
}

func (w *walker) patch(object client.Object, body string) {
	w.t.Helper()
	if err := w.Client().Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatalf("patch %T %s: %v", object, object.GetName(), err)
	}
}

// patchDriver changes a ClusterCSIDriver as an administrator does.
func (w *walker) patchDriver(d drivers.Driver, body string) {
	w.t.Helper()
	w.patch(&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.CSIName}}, body)
}

// declineClasses asks for no StorageClasses for a while.
func (w *walker) declineClasses() {
	w.t.Helper()
	count := func(d drivers.Driver) int {
		classes, found := &storagev1.StorageClassList{}, 0
		require.NoError(w.t, w.Client().List(w.t.Context(), classes))
		for _, class := range classes.Items {
			if class.Provisioner == d.CSIName {
				found++
			}
		}
		return found
	}
	for _, d := range w.drivers {
		before := count(d)
		for _, change := range []struct {
			state operatorv1.StorageClassStateName
			want  int
		}{{operatorv1.RemovedStorageClass, 0}, {operatorv1.ManagedStorageClass, before}} {
			w.patchDriver(d, fmt.Sprintf(`{"spec":{"storageClassState":%q}}`, change.state))
			cluster.Eventually(w.t, limit, fmt.Sprintf("the classes of %s to be %s", d.CSIName, change.state), func(context.Context) error {
				if got := count(d); got != change.want {
					return fmt.Errorf("there are %d, want %d", got, change.want)
				}
				return nil
			})
		}
	}
}

// reconfigureWithoutNode asks for something that the drivers' pods have to be told, while a node is lost.
func (w *walker) reconfigureWithoutNode() {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost", Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	w.create(node)
	for _, d := range w.drivers {
		walk.AwaitNewGenerations(w.t, w.Cluster, w.objectsOf(d), func() { w.patchDriver(d, `{"spec":{"logLevel":"Debug"}}`) })
	}
	for _, d := range w.drivers {
		w.accountOf(d).AwaitRequest(w.t, "look for the pod of the lost node", func(request cluster.AuditEvent) bool {
			return request.Verb == "list" && request.Resource == "pods" && request.Namespace == d.Namespace
		})
	}
	require.NoError(w.t, w.Client().Delete(w.t.Context(), node))
	pods := &corev1.PodList{}
	require.NoError(w.t, w.Client().List(w.t.Context(), pods, client.MatchingFields{"spec.nodeName": node.Name}))
	for _, pod := range pods.Items {
		if err := w.Client().Delete(w.t.Context(), &pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
	}
}

// replaceLeaders has another pod of each driver's operator take over, and then the Deployment's pod.
func (w *walker) replaceLeaders() {
	w.t.Helper()
	for _, d := range w.drivers {
		second := w.accountOf(d).ReplaceLeader(w.t, d.Operator.Lock)
		require.NoError(w.t, w.Client().Delete(w.t.Context(), second))
	}
}

// loseNamespaces deletes the namespaces of drivers, and at last their operators' namespace. A driver in the latter
// first moves to another one that an administrator has chosen, and comes back.
func (w *walker) loseNamespaces() {
	w.t.Helper()
	for _, d := range w.drivers {
		lost := d.Namespace
		if lost == drivers.ClusterStorageNamespace {
			lost = "elsewhere-" + d.Name
			w.move(d, lost)
		}
		w.lose(lost, func() {
			cluster.Eventually(w.t, limit, "driver "+d.Name+" to be in its namespace", w.isIn(d, d.Namespace))
		})
	}
	w.lose(drivers.ClusterStorageNamespace, func() {
		cluster.Eventually(w.t, limit, "the namespace to be gone", w.Gone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: drivers.ClusterStorageNamespace}}))
		w.install(release.Payload{Version: nextVersion})
		for _, d := range w.drivers {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: d.Operator.Name}}
			cluster.Eventually(w.t, limit, "the operator's account to be back", func(ctx context.Context) error {
				return w.Client().Get(ctx, client.ObjectKeyFromObject(account), account)
			})
		}
	})
}

// lose deletes a namespace, and notes how long it takes until something has been restored.
func (w *walker) lose(namespace string, restored func()) {
	w.t.Helper()
	began := time.Now()
	require.NoError(w.t, w.Client().Delete(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	restored()
	w.losses = append(w.losses, loss{namespace, began, time.Now()})
}

// move has a driver in a namespace of an administrator's choice.
func (w *walker) move(d drivers.Driver, namespace string) {
	w.t.Helper()
	chosen := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	w.create(chosen)
	w.patchDriver(d, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:%q}}}`, placement.NamespaceAnnotation, namespace, placement.NamespaceUIDAnnotation, chosen.UID))
	cluster.Eventually(w.t, limit, "driver "+d.Name+" to be in namespace "+namespace, w.isIn(d, namespace))
}

// isIn returns a check for cluster.Eventually that a driver is in a namespace that is not being deleted.
func (w *walker) isIn(d drivers.Driver, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		found := &corev1.Namespace{}
		if err := w.Client().Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
			return err
		}
		custom := &operatorv1.ClusterCSIDriver{}
		if err := w.Client().Get(ctx, client.ObjectKey{Name: d.CSIName}, custom); err != nil {
			return err
		}
		if got := custom.Annotations[placement.NamespaceUIDAnnotation]; got != string(found.UID) || found.DeletionTimestamp != nil {
			return fmt.Errorf("it is in the namespace with UID %s, want %s%s", got, found.UID, w.conditions(ctx))
		}
		manifests, err := d.Operand(drivers.Values{Namespace: namespace, Image: func(env string) string { return env }})
		if err != nil {
			return err
		}
		var missing []error
		for _, m := range manifests {
			missing = append(missing, w.Client().Get(ctx, client.ObjectKeyFromObject(m.Object), m.Object))
		}
		return errors.Join(missing...)
	}
}

// checkDrivers compares the permissions of the drivers' operators with their use.
func (w *walker) checkDrivers() {
	w.t.Helper()
	for _, d := range w.drivers {
		rules, err := d.OperatorRules(permissions.Permanent)
		require.NoError(w.t, err)
		requests := w.accountOf(d).Requests(w.t)
		walk.CheckRefusals(w.t, requests, w.permittedByOthers)
		used := walk.Exercise(w.t, rules, drivers.ClusterStorageNamespace, requests, w.permittedByOthers)
		for _, problem := range permissions.Check(rules, used) {
			w.t.Errorf("%s: %s", d.Operator.Name, problem)
		}
	}
}

// checkOwn compares the cluster storage operator's permissions for this platform with their use.
func (w *walker) checkOwn() {
	w.t.Helper()
	inOwn, inDrivers, err := clusterstorage.OperatorRules(w.drivers)
	require.NoError(w.t, err)
	requests := w.account().Requests(w.t)
	walk.CheckRefusals(w.t, requests, w.permittedByOthers)
	var there, elsewhere []cluster.AuditEvent
	for _, request := range requests {
		if request.Namespace == drivers.ClusterStorageNamespace {
			there = append(there, request)
		} else {
			elsewhere = append(elsewhere, request)
		}
	}
	// Cluster-wide rules are checked with the operator's own.
	isThere := func(r permissions.Rule) bool { return r.Own }
	everywhere := slices.Concat(inOwn, slices.DeleteFunc(slices.Clone(inDrivers), isThere))
	used := walk.Exercise(w.t, everywhere, clusterstorage.Namespace, elsewhere, w.permittedByOthers)
	usedThere := walk.Exercise(w.t, inDrivers, drivers.ClusterStorageNamespace, there, w.permittedByOthers)
	for p := range usedThere {
		if !p.Own {
			used[p] = true
			delete(usedThere, p)
		}
	}
	onlyThere := slices.DeleteFunc(slices.Clone(inDrivers), func(r permissions.Rule) bool { return !r.Own })
	for _, problem := range slices.Concat(permissions.Check(everywhere, used), permissions.Check(onlyThere, usedThere)) {
		w.t.Errorf("%s: %s", clusterstorage.Name, problem)
	}
}
