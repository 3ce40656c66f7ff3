package testbed

import (
	"context"
	"net"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/proxy"
)

// proxyAddress is where nodes and their pods find the cluster's proxy.
const proxyAddress = "10.0.96.1:3128"

// noProxy lists the destinations that OpenShift lets its pods reach without the proxy: its own networks and the
// metadata service.
const noProxy = ".cluster.local,.svc,10.0.0.0/24,10.128.0.0/14,10.217.0.0/16,127.0.0.1,169.254.169.254,localhost"

// behindProxy returns the cloud behind a proxy, which serves until the test ends: only the proxy reaches the servers
// with a port, and the cluster's Proxy names it.
func (c Cloud) behindProxy(t testing.TB, port string) (Cloud, *proxy.Proxy) {
	t.Helper()
	servers, hidden := map[string]string{}, map[string]string{}
	for at, to := range c.Servers {
		if strings.HasSuffix(at, ":"+port) {
			hidden[at] = to
		} else {
			servers[at] = to
		}
	}
	for name, ip := range c.Names {
		if to, known := hidden[net.JoinHostPort(ip, port)]; known {
			hidden[net.JoinHostPort(name, port)] = to
		}
	}
	started := proxy.Start(t, hidden)
	servers[proxyAddress] = started.Address
	prepare := c.Prepare
	c.Servers = servers
	c.Prepare = func(c *cluster.Cluster) {
		require.NoError(t, setProxy(t.Context(), c.Client()))
		if prepare != nil {
			prepare(c)
		}
	}
	return c, started
}

func setProxy(ctx context.Context, c client.Client) error {
	config := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
		return err
	}
	config.Status = configv1.ProxyStatus{HTTPProxy: "http://" + proxyAddress, HTTPSProxy: "http://" + proxyAddress, NoProxy: noProxy}
	return c.Status().Update(ctx, config)
}
