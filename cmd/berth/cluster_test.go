package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestConnectionFlagsReachTheServer: what the flags say is in the requests, with a kubeconfig file and without.
func TestConnectionFlagsReachTheServer(t *testing.T) {
	var got http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		http.Error(w, "no", http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	file, authority := filepath.Join(t.TempDir(), "config"), filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(authority, certificate, 0o600))
	contents := "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: c\n  cluster: {server: '" + server.URL + "', certificate-authority: '" + authority + "'}\n- name: gone\n  cluster: {server: 'http://127.0.0.1:1'}\n" +
		"users:\n- name: ann\n  user: {token: ann}\n- name: bob\n  user: {token: bob}\ncontexts:\n- name: a\n  context: {cluster: gone, user: ann}\n- name: b\n  context: {cluster: c, user: ann}\n"
	require.NoError(t, os.WriteFile(file, []byte(contents), 0o600))
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	for name, tc := range map[string]struct {
		flags []string
		want  http.Header
	}{
		"context":        {[]string{"--kubeconfig", file, "--context", "b"}, http.Header{"Authorization": {"Bearer ann"}}},
		"cluster, user":  {[]string{"--kubeconfig", file, "--cluster", "c", "--user", "bob"}, http.Header{"Authorization": {"Bearer bob"}}},
		"server, token":  {[]string{"--server", server.URL, "--certificate-authority", authority, "--token", "eve"}, http.Header{"Authorization": {"Bearer eve"}}},
		"somebody else":  {[]string{"--kubeconfig", file, "--context", "b", "--as", "system:serviceaccount:shop:cart"}, http.Header{"Impersonate-User": {"system:serviceaccount:shop:cart"}}},
		"with groups":    {[]string{"--server", server.URL, "--certificate-authority", authority, "--as", "ann", "--as-group", "admins", "--as-group", "staff"}, http.Header{"Impersonate-Group": {"admins", "staff"}}},
		"with a UID":     {[]string{"--server", server.URL, "--certificate-authority", authority, "--as", "ann", "--as-uid", "7"}, http.Header{"Impersonate-Uid": {"7"}}},
		"no compression": {[]string{"--server", server.URL, "--certificate-authority", authority, "--disable-compression"}, http.Header{"Accept-Encoding": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			f, cmd := &clusterFlags{}, &cobra.Command{}
			f.addConnection(cmd)
			assert.False(t, f.given(), "flags are given before there are any")
			require.NoError(t, cmd.ParseFlags(tc.flags))
			config, err := f.limited()
			require.NoError(t, err)
			if !f.given() || config.Timeout != requestTimeout {
				t.Errorf("flags are given: %t; a request takes at most %s, want %s", f.given(), config.Timeout, requestTimeout)
			}
			c, err := client.New(config, client.Options{})
			require.NoError(t, err)
			nodes := &metav1.PartialObjectMetadataList{}
			nodes.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
			got = nil
			if err := c.List(t.Context(), nodes); err == nil || got == nil {
				t.Fatalf("the request did not reach the server: %v", err)
			}
			for header, want := range tc.want {
				if strings.Join(got[header], ",") != strings.Join(want, ",") {
					t.Errorf("%s is %q, want %q", header, got[header], want)
				}
			}
		})
	}
}

// TestRequestTimeout: a request takes as long as the flag says, and 0 is no limit.
func TestRequestTimeout(t *testing.T) {
	for value, want := range map[string]string{"7s": "7s", "0": "0s"} {
		f, cmd := &clusterFlags{}, &cobra.Command{}
		f.addConnection(cmd)
		require.NoError(t, cmd.ParseFlags([]string{"--server", "http://127.0.0.1:1", "--request-timeout", value}))
		config, err := f.limited()
		require.NoError(t, err)
		assert.Equalf(t, want, config.Timeout.String(), "what a request takes at most, with %s", value)
	}
}
