package serving_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/berth-csi/berth/operator/serving"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/ports"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// server is a server that runs until the test ends.
type server struct {
	address string
	folder  string // of its certificate
	agent   string // its user agent for the API server
}

func serve(t *testing.T, c *cluster.Cluster) server {
	t.Helper()
	return serveWith(t, c, serving.Run, serving.Options{})
}

func serveWith(t *testing.T, c *cluster.Cluster, run func(context.Context, serving.Options) error, options serving.Options) server {
	t.Helper()
	config := c.Config()
	config.UserAgent = t.Name()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s := server{address: ports.Address(t), folder: t.TempDir(), agent: config.UserAgent}
	options.Address, options.CertFolder, options.Kube = s.address, s.folder, kube
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, options)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
	cluster.Eventually(t, 10*time.Second, "the server to listen", func(context.Context) error {
		_, _, err := s.get("/healthz", "")
		return err
	})
	return s
}

// get asks for a path over a connection of its own, and returns the answer and who gave it.
func (s server) get(path, token string) (code int, answer string, err error) {
	return s.getBy(&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, path, token)
}

// getBy asks for a path by a client, and returns the answer and who gave it.
func (s server) getBy(client *http.Client, path, token string) (code int, answer string, err error) {
	request, err := http.NewRequest(http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func TestWhoMayReadWhat(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	reader := c.ServiceAccountConfig(t, namespace, "reader").BearerToken
	stranger := c.ServiceAccountConfig(t, namespace, "stranger").BearerToken
	allowMetrics(t, c, namespace, "reader")
	s := serve(t, c)
	for _, test := range []struct {
		who, token, path string
		code             int
		says             string
	}{
		{"nobody", "", "/healthz", http.StatusOK, "ok\n"},
		{"nobody", "", "/metrics", http.StatusUnauthorized, "Unauthorized\n"},
		{"a token of nobody", "made-up", "/metrics", http.StatusUnauthorized, "Unauthorized\n"},
		{"an account without the right", stranger, "/metrics", http.StatusForbidden, "Forbidden\n"},
		{"an account with the right", reader, "/metrics", http.StatusOK, "\ngo_goroutines "},
		{"an account with the right", reader, "/debug/pprof/", http.StatusNotFound, ""},
	} {
		t.Run(test.who+test.path, func(t *testing.T) {
			// RBAC is in force a moment after it was written.
			cluster.Eventually(t, 10*time.Second, "the right answer", func(context.Context) error {
				code, answer, err := s.get(test.path, test.token)
				if err != nil {
					return err
				}
				if code != test.code || !strings.Contains(answer, test.says) {
					return fmt.Errorf("answer %d %.100q, want %d and %q", code, answer, test.code, test.says)
				}
				return nil
			})
		})
	}
}

// allowMetrics gives an account the right that the cluster's Prometheus has.
func allowMetrics(t *testing.T, c *cluster.Cluster, namespace, account string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}}
	if err := c.Client().Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if err := c.Client().Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

// TestTheCertificateComesLater: it may be made when the operator has long been running, and is replaced
// before it ends.
func TestTheCertificateComesLater(t *testing.T) {
	s := serve(t, cluster.Shared(t, cluster.Options{}))
	if name := s.presents(t); name != "localhost" {
		t.Errorf("without a certificate, it presents one for %s, want one for localhost", name)
	}
	for _, name := range []string{"first.example", "second.example"} {
		pem, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{"tls.crt": pem, "tls.key": key} {
			if err := os.WriteFile(filepath.Join(s.folder, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.presents(t); got != name {
			t.Errorf("it presents a certificate for %s, want %s", got, name)
		}
	}
}

// presents returns the name in the certificate that a server presents.
func (s server) presents(t *testing.T) string {
	t.Helper()
	connection, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].DNSNames[0]
}
