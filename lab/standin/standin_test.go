package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/standin/backend"
)

// TestCommandLines: each program takes its own flags, with values of their kind, and nothing else.
func TestCommandLines(t *testing.T) {
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			_, err := p.parse(name, nil)
			assert.NoError(t, err)
			for _, args := range [][]string{{"--extra-tags=a=b"}, {"controller"}, {"--version=perhaps"}} {
				_, err := p.parse(name, args)
				assert.Errorf(t, err, "it takes %q", args)
			}
		})
	}
	flags, err := programs["azurediskplugin"].parse("azurediskplugin", strings.Fields("--endpoint=unix:///csi/csi.sock --logtostderr --v=4 --volume-attach-limit=8 --cloud-config-secret-name="))
	require.NoError(t, err)
	if valueOf[string](flags, "endpoint") != "unix:///csi/csi.sock" || valueOf[int](flags, "volume-attach-limit") != 8 || !valueOf[bool](flags, "support-zone") {
		t.Error("flags have other values than the command line and the defaults")
	}
	assert.ErrorContains(t, start(t.Context(), "azurediskplugin2", nil), "azurefileplugin", "as another program")
}

// write writes files to a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	return folder
}

// installed is the cloud configuration that the installer writes on Azure.
const installed = `{"cloud":"AzurePublicCloud","tenantId":"t","subscriptionId":"s","resourceGroup":"g","location":"westeurope","useManagedIdentityExtension":true,"userAssignedIdentityID":""}`

// TestAzureCredentials: the Secret of the cloud credential operator and the configuration of the cloud become a login,
// or the injector or the driver reports the problem.
func TestAzureCredentials(t *testing.T) {
	token := filepath.Join(write(t, map[string]string{"token": "jwt"}), "token")
	for name, test := range map[string]struct {
		config string
		secret map[string]string
		args   []string
		want   backend.Login
		refuse string
	}{
		"service principal": {config: installed, secret: map[string]string{"azure_client_id": "id", "azure_client_secret": "pass", "azure_tenant_id": "t"}, args: []string{"--disable-identity-extension-auth"},
			want: backend.Login{"tenant": "t", "subscription": "s", "group": "g", "client": "id", "secret": "pass"}},
		"workload identity": {config: installed, secret: map[string]string{"azure_client_id": "id", "azure_tenant_id": "t2", "azure_federated_token_file": token}, args: []string{"--disable-identity-extension-auth"},
			want: backend.Login{"tenant": "t2", "subscription": "s", "group": "g", "client": "id", "token": "jwt"}},
		"managed identity": {config: installed, secret: map[string]string{"azure_client_id": "id", "azure_client_secret": "pass"},
			want: backend.Login{"tenant": "t", "subscription": "s", "group": "g", "identity": "system"}},
		"no token":            {config: installed, secret: map[string]string{"azure_client_id": "id", "azure_tenant_id": "t", "azure_federated_token_file": "/nowhere"}, refuse: "open /nowhere: no such file"},
		"no client":           {config: installed, secret: map[string]string{"azure_client_secret": "pass"}, refuse: "failed to read azure_client_id"},
		"no secret":           {config: installed, secret: map[string]string{"azure_client_id": "id"}, refuse: "azure_client_secret should be set up"},
		"secret and token":    {config: installed, secret: map[string]string{"azure_client_id": "id", "azure_client_secret": "pass", "azure_federated_token_file": token}, refuse: "this should never happen"},
		"token and no tenant": {config: installed, secret: map[string]string{"azure_client_id": "id", "azure_federated_token_file": token}, refuse: "azure_tenant_id should be set up"},
		"no JSON":             {config: "cloud: Azure", secret: map[string]string{"azure_client_id": "id", "azure_client_secret": "pass"}, refuse: "couldn't read cloud config"},
		"no group":            {config: `{"tenantId":"t","subscriptionId":"s","location":"l"}`, secret: map[string]string{"azure_client_id": "id", "azure_client_secret": "pass"}, refuse: "no resourceGroup"},
	} {
		t.Run(name, func(t *testing.T) {
			config, merged := write(t, map[string]string{"config": test.config}), filepath.Join(t.TempDir(), "cloud.conf")
			args := append(test.args, "--cloud-config-file-path="+filepath.Join(config, "config"), "--creds-path="+write(t, test.secret), "--output-file-path="+merged)
			login, err := backend.Login(nil), start(t.Context(), "azure-config-credentials-injector", args)
			if err == nil {
				t.Setenv("AZURE_CREDENTIAL_FILE", merged)
				login, err = readLogin(t)
			}
			if test.refuse != "" {
				assert.ErrorContainsf(t, err, test.refuse, "got the login %v and the error", login)
				return
			}
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(test.want, login), "login (-want +got)")
		})
	}
}

// readLogin returns the login of a driver in Azure.
func readLogin(t *testing.T) (backend.Login, error) {
	t.Helper()
	config, err := readAzureConfig(true)
	require.NoError(t, err)
	return config.login()
}

// TestAzureWithoutConfig: a driver starts without a configuration if it may, and then creates nothing.
func TestAzureWithoutConfig(t *testing.T) {
	t.Setenv("AZURE_CREDENTIAL_FILE", "/nowhere/cloud.conf")
	if _, err := readLogin(t); err == nil || err.Error() != "no cloud config provided" {
		t.Errorf("got %v, want that there is no configuration", err)
	}
	_, err := readAzureConfig(false)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestVSphereConfig(t *testing.T) {
	const whole = "[Global]\ncluster-id = \"berth\"\n[VirtualCenter \"vcenter.test\"]\nuser = \"driver@vsphere.local\"\npassword = \"p@ss#1\"\ndatacenters = \"dc\"\nport = \"443\"\nmigration-datastore-url = \"ds:///1\"\n"
	for name, test := range map[string]struct{ config, refuse string }{
		"whole":        {config: whole},
		"nothing":      {refuse: "no Virtual Center hosts defined"},
		"no user":      {config: strings.ReplaceAll(whole, "user =", "owner ="), refuse: "username is missing"},
		"no domain":    {config: strings.ReplaceAll(whole, "@vsphere.local", ""), refuse: "username is invalid"},
		"no password":  {config: strings.ReplaceAll(whole, "p@ss#1", ""), refuse: "password is missing"},
		"long ID":      {config: strings.ReplaceAll(whole, "berth", strings.Repeat("b", 65)), refuse: "must not exceed 64"},
		"two vCenters": {config: whole + "[VirtualCenter \"other.test\"]\nuser=\"a@b\"\npassword=\"c\"\n", refuse: "topology categories"},
		"no INI":       {config: "{}", refuse: "failed to read config"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("VSPHERE_CSI_CONFIG", filepath.Join(write(t, map[string]string{"cloud.conf": test.config}), "cloud.conf"))
			config, err := readVSphereConfig()
			if test.refuse != "" {
				assert.ErrorContains(t, err, test.refuse)
				return
			}
			require.NoError(t, err)
			login, err := config.login()
			want := backend.Login{"server": "vcenter.test", "user": "driver@vsphere.local", "password": "p@ss#1", "datacenters": "dc", "cluster": "berth"}
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(want, login), "login (-want +got)")
		})
	}
	t.Setenv("VSPHERE_CSI_CONFIG", "/nowhere")
	_, err := readVSphereConfig()
	assert.ErrorIs(t, err, fs.ErrNotExist, "without a file")
}

// startBackend starts a backend until the test ends.
func startBackend(t *testing.T, options backend.Options) *backend.Backend {
	t.Helper()
	options.Folder = t.TempDir()
	store, err := backend.Start(options)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
}

// serve serves a driver, which logs in as "berth", until the test ends. It returns the socket.
func serve(t *testing.T, d driver, store *backend.Backend) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "csi.sock")
	d.endpoint, d.backend, d.folder = "unix://"+socket, store.ListensAt(), store.Folder()
	d.login = func() (backend.Login, error) { return backend.Login{"user": "berth"}, nil }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return socket
}

// on returns the driver of a node.
func (d driver) on(node string) driver {
	d.info = func(context.Context) (*csi.NodeGetInfoResponse, error) {
		return &csi.NodeGetInfoResponse{NodeId: node}, nil
	}
	return d
}

// block is a driver whose volumes are attached.
var block = driver{
	name: "block.test", alsoOnNode: true, features: folders.Features{Attaches: true, Clones: true, Parameters: true, Modifies: true},
	parameters: []string{"skuname"}, mutable: []string{"skuname"}, refused: func(name string) error { return errors.New("invalid parameter " + name) },
}

// TestSanity: a controller keeps the rules of the CSI that csi-sanity knows. Nodes mount as the sample driver does, which
// csi-sanity tests, too.
func TestSanity(t *testing.T) {
	sanity, err := tools.Program{Name: "csi-sanity", Package: "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity", Folder: "lab/modules/csi-sanity",
		Flags: []string{"-ldflags", "-s -w"}}.Ensure(t.Context(), nil)
	require.NoError(t, err)
	store := startBackend(t, backend.Options{Nodes: func(id string) bool { return id == "pier" }})
	out, err := exec.CommandContext(t.Context(), sanity, "--csi.controllerendpoint=unix://"+serve(t, block, store), "--csi.endpoint=unix://"+serve(t, block.on("pier"), store),
		"--ginkgo.no-color", "--ginkgo.skip=Node Service|volume lifecycle",
		"--csi.mountdir="+filepath.Join(t.TempDir(), "target"), "--csi.stagingdir="+filepath.Join(t.TempDir(), "staging")).CombinedOutput()
	assert.NoErrorf(t, err, "csi-sanity\n%s", out)
	passed := regexp.MustCompile(`(\d+) Passed`).FindSubmatch(out)
	require.NotNilf(t, passed, "csi-sanity says not how much passed:\n%s", out)
	if n, err := strconv.Atoi(string(passed[1])); err != nil || n < 35 {
		t.Errorf("%s checks passed, want those of each service:\n%s", passed[1], out)
	}
	calls := store.Calls()
	assert.NotEmpty(t, calls, "the backend got no calls")
	for _, call := range calls {
		assert.Equalf(t, "berth", call.Login["user"], "%s came with the login %v", call.Method, call.Login)
	}
}
