// Package scale measures the operator with thousands of SharedVolumes. Its benchmarks run the operator as a cluster
// does, from the Deployment in its bundle, on a real control plane whose etcd syncs to disk. Results that depend on
// the machine are ratios to something else that the same machine did in the same run. With -short all numbers are a
// tenth or less.
package scale

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const (
	// waitLimit is the time limit for everything that is not measured, on a slow machine.
	waitLimit     = 20 * time.Minute
	operatorImage = "quay.io/berth-csi/berth-operator"
	namespace     = cluster.OperatorNamespace // the operator's
)

// arena is a cluster for SharedVolumes, and the operator of the EFS driver.
type arena struct {
	*cluster.Cluster
	*testing.B
	client  client.Client // of the administrator, who creates the SharedVolumes
	driver  drivers.Driver
	program string // the operator's
	began   time.Time
}

// newArena starts a cluster with the API of SharedVolumes and the operator's permissions, without the operator.
// managerQPS is as in cluster.Options.
func newArena(b *testing.B, managerQPS int) *arena {
	b.Helper()
	driver, err := registry.Get("efs")
	require.NoError(b, err)
	a := &arena{B: b, driver: driver, began: time.Now()}
	a.say("building the operator and starting a cluster")
	programs, err := tools.Programs(b.Context(), "./cmd/berth-operator")
	require.NoError(b, err)
	a.program = programs.Path("berth-operator")
	a.Cluster = cluster.Start(b, cluster.Options{Durable: true, ManagerQPS: managerQPS, Images: map[string]string{operatorImage: a.program}})
	a.client = a.Cluster.Client()
	a.install()
	return a
}

// install installs the bundle like OLM.
func (a *arena) install() {
	a.Helper()
	manifests, err := a.driver.Manifests(drivers.Values{Namespace: namespace, Image: func(env string) string { return env }})
	if err != nil {
		a.Fatal(err)
	}
	for _, m := range drivers.OfKind(manifests, "CustomResourceDefinition") {
		a.create(m.Object)
	}
	rules, err := a.driver.OperatorPolicyRules(permissions.Removable)
	if err != nil {
		a.Fatal(err)
	}
	deployment := a.driver.OperatorDeployment()
	name := deployment.Name
	deployment.Namespace, *deployment.Spec.Replicas = namespace, 0
	a.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	a.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: slices.Concat(rules.Permissions, rules.ClusterPermissions)})
	a.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	})
	a.create(deployment)
}

func (a *arena) create(object client.Object) {
	a.Helper()
	if err := a.client.Create(a.Context(), object); err != nil {
		a.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// await waits for something that is not measured.
func (a *arena) await(what string, check func(context.Context) error) {
	a.Helper()
	cluster.Eventually(a, waitLimit, what, check)
}

// say prints the progress of a benchmark.
func (a *arena) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1fs %s: %s\n", time.Since(a.began).Seconds(), a.Name(), fmt.Sprintf(format, args...))
}

// few returns n, or with -short a smaller number.
func few(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

func median[T int | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
