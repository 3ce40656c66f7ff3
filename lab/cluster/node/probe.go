package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// check probes a container once.
type check func(context.Context) error

// runner runs a command in the container's environment. The error has the exit code and the output.
type runner func(ctx context.Context, command []string) error

// eagerPeriod is the period of probes of a container that has not succeeded yet, if that makes it ready sooner.
// Failures still count only once per period of the probe.
const eagerPeriod = 250 * time.Millisecond

// watch runs a check with the period of the probe until ctx is done, and reports each change between success and
// failure after as many results as the probe's thresholds say. An eager watch reports the first success soon.
func watch(ctx context.Context, probe *corev1.Probe, eager bool, ask check, report func(error)) {
	var (
		period    = max(time.Duration(probe.PeriodSeconds)*time.Second, time.Second)
		timeout   = max(time.Duration(probe.TimeoutSeconds)*time.Second, time.Second)
		good, bad int32
		counted   time.Time
	)
	timer := time.NewTimer(time.Duration(probe.InitialDelaySeconds) * time.Second)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		asked := time.Now()
		asking, cancel := context.WithTimeout(ctx, timeout)
		err := ask(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			eager = false
			good, bad = good+1, 0
			if good == max(probe.SuccessThreshold, 1) {
				report(nil)
			}
		case !eager || asked.Sub(counted) >= period:
			counted = asked
			good, bad = 0, bad+1
			if bad == max(probe.FailureThreshold, 1) {
				report(err)
			}
		}
		next := period
		if eager {
			next = min(eagerPeriod, period)
		}
		timer.Reset(time.Until(asked.Add(next)))
	}
}

// newCheck returns the check of a probe, for a container at ip. If the probe is invalid, each check returns an error.
func newCheck(probe *corev1.Probe, container *corev1.Container, ip string, run runner) check {
	switch {
	case probe.HTTPGet != nil:
		request, err := httpRequest(probe.HTTPGet, container, ip)
		return func(ctx context.Context) error { return httpCheck(ctx, request, err) }
	case probe.TCPSocket != nil:
		address, err := probeAddress(probe.TCPSocket.Host, ip, probe.TCPSocket.Port, container)
		return func(ctx context.Context) error { return tcpCheck(ctx, address, err) }
	case probe.Exec != nil:
		return func(ctx context.Context) error { return run(ctx, probe.Exec.Command) }
	case probe.GRPC != nil:
		address := net.JoinHostPort(ip, fmt.Sprint(probe.GRPC.Port))
		request := &healthpb.HealthCheckRequest{}
		if probe.GRPC.Service != nil {
			request.Service = *probe.GRPC.Service
		}
		return func(ctx context.Context) error { return grpcCheck(ctx, address, request) }
	}
	return func(context.Context) error {
		return errors.New("the probe has none of httpGet, tcpSocket, exec and grpc")
	}
}

// probeClient sends requests like a kubelet: it accepts any certificate, takes a redirect as a response, and uses a
// new connection for each request.
var probeClient = &http.Client{
	Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func httpRequest(get *corev1.HTTPGetAction, container *corev1.Container, ip string) (*http.Request, error) {
	address, err := probeAddress(get.Host, ip, get.Port, container)
	if err != nil {
		return nil, err
	}
	scheme := strings.ToLower(cmp.Or(string(get.Scheme), "http"))
	request, err := http.NewRequest(http.MethodGet, scheme+"://"+address+"/"+strings.TrimPrefix(get.Path, "/"), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "kube-probe")
	for _, header := range get.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	if name := request.Header.Get("Host"); name != "" {
		request.Host = name
	}
	return request, nil
}

func httpCheck(ctx context.Context, request *http.Request, err error) error {
	if err != nil {
		return err
	}
	response, err := probeClient.Do(request.WithContext(ctx))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answered with status code %d", request.URL, response.StatusCode)
	}
	return nil
}

func tcpCheck(ctx context.Context, address string, err error) error {
	if err != nil {
		return err
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

func grpcCheck(ctx context.Context, address string, request *healthpb.HealthCheckRequest) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	answer, err := healthpb.NewHealthClient(connection).Check(ctx, request)
	if err != nil {
		return err
	}
	if answer.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%s answered with status %s", address, answer.Status)
	}
	return nil
}

// probeAddress returns the address to probe. The port may be the name of a container's port.
func probeAddress(host, ip string, port intstr.IntOrString, container *corev1.Container) (string, error) {
	if port.Type == intstr.String {
		i := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal })
		if i < 0 {
			return "", fmt.Errorf("the probe asks port %q, and the container lists no port of this name", port.StrVal)
		}
		port = intstr.FromInt32(container.Ports[i].ContainerPort)
	}
	return net.JoinHostPort(cmp.Or(host, ip), port.String()), nil
}
