package metrics_test

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

	configv1 "github.com/openshift/api/config/v1"
	configclient "github.com/openshift/client-go/config/clientset/versioned"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/ports"
	"github.com/berth-csi/berth/operator/metrics"
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
	return serveWith(t, c, metrics.Serve, metrics.ServeOptions{})
}

func serveWith(t *testing.T, c *cluster.Cluster, run func(context.Context, metrics.ServeOptions) error, options metrics.ServeOptions) server {
	t.Helper()
	config := c.Config()
	config.UserAgent = t.Name()
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	own, err := configclient.NewForConfig(c.Config())
	require.NoError(t, err)
	s := server{address: ports.Address(t), folder: t.TempDir(), agent: config.UserAgent}
	options.Address, options.CertFolder, options.Kube = s.address, s.folder, kube
	options.Config = own
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, options)
	}()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended, "the server ended with")
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
	require.NoError(t, c.Client().Create(t.Context(), role))
	require.NoError(t, c.Client().Create(t.Context(), binding))
}

// TestTheCertificateComesLater: it may be made when the operator has long been running, and is replaced
// before it ends.
func TestTheCertificateComesLater(t *testing.T) {
	s := serve(t, cluster.Shared(t, cluster.Options{}))
	assert.EqualValues(t, "localhost", s.presents(t), "without a certificate, it presents one for")
	for _, name := range []string{"first.example", "second.example"} {
		pem, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
		require.NoError(t, err)
		for file, content := range map[string][]byte{"tls.crt": pem, "tls.key": key} {
			require.NoError(t, os.WriteFile(filepath.Join(s.folder, file), content, 0o600))
		}
		assert.Equal(t, name, s.presents(t), "the name in the certificate that it presents")
	}
}

// presents returns the name in the certificate that a server presents.
func (s server) presents(t *testing.T) string {
	t.Helper()
	connection, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].DNSNames[0]
}

// TestTLSProfile: the server follows the cluster's TLS profile while it runs. Connections that a new profile does not permit end.
func TestTLSProfile(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	set := func(profile *configv1.TLSSecurityProfile) {
		t.Helper()
		cluster.Eventually(t, 10*time.Second, "the TLS profile to be set", func(ctx context.Context) error {
			server := &configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
			if err := client.IgnoreAlreadyExists(c.Client().Create(ctx, server.DeepCopy())); err != nil {
				return err
			}
			if err := c.Client().Get(ctx, client.ObjectKeyFromObject(server), server); err != nil {
				return err
			}
			server.Spec.TLSSecurityProfile = profile
			return c.Client().Update(ctx, server)
		})
	}
	custom := func(spec configv1.TLSProfileSpec) *configv1.TLSSecurityProfile {
		return &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{TLSProfileSpec: spec}}
	}
	defer set(nil)
	s := serve(t, c)
	// A client that keeps its connection has one of TLS 1.2 with another cipher suite than the profiles below.
	kept := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: speaking(tls.VersionTLS12, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384)}}
	const aes128, aes256 = tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
	for _, tc := range []struct {
		name    string
		profile *configv1.TLSSecurityProfile
		permits map[string]bool // a version, and a cipher suite if it is one of TLS 1.2
	}{
		{"none", nil, map[string]bool{"1.1": false, "1.2 128": true, "1.2 256": true, "1.3": true}},
		{"custom", custom(configv1.TLSProfileSpec{MinTLSVersion: configv1.VersionTLS12, Ciphers: []string{"ECDHE-RSA-AES128-GCM-SHA256", "no-such-suite"}}),
			map[string]bool{"1.1": false, "1.2 128": true, "1.2 256": false, "1.3": true}},
		{"modern", &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType, Modern: &configv1.ModernTLSProfile{}},
			map[string]bool{"1.1": false, "1.2 128": false, "1.2 256": false, "1.3": true}},
		{"old", &configv1.TLSSecurityProfile{Type: configv1.TLSProfileOldType, Old: &configv1.OldTLSProfile{}},
			map[string]bool{"1.1": true, "1.2 128": true, "1.2 256": true, "1.3": true}},
	} {
		set(tc.profile)
		configs := map[string]*tls.Config{
			"1.1": speaking(tls.VersionTLS11), "1.2 128": speaking(tls.VersionTLS12, aes128), "1.2 256": speaking(tls.VersionTLS12, aes256), "1.3": speaking(tls.VersionTLS13),
		}
		cluster.Eventually(t, 30*time.Second, "the TLS profile "+tc.name, func(context.Context) error {
			for name, config := range configs {
				connection, err := tls.Dial("tcp", s.address, config)
				if err == nil {
					connection.Close()
				}
				if (err == nil) != tc.permits[name] {
					return fmt.Errorf("TLS %s: error %v, want that it is permitted: %t", name, err, tc.permits[name])
				}
			}
			return nil
		})
		// The first request ends the connection if it is not permitted any more, and the second one has another connection.
		_, _, _ = s.getBy(kept, "/healthz", "")
		if _, _, err := s.getBy(kept, "/healthz", ""); (err == nil) != tc.permits["1.2 256"] {
			t.Errorf("%s: a request over a connection that was kept: error %v, want that it is permitted: %t", tc.name, err, tc.permits["1.2 256"])
		}
	}
}

// speaking is the configuration of a client that speaks one version, and of TLS 1.2 some cipher suites.
func speaking(version uint16, suites ...uint16) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, CipherSuites: suites}
}
