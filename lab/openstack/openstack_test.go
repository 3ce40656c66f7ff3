package openstack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	gophercloudopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/openstack"
)

// clients are gophercloud's clients of a cloud.
type clients struct {
	ctx                            context.Context
	provider                       *gophercloud.ProviderClient
	keystone, manila, cinder, nova *gophercloud.ServiceClient
}

// connect logs in as gophercloud does with clouds.yaml.
func connect(ctx context.Context, login openstack.Login, authority []byte) (*clients, error) {
	options, endpoint, tlsConfig, err := clouds.Parse(clouds.WithCloudsYAML(bytes.NewReader(login.CloudsYAML())), clouds.WithCloudName("openstack"))
	if err != nil {
		return nil, err
	}
	options.AllowReauth = true
	if authority != nil {
		if tlsConfig == nil {
			tlsConfig = &tls.Config{}
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		tlsConfig.RootCAs.AppendCertsFromPEM(authority)
	}
	c := &clients{ctx: ctx}
	if c.provider, err = config.NewProviderClient(ctx, options, config.WithTLSConfig(tlsConfig)); err != nil {
		return nil, err
	}
	var errs [4]error
	c.keystone, errs[0] = gophercloudopenstack.NewIdentityV3(c.provider, endpoint)
	c.manila, errs[1] = gophercloudopenstack.NewSharedFileSystemV2(c.provider, endpoint)
	c.cinder, errs[2] = gophercloudopenstack.NewBlockStorageV3(c.provider, endpoint)
	c.nova, errs[3] = gophercloudopenstack.NewComputeV2(c.provider, endpoint)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	c.manila.Microversion = "2.37" // the driver's
	return c, nil
}

func mustConnect(t *testing.T, login openstack.Login) *clients {
	t.Helper()
	c, err := connect(t.Context(), login, nil)
	require.NoError(t, err)
	return c
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// wantFault checks the code and the message of a service's error response.
func wantFault(t *testing.T, err error, code int, message string) {
	t.Helper()
	var response gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &response) || response.Actual != code || !strings.Contains(string(response.Body), message) {
		t.Errorf("error %v, want code %d with %q", err, code, message)
	}
}

func TestLogin(t *testing.T) {
	cloud := openstack.Start(t, "default")
	cloud.AddProject("island")
	for name, test := range map[string]struct {
		change  func(*openstack.Login)
		project string // of calls afterwards
		code    int
	}{
		"password":           {project: "harbour"},
		"another project":    {change: func(l *openstack.Login) { l.Project = "island" }, project: "island"},
		"application":        {change: func(l *openstack.Login) { *l = cloud.LoginWithCredential("") }, project: "harbour"},
		"application island": {change: func(l *openstack.Login) { *l = cloud.LoginWithCredential("island") }, project: "island"},
		"wrong password":     {change: func(l *openstack.Login) { l.Password = "guessed" }, code: 401},
		"wrong user":         {change: func(l *openstack.Login) { l.User = "nobody" }, code: 401},
		"unknown project":    {change: func(l *openstack.Login) { l.Project = "nowhere" }, code: 401},
		"wrong application": {change: func(l *openstack.Login) {
			*l = cloud.LoginWithCredential("")
			l.CredentialKey = "guessed"
		}, code: 401},
	} {
		t.Run(name, func(t *testing.T) {
			login := cloud.Login()
			if test.change != nil {
				test.change(&login)
			}
			c, err := connect(t.Context(), login, nil)
			if test.code != 0 {
				wantFault(t, err, test.code, "The request you have made requires authentication.")
				return
			}
			require.NoError(t, err)
			must[any](t)(sharetypes.List(c.manila, nil).AllPages(t.Context()))
			calls := cloud.Calls()
			if got := calls[len(calls)-1]; got.Project != test.project || got.String() != "manila GET /types @2.37 = 200" {
				t.Errorf("call %v of project %q, want the share types, of project %q", got, got.Project, test.project)
			}
		})
	}
}

func TestProjectsAreListed(t *testing.T) {
	cloud := openstack.Start(t)
	cloud.AddProject("island")
	c := mustConnect(t, cloud.Login())
	found := must[[]projects.Project](t)(projects.ExtractProjects(must2(t)(projects.ListAvailable(c.keystone).AllPages(t.Context()))))
	var names []string
	for _, p := range found {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"harbour", "island"}, names, "projects")
}

// TestExpiredToken: gophercloud logs in again; a token that never was valid is refused by every service.
func TestExpiredToken(t *testing.T) {
	cloud := openstack.Start(t)
	c := mustConnect(t, cloud.Login())
	cloud.ExpireTokens()
	list := func() error {
		_, err := sharetypes.List(c.manila, nil).AllPages(t.Context())
		return err
	}
	assert.NoError(t, list())
	var codes []string
	for _, call := range cloud.Calls()[1:] {
		codes = append(codes, call.String())
	}
	if diff := cmp.Diff([]string{"manila GET /types @2.37 = 401", "keystone POST /v3/auth/tokens = 201", "manila GET /types @2.37 = 200"}, codes); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	c.provider.ReauthFunc = nil
	c.provider.SetToken("invented")
	wantFault(t, list(), 401, `"title":"Unauthorized"`)
}

func TestTLS(t *testing.T) {
	cloud := openstack.StartWith(t, openstack.Options{TLS: true, ShareTypes: []string{"default"}})
	_, err := connect(t.Context(), cloud.Login(), nil)
	assert.ErrorContains(t, err, "certificate signed by unknown authority", "without the CA")
	c, err := connect(t.Context(), cloud.Login(), cloud.CA())
	require.NoError(t, err)
	must[any](t)(sharetypes.List(c.manila, nil).AllPages(t.Context()))
}

// TestRegions: a client that names no region gets the endpoints of the first one in the catalog, where nothing answers.
func TestRegions(t *testing.T) {
	cloud := openstack.Start(t, "default")
	login := cloud.Login()
	login.Region = ""
	c := mustConnect(t, login)
	_, err := sharetypes.List(c.manila, nil).AllPages(t.Context())
	wantFault(t, err, 404, "this cloud does not know GET /land-1/share/v2/types")
}

func TestFaults(t *testing.T) {
	cloud := openstack.Start(t, "default")
	c := mustConnect(t, cloud.Login())
	list := func() error {
		_, err := sharetypes.List(c.manila, nil).AllPages(t.Context())
		return err
	}
	for code, want := range map[int]string{
		403: `{"forbidden":{"code":403,"message":"Policy doesn't allow share_type:index to be performed."}}`,
		413: `{"overLimit":{"code":413,"message":"This request was rate-limited.","retryAfter":"0"}}`,
		429: `{"overLimit":{"code":429,"message":"This request was rate-limited.","retryAfter":"0"}}`,
		500: `{"computeFault":{"code":500,"message":"The server has either erred`,
		503: `{"serviceUnavailable":{"code":503,"message":"The server is currently unavailable.`,
	} {
		cloud.Inject(openstack.Fault{Service: openstack.Manila, Route: "/types", Code: code, Times: 1})
		wantFault(t, list(), code, want)
		assert.NoErrorf(t, list(), "after the only request that meets %d", code)
	}
	remove := cloud.Inject(openstack.Fault{Broken: true})
	assert.ErrorIs(t, list(), io.EOF, "of a broken connection")
	remove()
	remove = cloud.Inject(openstack.Fault{Service: openstack.Cinder, Broken: true})
	assert.NoError(t, list(), "Manila after Cinder broke")
	remove()
	const delay = 50 * time.Millisecond
	cloud.Inject(openstack.Fault{Method: "GET", Delay: delay, Times: 1})
	began := time.Now()
	if err := list(); err != nil || time.Since(began) < delay {
		t.Errorf("error %v after %v, want none after more than %v", err, time.Since(began), delay)
	}
}

func TestMicroversions(t *testing.T) {
	cloud := openstack.Start(t, "default")
	c := mustConnect(t, cloud.Login())
	for version, want := range map[string]string{"": "os-share-type-access:is_public", "2.6": "os-share-type-access:is_public", "2.7": "share_type_access:is_public"} {
		c.manila.Microversion = version
		var result struct {
			Types []map[string]any `json:"share_types"`
		}
		if _, err := c.manila.Get(t.Context(), c.manila.ServiceURL("types"), &result, nil); err != nil || result.Types[0][want] != true {
			t.Errorf("version %q: error %v, types %v; want %s", version, err, result.Types, want)
		}
	}
	for _, version := range []string{"2.76", "3.0", "2.x", "newest"} {
		c.manila.Microversion = version
		_, err := sharetypes.List(c.manila, nil).AllPages(t.Context())
		wantFault(t, err, 406, fmt.Sprintf("Version %s is not supported by the API. Minimum is 2.0 and maximum is 2.75.", version))
	}
}

func TestMetadata(t *testing.T) {
	cloud := openstack.Start(t)
	instance := cloud.AddInstance("worker-0")
	server := httptest.NewServer(cloud.MetadataHandler(instance))
	t.Cleanup(server.Close)
	get := func(path string) (int, []byte) {
		response, err := http.Get(server.URL + path)
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode, must[[]byte](t)(io.ReadAll(response.Body))
	}
	var data struct {
		UUID, Name string
		Zone       string `json:"availability_zone"`
	}
	if code, body := get("/openstack/latest/meta_data.json"); code != 200 || json.Unmarshal(body, &data) != nil || data.UUID != instance.ID || data.Name != "worker-0" || data.Zone != "nova" {
		t.Errorf("code %d, metadata %s; want those of %+v", code, body, instance)
	}
	if code, body := get("/openstack"); code != 200 || !strings.HasSuffix(string(body), "\nlatest") {
		t.Errorf("code %d, versions %q", code, body)
	}
	code, _ := get("/latest/meta-data/iam/")
	assert.Equal(t, 404, code, "for a path of another cloud")
	var calls []string
	for _, call := range cloud.Calls() {
		calls = append(calls, call.String())
	}
	if diff := cmp.Diff([]string{"metadata GET /openstack/latest/meta_data.json = 200", "metadata GET /openstack = 200", "unknown GET /latest/meta-data/iam/ = 404"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestPublicAddress: the catalog and the certificate name the address at which clients reach the cloud.
func TestPublicAddress(t *testing.T) {
	const public = "203.0.113.5:13000"
	cloud := openstack.StartWith(t, openstack.Options{ShareTypes: []string{"default"}, TLS: true, Public: public})
	assert.Equal(t, "https://"+public+"/identity/v3", cloud.Login().URL, "Keystone is at")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cloud.CA())
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != public {
				return nil, fmt.Errorf("asked for %s, want %s", address, public)
			}
			return (&net.Dialer{}).DialContext(ctx, network, cloud.Address())
		},
	}}
	t.Cleanup(client.CloseIdleConnections)
	provider := must[*gophercloud.ProviderClient](t)(gophercloudopenstack.NewClient(cloud.Login().URL))
	provider.HTTPClient = client
	login := cloud.LoginWithCredential("")
	options := gophercloud.AuthOptions{IdentityEndpoint: login.URL, ApplicationCredentialID: login.CredentialID, ApplicationCredentialSecret: login.CredentialKey}
	require.NoError(t, gophercloudopenstack.Authenticate(t.Context(), provider, options))
	manila := must[*gophercloud.ServiceClient](t)(gophercloudopenstack.NewSharedFileSystemV2(provider, gophercloud.EndpointOpts{Region: "sea-1"}))
	assert.Equal(t, "https://"+public+"/share/v2/", manila.Endpoint, "Manila is at")
	if calls := cloud.Calls(); calls[len(calls)-1].Login != "application_credential" {
		t.Errorf("the last call is %+v, want the login with an application credential", calls[len(calls)-1])
	}
}
