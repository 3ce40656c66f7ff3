package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-csi/berth/lab/ports"
)

func TestChecks(t *testing.T) {
	mux := http.NewServeMux()
	for code := range map[int]bool{200: true, 302: true, 404: true, 500: true} {
		mux.HandleFunc(fmt.Sprintf("/%d", code), func(w http.ResponseWriter, r *http.Request) {
			if r.Host != "example.com" {
				code = http.StatusTeapot
			}
			w.WriteHeader(code)
		})
	}
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	healthy := serveHealth(t)

	get := func(server *httptest.Server, path string) corev1.ProbeHandler {
		u, _ := url.Parse(server.URL)
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.Parse(u.Port()), Scheme: corev1.URIScheme(strings.ToUpper(u.Scheme)),
			HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "example.com"}},
		}}
	}
	tcp := func(port intstr.IntOrString) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}
	}
	free := int32(ports.Free(t))
	tests := map[string]struct {
		probe corev1.ProbeHandler
		want  string // in the error; "" for none
	}{
		"good answer":         {get(plain, "/200"), ""},
		"good answer by TLS":  {get(secure, "200"), ""},
		"redirect":            {get(plain, "/302"), ""},
		"missing page":        {get(plain, "/404"), "status code 404"},
		"failing page by TLS": {get(secure, "/500"), "status code 500"},
		"open port":           {tcp(get(plain, "").HTTPGet.Port), ""},
		"closed port":         {tcp(intstr.FromInt32(free)), "connection refused"},
		"named port":          {tcp(intstr.FromString("free")), "connection refused"},
		"unknown port":        {tcp(intstr.FromString("other")), `asks port "other", and the container lists no port of this name`},
		"good command":        {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"good"}}}, ""},
		"bad command":         {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"bad"}}}, "no such command: bad"},
		"healthy service":     {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: healthy, Service: new("good")}}, ""},
		"unhealthy service":   {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: healthy, Service: new("bad")}}, "NOT_SERVING"},
		"nothing to do":       {corev1.ProbeHandler{}, "none of httpGet, tcpSocket, exec and grpc"},
	}
	run := func(_ context.Context, command []string) error {
		if command[0] == "good" {
			return nil
		}
		return fmt.Errorf("no such command: %s", command[0])
	}
	container := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "free", ContainerPort: free}}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := newCheck(&corev1.Probe{ProbeHandler: test.probe}, container, "127.0.0.1", run)(t.Context())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func serveHealth(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	state := health.NewServer()
	state.SetServingStatus("good", healthpb.HealthCheckResponse_SERVING)
	state.SetServingStatus("bad", healthpb.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, state)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

func TestWatchCountsAnswers(t *testing.T) {
	bad := errors.New("bad")
	tests := map[string]struct {
		probe   corev1.Probe
		eager   bool
		answers []error // in the order of the probe's requests
		want    []string
	}{
		"each change counts once": {
			probe:   corev1.Probe{PeriodSeconds: 10},
			answers: []error{nil, nil, bad, bad, nil},
			want:    []string{"0s good", "20s bad", "40s good"},
		},
		"thresholds": {
			probe:   corev1.Probe{PeriodSeconds: 10, SuccessThreshold: 2, FailureThreshold: 3},
			answers: []error{nil, nil, bad, bad, nil, nil, bad, bad, bad, bad},
			want:    []string{"10s good", "50s good", "1m20s bad"},
		},
		"initial delay": {
			probe:   corev1.Probe{PeriodSeconds: 10, InitialDelaySeconds: 7, FailureThreshold: 2},
			answers: []error{bad, bad},
			want:    []string{"17s bad"},
		},
		"eager until the first good answer": {
			probe:   corev1.Probe{PeriodSeconds: 10},
			eager:   true,
			answers: []error{bad, bad, bad, nil, bad},
			want:    []string{"0s bad", "750ms good", "10.75s bad"},
		},
		"eager failures count once a period": {
			probe:   corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2},
			eager:   true,
			answers: []error{bad, bad, bad, bad, bad, bad},
			want:    []string{"1s bad"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				var got []string
				i := 0
				ask := func(context.Context) error {
					if i == len(test.answers) {
						cancel()
						return nil
					}
					i++
					return test.answers[i-1]
				}
				watch(ctx, &test.probe, test.eager, ask, func(err error) {
					word := "good"
					if err != nil {
						word = "bad"
					}
					got = append(got, fmt.Sprintf("%s %s", time.Since(start), word))
				})
				assert.Empty(t, cmp.Diff(test.want, got), "reports (-want +got)")
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	var b backoff
	var got []time.Duration
	for _, ran := range []time.Duration{time.Second, 0, 0, time.Second, 0, 0, 0, backoffReset, 0} {
		got = append(got, b.next(ran))
	}
	want := []time.Duration{0, 1, 2, 4, 8, 10, 10, 0, 1}
	for i := range want {
		want[i] *= time.Second
	}
	assert.Empty(t, cmp.Diff(want, got), "delays (-want +got)")
}
