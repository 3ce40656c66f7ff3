package e2e

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/walk"
)

// monitoringObjects are the objects of the operator's own monitoring, where OLM puts them.
func (w *environment) monitoringObjects() []*unstructured.Unstructured {
	w.t.Helper()
	manifests, err := w.driver.OperatorMonitoring()
	require.NoError(w.t, err)
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		m.Object.SetNamespace(namespace)
		objects = append(objects, m.Object)
	}
	return objects
}

// checkMonitoring checks that OLM has installed the objects for monitoring, and that only accounts with permission to
// read metrics can read the operator's, over a verified connection.
func (w *environment) checkMonitoring() {
	w.t.Helper()
	objects := w.monitoringObjects()
	cluster.Eventually(w.t, limit, "OLM to install the operator's monitoring", func(context.Context) error {
		if got := w.uids(objects...); len(got) != len(objects) {
			return fmt.Errorf("%d of %d objects are there: %v", len(got), len(objects), got)
		}
		return nil
	})
	accounts := w.Namespace(w.t)
	reader, stranger := w.ServiceAccountConfig(w.t, accounts, "reader"), w.ServiceAccountConfig(w.t, accounts, "stranger")
	walk.LetReadMetrics(w.t, w.Cluster, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: accounts, Name: "reader"})

	metrics := w.prometheus()
	metrics.Shows = w.missing(true)
	metrics.Await(w.t)
	assert.NoError(w.t, metrics.Read(w.t.Context(), reader, http.StatusOK), "an account that may read metrics")
	assert.NoError(w.t, metrics.Read(w.t.Context(), stranger, http.StatusForbidden), "an account that may not read metrics")
}

// prometheus reads the operator's metrics as the cluster's Prometheus does.
func (w *environment) prometheus() walk.Scraper {
	w.t.Helper()
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: namespace, Name: w.driver.Operator.Name + "-metrics"}
	require.NoError(w.t, w.Client().Get(w.t.Context(), key, service))
	account := w.ServiceAccountConfig(w.t, "openshift-monitoring", "prometheus-k8s")
	walk.LetReadMetrics(w.t, w.Cluster, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "openshift-monitoring", Name: "prometheus-k8s"}) // as OpenShift does
	authority := walk.NewAuthority(w.t, w.Cluster, namespace)
	authority.Issue(w.t, w.Cluster, service)
	return walk.Scraper{Service: service, DiscoverAs: account, Authority: authority}
}

// missing returns the metric that an alert fires on: whether the ClusterCSIDriver is missing.
func (w *environment) missing(is bool) string {
	value := 0
	if is {
		value = 1
	}
	return fmt.Sprintf("berth_cluster_csi_driver_missing{driver=%q} %d", w.driver.CSIName, value)
}
