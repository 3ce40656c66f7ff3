package cluster

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestServices: through the proxy, a SOCKS client can connect only to Services by name, and reaches a ready pod.
func TestServices(t *testing.T) {
	c := Shared(t, Options{})
	namespace := c.Namespace(t)
	labels := map[string]string{"app": "web"}
	for name, ready := range map[string]corev1.ConditionStatus{"web-0": corev1.ConditionFalse, "web-1": corev1.ConditionTrue} {
		// No node has these pods.
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec: corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
		require.NoError(t, c.Client().Create(t.Context(), pod))
		pod.Status.PodIP = map[corev1.ConditionStatus]string{corev1.ConditionFalse: "10.128.0.8", corev1.ConditionTrue: "10.128.0.9"}[ready]
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		require.NoError(t, c.Client().Status().Update(t.Context(), pod))
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080)}}}}
	require.NoError(t, c.Client().Create(t.Context(), service))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go serveServices(listener, c.Client(), func(_ context.Context, address string) (net.Conn, error) {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer server.Close()
		conn, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			return nil, err
		}
		pod, err := server.Accept()
		if err != nil {
			return nil, err
		}
		defer pod.Close()
		_, err = io.WriteString(pod, "this is "+address)
		return conn, err
	})
	socks, err := proxy.SOCKS5("tcp", listener.Addr().String(), nil, nil)
	require.NoError(t, err)

	conn, err := socks.Dial("tcp", "web."+namespace+".svc:80")
	require.NoError(t, err)
	defer conn.Close()
	if answer, err := io.ReadAll(conn); err != nil || string(answer) != "this is 10.128.0.9:8080" {
		t.Errorf("found %q (%v), want the pod that is ready", answer, err)
	}
	for _, address := range []string{"web." + namespace + ".svc:81", "none." + namespace + ".svc:80", "example.com:80", "127.0.0.1:80"} {
		conn, err := socks.Dial("tcp", address)
		assert.ErrorContainsf(t, err, "host unreachable", "%s: found %v", address, conn)
	}
}
