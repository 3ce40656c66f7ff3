package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openshift/library-go/pkg/crypto"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
)

// monitoringObjects are the objects of the operator's own monitoring, where OLM puts them.
func (w *environment) monitoringObjects() []*unstructured.Unstructured {
	w.t.Helper()
	manifests, err := w.driver.OperatorMonitoring()
	if err != nil {
		w.t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		m.Object.SetNamespace(namespace)
		objects = append(objects, m.Object)
	}
	return objects
}

// checkMonitoring checks that OLM has installed all that monitoring needs, and that those who may read
// metrics can read the operator's by it, over a verified connection, and nobody else.
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
	w.letReadMetrics(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: accounts, Name: "reader"})

	metrics := w.prometheus()
	metrics.shows = w.missing(true)
	metrics.await(w)
	if err := metrics.read(w.t.Context(), reader, http.StatusOK); err != nil {
		w.t.Errorf("an account that may read metrics: %v", err)
	}
	if err := metrics.read(w.t.Context(), stranger, http.StatusForbidden); err != nil {
		w.t.Errorf("an account that may not read metrics: %v", err)
	}
}

// prometheus reads the operator's metrics as the cluster's Prometheus does.
func (w *environment) prometheus() scraper {
	w.t.Helper()
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: namespace, Name: w.driver.Operator.Name + "-metrics"}
	if err := w.Client().Get(w.t.Context(), key, service); err != nil {
		w.t.Fatal(err)
	}
	account := w.ServiceAccountConfig(w.t, "openshift-monitoring", "prometheus-k8s")
	w.letReadMetrics(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "openshift-monitoring", Name: "prometheus-k8s"}) // as OpenShift does
	return scraper{service: service, discoverAs: account, authorities: w.issueServingCertificate(service)}
}

// missing is the line that an alert goes by: whether there is no ClusterCSIDriver.
func (w *environment) missing(is bool) string {
	value := 0
	if is {
		value = 1
	}
	return fmt.Sprintf("berth_cluster_csi_driver_missing{driver=%q} %d", w.driver.CSIName, value)
}

// await waits until the metrics show what they are to show. It takes kubelet a moment to put the
// certificate where the operator reads it.
func (s scraper) await(w *environment) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "Prometheus to read "+s.shows, func(ctx context.Context) error {
		return s.read(ctx, s.discoverAs, http.StatusOK)
	})
}

// letReadMetrics lets somebody read the metrics of any program.
func (w *environment) letReadMetrics(who rbacv1.Subject) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Name: "metrics-" + who.Name}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{who},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}},
	} {
		if err := w.Client().Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// issueServingCertificate does what OpenShift does for an annotated Service: it issues a certificate, and
// tells who stands behind it in a ConfigMap of the namespace. It returns that authority.
func (w *environment) issueServingCertificate(service *corev1.Service) *x509.CertPool {
	w.t.Helper()
	const day = 24 * time.Hour
	authority, err := crypto.MakeSelfSignedCAConfig("service-ca", day)
	if err != nil {
		w.t.Fatal(err)
	}
	ca := &crypto.CA{Config: authority, SerialGenerator: &crypto.RandomSerialGenerator{}}
	host := service.Name + "." + service.Namespace + ".svc"
	served, err := ca.MakeServerCert(sets.New(host, host+".cluster.local"), day)
	if err != nil {
		w.t.Fatal(err)
	}
	certificate, key, err := served.GetPEMBytes()
	if err != nil {
		w.t.Fatal(err)
	}
	signer, _, err := authority.GetPEMBytes()
	if err != nil {
		w.t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]}
	for _, object := range []client.Object{
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: "openshift-service-ca.crt"},
			Data:       map[string]string{"service-ca.crt": string(signer)},
		},
		&corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}},
	} {
		if err := w.Client().Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
	authorities := x509.NewCertPool()
	authorities.AddCert(authority.Certs[0])
	return authorities
}

// scraper reads the metrics of the pods behind a Service, as Prometheus does: it looks up their
// addresses, and trusts who can show a certificate for the Service's name.
type scraper struct {
	service     *corev1.Service
	discoverAs  *rest.Config
	authorities *x509.CertPool
	shows       string // a line that is among the metrics
}

// read reads metrics with the token of an account. It fails unless the answer has the wanted status
// and, if that is 200, shows what it must.
func (s scraper) read(ctx context.Context, account *rest.Config, want int) error {
	address, err := s.address(ctx)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.authorities},
		// There is no cluster DNS here, nor a way to a Service's own address.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	url := fmt.Sprintf("https://%s.%s.svc:%d/metrics", s.service.Name, s.service.Namespace, s.service.Spec.Ports[0].Port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+account.BearerToken)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("%s answers with status %d, want %d: %.200s", url, response.StatusCode, want, body)
	}
	if want == http.StatusOK && !strings.Contains(string(body), "\n"+s.shows+"\n") {
		return fmt.Errorf("%s does not answer with %s: %.200s", url, s.shows, body)
	}
	return nil
}

// address returns the address of a pod behind the Service. The local cluster has no endpoints to ask for.
func (s scraper) address(ctx context.Context) (string, error) {
	kube, err := kubernetes.NewForConfig(s.discoverAs)
	if err != nil {
		return "", err
	}
	pods, err := kube.CoreV1().Pods(s.service.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.service.Spec.Selector).String()})
	if err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		for _, port := range pod.Spec.Containers[0].Ports {
			if port.Name == s.service.Spec.Ports[0].TargetPort.String() {
				return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort))), nil
			}
		}
	}
	return "", errors.New("no pod is behind the Service")
}
