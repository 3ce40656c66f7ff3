package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/folders"
)

// limit is the time limit for conditions that become true in milliseconds on an idle machine.
const limit = time.Minute

// fakeDriver serves the identity service: its name, and whether it is ready.
type fakeDriver struct {
	csi.UnimplementedIdentityServer
	ready *atomic.Bool
}

func (fakeDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "fake.test"}, nil
}

func (f fakeDriver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(f.ready.Load())}, nil
}

// serveFake serves a driver, and returns a function that ends it.
func serveFake(t *testing.T, socket string) (ready *atomic.Bool, end func()) {
	t.Helper()
	ready = &atomic.Bool{}
	ready.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- folders.Serve(ctx, socket, false, func(s *grpc.Server) { csi.RegisterIdentityServer(s, fakeDriver{ready: ready}) })
	}()
	end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(cancel)
	return ready, end
}

// run starts a program until the test or the returned function ends it. Its result comes from the channel.
func run(t *testing.T, name string, args ...string) (end context.CancelFunc, result <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- start(ctx, name, args) }()
	return cancel, ended
}

// await returns the result of a program that ends.
func await(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(limit):
		t.Fatal("the program does not end")
		return nil
	}
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// awaitAnswer waits for an answer of a web server that has the status and a text in it.
func awaitAnswer(t *testing.T, url string, status int, text string) {
	t.Helper()
	cluster.Eventually(t, limit, fmt.Sprintf("%s to answer %d with %q", url, status, text), func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != status || !strings.Contains(string(body), text) {
			return fmt.Errorf("got %s with %q, error %v", response.Status, body, err)
		}
		return nil
	})
}

// awaitGone waits until a file is gone.
func awaitGone(t *testing.T, path string) {
	t.Helper()
	_, err := os.Stat(path)
	assert.ErrorIsf(t, err, fs.ErrNotExist, "%s is still there", path)
}

// TestRegistrar: it waits for the driver, tells the kubelet of it at a socket that only the user may use, answers health checks, ends with an error when the
// kubelet refuses the driver, and removes the socket when it ends.
func TestRegistrar(t *testing.T) {
	folder := t.TempDir()
	driver, plugin, address := filepath.Join(folder, "csi.sock"), filepath.Join(folder, "fake.test-reg.sock"), freeAddress(t)
	args := []string{"--csi-address=" + driver, "--kubelet-registration-path=/var/lib/kubelet/plugins/fake.test/csi.sock",
		"--plugin-registration-path=" + folder, "--http-endpoint=" + address, "--timeout=10s", "--v=2"}
	end, result := run(t, "csi-node-driver-registrar", args...)
	serveFake(t, driver) // late
	health := "http://" + address + "/healthz"
	awaitAnswer(t, health, http.StatusOK, "ok")
	info, err := os.Stat(plugin)
	require.NoError(t, err)
	assert.Zerof(t, info.Mode().Perm()&0o077, "the socket is %v", info)
	kubelet := registration.NewRegistrationClient(dial(t, plugin))
	got, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{})
	if err != nil || got.Type != "CSIPlugin" || got.Name != "fake.test" || got.Endpoint != "/var/lib/kubelet/plugins/fake.test/csi.sock" || fmt.Sprint(got.SupportedVersions) != "[1.0.0]" {
		t.Errorf("the kubelet is told %v, %v", got, err)
	}
	_, err = kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true})
	assert.NoError(t, err)
	awaitAnswer(t, health, http.StatusOK, "ok")
	require.NoError(t, os.Remove(plugin))
	awaitAnswer(t, health, http.StatusNotFound, "registration socket does not exist")
	end()
	assert.NoError(t, await(t, result), "when it is asked to end")

	end, result = run(t, "csi-node-driver-registrar", args...)
	awaitAnswer(t, health, http.StatusOK, "ok")
	end()
	assert.NoError(t, await(t, result), "when it is asked to end")
	awaitGone(t, plugin)

	_, result = run(t, "csi-node-driver-registrar", args...)
	awaitAnswer(t, health, http.StatusOK, "ok")
	kubelet = registration.NewRegistrationClient(dial(t, plugin))
	_, err = kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no such driver"})
	assert.NoError(t, err)
	assert.ErrorContains(t, await(t, result), "no such driver", "when the kubelet refuses the driver")
	awaitGone(t, plugin)
}

// TestSidecarsRefuse: arguments that the real sidecars refuse.
func TestSidecarsRefuse(t *testing.T) {
	for _, test := range []struct{ program, args, want string }{
		{"csi-node-driver-registrar", "--csi-address=/nowhere", "kubelet-registration-path is a required parameter"},
		{"csi-node-driver-registrar", "--kubelet-registration-path=/a --health-port=1 --http-endpoint=:2", "only one of"},
		{"csi-node-driver-registrar", "--kubelet-registration-path=/a --driver-name=b", "flag provided but not defined: -driver-name"},
		{"livenessprobe", "--http-endpoint=:1 --health-port=2", "only one of"},
		{"livenessprobe", "--http-endpoint=:1 --metrics-address=:2", "only one of"},
		{"livenessprobe", "--connection-timeout=1s", "flag provided but not defined: -connection-timeout"},
	} {
		assert.ErrorContainsf(t, start(t.Context(), test.program, strings.Fields(test.args)), test.want, "%s %s", test.program, test.args)
	}
	if err := start(t.Context(), "csi-node-driver-registrar", strings.Fields("--kubelet-registration-path=/a --mode=kubelet-registration-probe")); err != nil {
		t.Errorf("as a probe: %v", err)
	}
}

// TestLivenessProbe: it waits for the driver, and answers as the driver does. The metrics count the probes.
func TestLivenessProbe(t *testing.T) {
	driver, address := filepath.Join(t.TempDir(), "csi.sock"), freeAddress(t)
	end, result := run(t, "livenessprobe", "--csi-address="+driver, "--http-endpoint="+address, "--probe-timeout=1s")
	ready, endDriver := serveFake(t, driver) // late
	health := "http://" + address + "/healthz"
	awaitAnswer(t, health, http.StatusOK, "ok")
	ready.Store(false)
	awaitAnswer(t, health, http.StatusInternalServerError, "not ready")
	endDriver()
	awaitAnswer(t, health, http.StatusInternalServerError, "probe the driver")
	awaitAnswer(t, "http://"+address+"/metrics", http.StatusOK,
		`csi_sidecar_operations_seconds_count{driver_name="fake.test",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"}`)
	serveFake(t, driver)
	awaitAnswer(t, health, http.StatusOK, "ok")
	end()
	assert.NoError(t, await(t, result), "when it is asked to end")
}

// TestLivenessProbePorts: with a port alone, there are no metrics, unless they have an address of their own.
func TestLivenessProbePorts(t *testing.T) {
	driver, health, metrics := filepath.Join(t.TempDir(), "csi.sock"), freeAddress(t), freeAddress(t)
	serveFake(t, driver)
	_, port, _ := net.SplitHostPort(health)
	run(t, "livenessprobe", "--csi-address="+driver, "--health-port="+port, "--metrics-address="+metrics)
	awaitAnswer(t, "http://"+health+"/healthz", http.StatusOK, "ok")
	awaitAnswer(t, "http://"+health+"/metrics", http.StatusNotFound, "")
	awaitAnswer(t, "http://"+metrics+"/metrics", http.StatusOK, "csi_sidecar_operations_seconds")
}
