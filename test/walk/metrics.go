package walk

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
	"testing"
	"time"

	"github.com/openshift/library-go/pkg/crypto"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// LetReadMetrics lets somebody read the metrics of any program.
func LetReadMetrics(t testing.TB, c *cluster.Cluster, who rbacv1.Subject) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "metrics-" + who.Name}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{who},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}},
	} {
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
}

const day = 24 * time.Hour

// An Authority issues serving certificates as OpenShift does.
type Authority struct{ ca *crypto.CA }

// NewAuthority returns an authority, and creates a ConfigMap with its certificate in each of the namespaces, for the pods there.
func NewAuthority(t testing.TB, c *cluster.Cluster, namespaces ...string) Authority {
	t.Helper()
	authority, err := crypto.MakeSelfSignedCAConfig("service-ca", day)
	require.NoError(t, err)
	signer, _, err := authority.GetPEMBytes()
	require.NoError(t, err)
	for _, namespace := range namespaces {
		known := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "openshift-service-ca.crt"},
			Data: map[string]string{"service-ca.crt": string(signer)}}
		require.NoError(t, c.Client().Create(t.Context(), known))
	}
	return Authority{&crypto.CA{Config: authority, SerialGenerator: &crypto.RandomSerialGenerator{}}}
}

// Issue issues a certificate for an annotated Service, into the Secret that the annotation names.
func (a Authority) Issue(t testing.TB, c *cluster.Cluster, service *corev1.Service) {
	t.Helper()
	host := service.Name + "." + service.Namespace + ".svc"
	served, err := a.ca.MakeServerCert(sets.New(host, host+".cluster.local"), day)
	require.NoError(t, err)
	certificate, key, err := served.GetPEMBytes()
	require.NoError(t, err)
	meta := metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]}
	issued := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}}
	require.NoError(t, c.Client().Create(t.Context(), issued))
}

// Pool returns the authority's certificate.
func (a Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.ca.Config.Certs[0])
	return pool
}

// A Scraper reads the metrics of the pods behind a Service, as Prometheus does: it looks up their addresses, and trusts whoever shows a
// certificate for the Service's name.
type Scraper struct {
	Service    *corev1.Service
	DiscoverAs *rest.Config // an account that may list the pods
	Authority  Authority
	Shows      string // a line that is among the metrics
}

// Await waits until the account that discovers the pods reads the expected metrics. It takes the kubelet a moment to put the certificate
// where the operator reads it.
func (s Scraper) Await(t testing.TB) {
	t.Helper()
	cluster.Eventually(t, limit, "Prometheus to read "+s.Shows, func(ctx context.Context) error {
		return s.Read(ctx, s.DiscoverAs, http.StatusOK)
	})
}

// Read reads metrics with the token of an account. It fails unless the answer has the wanted status and, if that is
// 200, the expected metrics.
func (s Scraper) Read(ctx context.Context, account *rest.Config, want int) error {
	address, err := s.address(ctx)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.Authority.Pool()},
		// There is no cluster DNS here, nor a way to a Service's own address.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	url := fmt.Sprintf("https://%s.%s.svc:%d/metrics", s.Service.Name, s.Service.Namespace, s.Service.Spec.Ports[0].Port)
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
	if want == http.StatusOK && !strings.Contains(string(body), "\n"+s.Shows+"\n") {
		return fmt.Errorf("%s does not answer with %s: %.200s", url, s.Shows, body)
	}
	return nil
}

// address returns the address of a pod behind the Service. The local cluster has no endpoints to ask for.
func (s Scraper) address(ctx context.Context) (string, error) {
	kube, err := kubernetes.NewForConfig(s.DiscoverAs)
	if err != nil {
		return "", err
	}
	pods, err := kube.CoreV1().Pods(s.Service.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Service.Spec.Selector).String()})
	if err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		for _, port := range pod.Spec.Containers[0].Ports {
			if port.Name == s.Service.Spec.Ports[0].TargetPort.String() {
				return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort))), nil
			}
		}
	}
	return "", errors.New("no pod is behind the Service")
}
