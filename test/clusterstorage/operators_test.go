package clusterstorage

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
	"github.com/berth-csi/berth/test/walk"
)

// TestOperators: on each platform, the release's manifests are enough for storage to become available, with real
// operators, and then they rest. Nothing changes when an administrator annotates their objects, or when they restart.
// (They apply an object again when it has changed, and when they start; that changes nothing in it.)
func TestOperators(t *testing.T) {
	t.Parallel()
	for _, platform := range platforms() {
		t.Run(string(platform), func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, platform, cluster.Options{Images: programs(t)})
			w.install(release.Payload{Version: version})
			w.awaitSettled(version)
			w.checkMonitoring()
			w.awaitRest()

			touched := w.touchAll()
			w.awaitRest()
			w.mustBeUnchanged("an administrator's annotation on everything that they made", touched)

			w.restartAll()
			w.awaitSettled(version)
			w.awaitRest()
			w.mustBeUnchanged("a restart of all operators", touched)
			if platform == configv1.OpenStackPlatformType {
				w.checkZones()
			}

			for _, write := range w.writes(time.Time{}) {
				if write.Resource == "namespaces" && write.Name == drivers.ClusterStorageNamespace {
					t.Errorf("the namespace of the release's manifests was written: %s", list([]cluster.AuditEvent{write}))
				}
			}
			w.checkForbidden()
		})
	}
}

// checkZones fails the test unless Nova and Cinder were asked once for their zones, and the driver has learned that they are the same.
func (w *environment) checkZones() {
	w.t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: "cloud-conf"}}
	w.get(config)
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: "openstack-cinder-csi-driver-controller"}}
	w.get(controller)
	provisioner := controller.Spec.Template.Spec.Containers[slices.IndexFunc(controller.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "csi-provisioner" })]
	if got := config.Data["enable_topology"]; got != "true" || !slices.Contains(provisioner.Args, "--feature-gates=Topology=true") {
		w.t.Errorf("enable_topology is %q, and the provisioner runs with %q; want both true, as the zones of Nova and Cinder are the same", got, provisioner.Args)
	}
	asked := map[openstack.Service]int{}
	for _, call := range w.cloud.Calls() {
		if call.Route == "/os-availability-zone" {
			asked[call.Service]++
		}
	}
	if diff := cmp.Diff(map[openstack.Service]int{openstack.Nova: 1, openstack.Cinder: 1}, asked); diff != "" {
		w.t.Errorf("how often services were asked for their zones (-want +got):\n%s", diff)
	}
}

// checkMonitoring fails the test unless the cluster's Prometheus reads the metrics of the cluster storage operator, over a
// verified connection.
func (w *environment) checkMonitoring() {
	w.t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: clusterstorage.Namespace, Name: clusterstorage.Name + "-metrics"}}
	w.get(service)
	monitor := &unstructured.Unstructured{}
	monitor.SetAPIVersion("monitoring.coreos.com/v1")
	monitor.SetKind("ServiceMonitor")
	monitor.SetNamespace(clusterstorage.Namespace)
	monitor.SetName(clusterstorage.Name)
	w.get(monitor)
	prometheus := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "openshift-monitoring", Name: "prometheus-k8s"}
	account := w.ServiceAccountConfig(w.t, prometheus.Namespace, prometheus.Name)
	walk.LetReadMetrics(w.t, w.Cluster, prometheus) // as OpenShift does
	authority := walk.NewAuthority(w.t, w.Cluster, clusterstorage.Namespace)
	authority.Issue(w.t, w.Cluster, service)
	walk.Scraper{Service: service, DiscoverAs: account, Authority: authority, Shows: "# TYPE go_goroutines gauge"}.Await(w.t)
}

// touchAll annotates everything that our operators made, as an administrator may do, and returns it.
func (w *environment) touchAll() []*unstructured.Unstructured {
	w.t.Helper()
	made := w.made()
	if len(made) < 20 {
		w.t.Errorf("the operators have made only %d objects", len(made))
	}
	for _, object := range made {
		if object.GetKind() == "Deployment" {
			continue // its reported generation changes with its annotations, too
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/note":"of an administrator"}}}`))
		require.NoError(w.t, w.Client().Patch(w.t.Context(), object, patch))
	}
	return made
}

// mustBeUnchanged fails the test if objects that everybody should leave alone have changed. A lock is another one when another
// pod is active.
func (w *environment) mustBeUnchanged(after string, objects []*unstructured.Unstructured) {
	w.t.Helper()
	for _, before := range objects {
		if w.isLock(before) {
			continue
		}
		now := before.DeepCopy()
		w.get(now)
		if diff := cmp.Diff(content(before), content(now)); diff != "" {
			w.t.Errorf("after %s, %s %s is another one (-before +after):\n%s", after, before.GetKind(), client.ObjectKeyFromObject(before), diff)
		}
	}
}

// content returns an object without its bookkeeping, and a workload without the controller manager's fields.
func content(object *unstructured.Unstructured) map[string]any {
	content := object.DeepCopy().Object
	unstructured.RemoveNestedField(content, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(content, "metadata", "managedFields")
	if kind := object.GetKind(); kind == "Deployment" || kind == "DaemonSet" || kind == "PodDisruptionBudget" {
		unstructured.RemoveNestedField(content, "status")
	}
	return content
}

// restartAll deletes the pods of all operators, and waits until others have taken over.
func (w *environment) restartAll() {
	w.t.Helper()
	before, err := w.active(w.t.Context())
	require.NoError(w.t, err)
	deleted := 0
	for _, namespace := range []string{clusterstorage.Namespace, drivers.ClusterStorageNamespace} {
		pods := &corev1.PodList{}
		require.NoError(w.t, w.Client().List(w.t.Context(), pods, client.InNamespace(namespace)))
		for _, pod := range pods.Items {
			if w.isOperator(pod) {
				deleted++
				require.NoError(w.t, w.Client().Delete(w.t.Context(), &pod))
			}
		}
	}
	if deleted != len(w.drivers)+1 {
		w.t.Fatalf("there were %d pods of operators, want one of each of %d and of the cluster storage operator", deleted, len(w.drivers))
	}
	cluster.Eventually(w.t, limit, "others to be active", func(ctx context.Context) error {
		now, err := w.active(ctx)
		if err != nil {
			return err
		}
		for i, holder := range now {
			if holder == "" || holder == before[i] {
				return fmt.Errorf("those who are active are %q, they were %q", now, before)
			}
		}
		return nil
	})
}

// active returns who holds the locks of all operators.
func (w *environment) active(ctx context.Context) ([]string, error) {
	lease := &coordinationv1.Lease{}
	if err := w.Client().Get(ctx, client.ObjectKey{Namespace: clusterstorage.Namespace, Name: clusterstorage.Name + "-lock"}, lease); err != nil {
		return nil, err
	}
	holders := []string{ptr.Deref(lease.Spec.HolderIdentity, "")}
	for _, d := range w.drivers {
		pod, err := journey.LockHolder(ctx, w.Client(), drivers.ClusterStorageNamespace, d.Operator.Lock)
		if err != nil {
			return nil, err
		}
		holders = append(holders, pod.Name)
	}
	return holders, nil
}

// isOperator reports whether a pod is one of our operators'.
func (w *environment) isOperator(pod corev1.Pod) bool {
	for _, d := range w.drivers {
		if pod.Spec.ServiceAccountName == d.Operator.Name {
			return true
		}
	}
	return pod.Spec.ServiceAccountName == clusterstorage.Name
}

// isLock reports whether an object is the lock of an operator's active pod.
func (w *environment) isLock(object *unstructured.Unstructured) bool {
	for _, d := range w.drivers {
		if object.GetKind() == "ConfigMap" && object.GetName() == d.Operator.Lock {
			return true
		}
	}
	return false
}
