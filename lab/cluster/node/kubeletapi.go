package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// serveKubeletAPI serves the API server's requests to a kubelet, such as for logs and port forwarding, on a free port
// of the node's address until ctx is done. It needs no authentication, as only this machine can reach it.
func serveKubeletAPI(ctx context.Context, ip string, provider *provider) (port int32, err error) {
	certificate, err := selfSigned(ip)
	if err != nil {
		return 0, fmt.Errorf("making the certificate of the kubelet API: %w", err)
	}
	listener, err := tls.Listen("tcp", net.JoinHostPort(ip, "0"), &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return 0, fmt.Errorf("serving the kubelet API on %s: %w", ip, err)
	}
	server := &http.Server{Handler: api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs:      provider.containerLogs,
		PortForward:           provider.portForward,
		GetPods:               provider.GetPods,
		GetPodsFromKubernetes: provider.GetPods,
	}, true)}
	go server.Serve(listener) //nolint:errcheck // It ends with the node.
	context.AfterFunc(ctx, func() { server.Close() })
	return int32(listener.Addr().(*net.TCPAddr).Port), nil
}

// selfSigned creates a certificate that nobody needs to trust: by default the API server does not verify a kubelet's
// certificate.
func selfSigned(ip string) (tls.Certificate, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		IPAddresses:  []net.IP{net.ParseIP(ip)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// containerLogs returns the log of a container on the node.
func (p *provider) containerLogs(ctx context.Context, namespace, name, container string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	known := p.find(namespace, name)
	if known == nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not on this node", namespace, name)
	}
	c := known.container(container)
	switch {
	case c == nil:
		return nil, errdefs.NotFoundf("pod %s/%s has no container %s", namespace, name, container)
	case c.program == "":
		text := fmt.Sprintf("The process node has no program for the image %s and only reports this container running.\n", c.spec.Image)
		return io.NopCloser(strings.NewReader(text)), nil
	}
	run := c.latestRun()
	if run == nil {
		return nil, errdefs.InvalidInputf("container %s has not started yet", container)
	}
	return c.log.read(ctx, opts, run.ended)
}
