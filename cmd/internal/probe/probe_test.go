package probe_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/cmd/internal/probe"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/lab/registry"
)

// servers start servers, by their reaction to a probe.
var servers = map[string]func(t *testing.T) (address string){
	"healthy":   func(t *testing.T) string { return serve(t, healthWith(healthpb.HealthCheckResponse_SERVING)) },
	"unhealthy": func(t *testing.T) string { return serve(t, healthWith(healthpb.HealthCheckResponse_NOT_SERVING)) },
	"without":   func(t *testing.T) string { return serve(t, nil) },
	"slow":      func(t *testing.T) string { return serve(t, slow{}) },
	"header":    func(t *testing.T) string { return serve(t, withHeader{}) },
	"nobody":    func(*testing.T) string { return registry.Nobody() },
	"silent": func(t *testing.T) string { // it accepts connections, and says nothing
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		return listener.Addr().String()
	},
}

func healthWith(status healthpb.HealthCheckResponse_ServingStatus) healthpb.HealthServer {
	h := health.NewServer()
	h.SetServingStatus("", status)
	return h
}

// slow answers when the client has gone.
type slow struct {
	healthpb.UnimplementedHealthServer
}

func (slow) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// withHeader is healthy for clients that send the header key with the value open.
type withHeader struct {
	healthpb.UnimplementedHealthServer
}

func (withHeader) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	if strings.Join(sent.Get("key"), "") != "open" {
		return nil, status.Error(codes.PermissionDenied, "no key")
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

func serve(t *testing.T, of healthpb.HealthServer) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	if of != nil {
		healthpb.RegisterHealthServer(s, of)
	}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}

// TestLikeGRPCHealthProbe: the exit codes are the same as the real grpc_health_probe's.
func TestLikeGRPCHealthProbe(t *testing.T) {
	real, err := programs.Path(t.Context(), nil, "grpc_health_probe")
	require.NoError(t, err)
	for _, test := range []struct {
		server, args string
		want         int
	}{
		{"healthy", "-addr=SERVER", 0},
		{"healthy", "-addr=:PORT -rpc-timeout=5s", 0},
		{"healthy", "--addr SERVER -connect-timeout 5s -v -user-agent kubelet", 0},
		{"healthy", "-addr=SERVER -service=nothing", 3},
		{"healthy", "-addr=SERVER -unknown", 1},
		{"healthy", "-addr=SERVER -rpc-timeout=0", 1},
		{"healthy", "-addr=SERVER -connect-timeout=-1s", 1},
		{"healthy", "-addr=SERVER -rpc-header=nothing", 1},
		{"healthy", "-version", 0},
		{"healthy", "", 1},
		{"header", "-addr=SERVER", 3},
		{"header", "-addr=SERVER -rpc-header key:open", 0},
		{"unhealthy", "-addr=SERVER", 4},
		{"without", "-addr=SERVER", 3},
		{"slow", "-addr=SERVER -rpc-timeout=50ms", 3},
		{"nobody", "-addr=SERVER -connect-timeout=100ms", 2},
		{"silent", "-addr=SERVER -connect-timeout=100ms", 2},
	} {
		t.Run(test.server+" "+test.args, func(t *testing.T) {
			t.Parallel()
			address := servers[test.server](t)
			_, port, _ := net.SplitHostPort(address)
			args := strings.Fields(strings.NewReplacer("SERVER", address, "PORT", port).Replace(test.args))
			cmd := exec.CommandContext(t.Context(), real, args...)
			if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			assert.EqualValues(t, test.want, cmd.ProcessState.ExitCode(), "the real one ends with")
			var stdout, stderr bytes.Buffer
			began := time.Now()
			if got := probe.Run(t.Context(), args, &stdout, &stderr); got != test.want {
				t.Errorf("ours ends with %d after %s, want %d\n%s", got, time.Since(began), test.want, &stderr)
			}
			assert.NotZero(t, stdout.Len()+stderr.Len(), "it says nothing")
		})
	}
}

// TestRefusedFlags: flags that no server of Berth needs are refused with a sentence.
func TestRefusedFlags(t *testing.T) {
	for _, flag := range []string{"-tls", "-alts", "-spiffe", "-gzip", "-tls-ca-cert=ca.pem"} {
		var stderr bytes.Buffer
		if got := probe.Run(t.Context(), []string{"-addr=127.0.0.1:1", flag}, &stderr, &stderr); got != 1 || !strings.Contains(stderr.String(), "is not part of Berth") {
			t.Errorf("%s: exit code %d, want 1 and why: %s", flag, got, &stderr)
		}
	}
}
