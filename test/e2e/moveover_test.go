package e2e

import (
	"path/filepath"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// TestMoveOver: an administrator follows the page about Red Hat's EFS operator, in a cluster with that operator's
// objects but not its program. In the end our operator runs the driver in the same namespace, and the other one's
// objects are gone.
func TestMoveOver(t *testing.T) {
	if !*followPages {
		t.Skip("-follow-pages is not set; make prove SUITE=pages sets it")
	}
	w := newEnvironment(t, efs(t), cluster.Options{})
	left := w.installRedHats()
	w.serveCatalog()
	w.subscribe(nil)

	w.reader().Follow(t, "move/redhat-efs.md", "## Move over")
	nodes := &appsv1.DaemonSet{}
	require.NoError(t, w.Client().Get(t.Context(), client.ObjectKey{Namespace: drivers.ClusterStorageNamespace, Name: "efs-csi-node"}, nodes))
	custom := &operatorv1.ClusterCSIDriver{}
	require.NoError(t, w.Client().Get(t.Context(), client.ObjectKey{Name: w.driver.CSIName}, custom))
	if len(custom.Finalizers) != 1 || nodes.Status.NumberReady == 0 || nodes.Status.NumberReady != nodes.Status.DesiredNumberScheduled {
		t.Errorf("the driver is Available, with the finalizers %q and its node pods %+v", custom.Finalizers, nodes.Status)
	}
	assert.Empty(t, left(), "this is left")
}

// installRedHats creates the installation of Red Hat's operator, and that operator's objects. It returns a function
// that lists the remaining ones.
func (w *environment) installRedHats() (left func() string) {
	w.t.Helper()
	const in, name = drivers.ClusterStorageNamespace, "aws-efs-csi-driver-operator"
	w.create(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "redhats"}})
	w.create(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}, Spec: &v1alpha1.SubscriptionSpec{
		CatalogSource: "redhat-operators", CatalogSourceNamespace: cluster.CatalogNamespace, Package: name, Channel: "stable"}})
	labels := map[string]string{"app": name}
	w.create(&v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name + ".v4.22.0", Labels: map[string]string{"operators.coreos.com/" + name + "." + in: ""}},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}},
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
				DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: name, Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.example/operator"}}}},
				}}},
			}},
		},
	})
	file := filepath.Join("testdata", "redhat-efs-driver.yaml")
	w.kubectl("create", "-f", file)
	w.create(&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName, Finalizers: w.driver.History.Finalizers},
		Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}}})
	return func() string {
		return w.kubectl("get", "-f", file, "--ignore-not-found", "--output=name") +
			w.kubectl("get", "--namespace="+in, "subscription,csv,deployment", name, name+".v4.22.0", "--ignore-not-found", "--output=name")
	}
}
