package remote

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/authority"
)

// TestDownload: catalogs are read only from a server whose certificate the authority has signed.
func TestDownload(t *testing.T) {
	handler := http.NewServeMux()
	handler.HandleFunc("/catalogs/shore/api/v1/all", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"schema":"olm.package"}`)) })
	handler.HandleFunc("/catalogs/moved/api/v1/all", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/catalogs/shore/api/v1/all", http.StatusFound)
	})
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	other, err := authority.New("another")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		base        string
		authorities []byte
		want, err   string
	}{
		"the authority":      {base: server.URL + "/catalogs/shore", authorities: own, want: `{"schema":"olm.package"}`},
		"another authority":  {base: server.URL + "/catalogs/shore", authorities: other.PEM(), err: "certificate"},
		"no certificate":     {base: server.URL + "/catalogs/shore", authorities: []byte("none"), err: "no certificate in PEM"},
		"no such catalog":    {base: server.URL + "/catalogs/sea", authorities: own, err: "answers 404 Not Found"},
		"another server":     {base: server.URL + "/catalogs/moved", authorities: own, err: "catalogd redirects"},
		"no Service":         {base: server.URL + "/catalogs/shore", err: "which names no Service, so it does not show which authority has signed catalogd's certificate; name a file with it in --catalogd-ca"},
		"without encryption": {base: "http://127.0.0.1/catalogs/shore", authorities: own, err: "want an https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			err := Download(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, test.base, test.authorities, &got)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err, "got error")
				return
			}
			assert.NoError(t, err)
			assert.Equal(t, test.want, got.String())
		})
	}
}

// TestTargetPort: the port of a pod behind the port of a Service.
func TestTargetPort(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443}}}}}}
	for name, test := range map[string]struct {
		target intstr.IntOrString
		port   string
		want   int32
	}{
		"a name":       {target: intstr.FromString("https"), want: 8443},
		"a number":     {target: intstr.FromInt32(9443), port: "443", want: 9443},
		"the same":     {want: 443},
		"no such name": {target: intstr.FromString("http"), want: 0},
		"no such port": {target: intstr.FromInt32(9443), port: "444", want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443, TargetPort: test.target}}}}
			assert.EqualValues(t, test.want, targetPort(service, pod, test.port))
		})
	}
}
