package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/mustgather"
	"github.com/berth-csi/berth/test/tenant"
)

// TestMustGatherAttacks: a tenant tries to steal the credentials of the user who collects support data, or to choose
// what is collected. The operator of the driver was removed, but its ClusterCSIDriver is there.
func TestMustGatherAttacks(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t, cluster.Options{Name: "must-gather attacks"})
	driver := efs(t)

	t.Run("lure the token to a pod", func(t *testing.T) {
		askForDriver(t, c, driver, nil)
		mallory := tenant.New(t, c)
		in := mallory.Project(t, "")
		spy := pretendToBeTheOperator(t, mallory, driver, in)
		folder, _ := gather(t, c)
		spy.check(t)
		checkNothingOf(t, folder, in)
	})

	t.Run("recreate the operator's namespace", func(t *testing.T) {
		mallory := tenant.New(t, c)
		in := mallory.Project(t, "")
		askForDriver(t, c, driver, map[string]string{"berth.dev/operator-namespace": in, "berth.dev/driver-namespace": in, "berth.dev/driver-namespace-uid": "of-the-one-before"})
		spy := pretendToBeTheOperator(t, mallory, driver, in)
		folder, _ := gather(t, c)
		spy.check(t)
		checkNothingOf(t, folder, in)
	})

	t.Run("have other workloads collected", func(t *testing.T) {
		askForDriver(t, c, driver, nil)
		mallory := tenant.New(t, c)
		in := mallory.Project(t, "")
		labels := map[string]string{"app.kubernetes.io/managed-by": driver.Operator.Name}
		daemonSet := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-node", Namespace: in, Labels: labels},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{
						Name: "registrar", Image: "registry.example/registrar:1",
						Args: []string{"--kubelet-registration-path=/var/lib/kubelet/plugins/" + driver.CSIName + "/csi.sock"},
					}}},
				},
			},
		}
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "decoy", Namespace: in, Labels: labels},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
		}
		for _, object := range []client.Object{daemonSet, service} {
			require.NoError(t, mallory.Client.Create(t.Context(), object))
		}
		folder, _ := gather(t, c)
		checkNothingOf(t, folder, in)
	})

	t.Run("fill the disk", func(t *testing.T) {
		askForDriver(t, c, driver, nil)
		mallory := tenant.New(t, c)
		in := mallory.Project(t, "")
		const claims, size = 160, 200 << 10
		for i := range claims {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%03d", i), Namespace: in, Annotations: map[string]string{
					"volume.kubernetes.io/storage-provisioner": driver.CSIName,
					"ballast": strings.Repeat("x", size),
				}},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: new("none"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}
			require.NoError(t, mallory.Client.Create(t.Context(), claim))
		}
		folder, _ := gather(t, c)
		files := mustgather.Files(t, folder)
		written := 0
		for name, content := range files {
			if strings.Contains(name, in) {
				written += len(content)
			}
		}
		if most := 16<<20 + 1; written == 0 || written > most {
			t.Errorf("%d claims of %d bytes came to %d bytes, want some, and at most %d", claims, size, written, most)
		}
		assert.Contains(t, files["missing.txt"], "/"+in+": only the first ", "missing.txt")
	})
}

// askForDriver leaves a ClusterCSIDriver as the driver's operator has claimed it, with these annotations, for
// the time of a test.
func askForDriver(t *testing.T, c *cluster.Cluster, driver drivers.Driver, annotations map[string]string) {
	t.Helper()
	custom := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driver.CSIName, Annotations: annotations, Finalizers: []string{driver.Operator.Name + ".operator.openshift.io/uninstall"}},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	require.NoError(t, c.Client().Create(t.Context(), custom))
	t.Cleanup(func() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		assert.NoError(t, errors.Join(c.Client().Patch(context.Background(), custom, patch), c.Client().Delete(context.Background(), custom)))
	})
}

// spy is a server of a tenant that pretends to have an operator's metrics.
type spy struct {
	mutex sync.Mutex
	heard []string
}

func (s *spy) hear(what string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.heard = append(s.heard, what)
}

// check checks that the spy got no credentials.
func (s *spy) check(t *testing.T) {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, heard := range s.heard {
		t.Errorf("the tenant's server was sent: %s", heard)
	}
}

// pretendToBeTheOperator makes everything in a tenant's project that a search for the operator by names and
// labels of namespaced objects finds, and a server with a certificate that verifies.
func pretendToBeTheOperator(t *testing.T, mallory *tenant.Tenant, driver drivers.Driver, in string) *spy {
	t.Helper()
	ctx, name := t.Context(), driver.Operator.Name
	authority, key, err := cert.GenerateSelfSignedCertKey(name+"-metrics."+in+".svc", nil, nil)
	require.NoError(t, err)
	deployment := driver.OperatorDeployment()
	deployment.Namespace = in
	deployment.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{
		Name: "operator", Image: "registry.example/forged:1", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443}}}}}
	manifests, err := driver.OperatorMonitoring()
	require.NoError(t, err)
	objects := []client.Object{deployment,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "openshift-service-ca.crt"}, Data: map[string]string{"service-ca.crt": string(authority)}}}
	for _, service := range drivers.OfKind(manifests, "Service") {
		service.Object.SetNamespace(in)
		objects = append(objects, service.Object)
	}
	for _, object := range objects {
		if err := mallory.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	var ip string
	cluster.Eventually(t, limit, "the forged operator's pod to run", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := mallory.Client.List(ctx, pods, client.InNamespace(in), client.MatchingLabels(deployment.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pods %v", pods.Items)
		}
		ip = pods.Items[0].Status.PodIP
		return nil
	})
	return listenIn(t, ip, authority, key)
}

// listenIn answers in the place of a pod's program, which no image is needed for then.
func listenIn(t *testing.T, ip string, certificate, key []byte) *spy {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "8443"))
	require.NoError(t, err)
	s := &spy{}
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.hear("a connection")
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			s.hear(fmt.Sprintf("%s %s with Authorization %.40s", request.Method, request.URL, request.Header.Get("Authorization")))
			fmt.Fprintln(w, "forged_metric 1")
		}),
		ErrorLog: log.New(os.Stderr, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		server.Close()
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return s
}

// checkNothingOf checks that no object of a namespace was collected.
func checkNothingOf(t *testing.T, folder, namespace string) {
	t.Helper()
	for name, content := range mustgather.Files(t, folder) {
		if strings.Contains(name, namespace) {
			t.Errorf("%s was collected", name)
		} else if name != "missing.txt" && !strings.HasSuffix(name, "/clustercsidriver.yaml") && strings.Contains(content, "namespace: "+namespace+"\n") {
			t.Errorf("%s holds objects of namespace %s", name, namespace)
		}
	}
}
