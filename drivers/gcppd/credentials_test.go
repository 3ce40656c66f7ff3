package gcppd

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2/google"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
)

// TestCredentialSource has Google's library read files that whoever may write the Secret can put there, in the environment of the controller's
// container: it starts no program. It sends what it reads, from a file or another server, wherever the file says: docs/reference/security.md
// says what that is worth.
func TestCredentialSource(t *testing.T) {
	dir := t.TempDir()
	ran, program, token := filepath.Join(dir, "ran"), filepath.Join(dir, "program"), filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho ran >"+ran+"\n"), 0o700))
	require.NoError(t, os.WriteFile(token, []byte("of-the-pod"), 0o600))
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") == "Google" {
			_, _ = io.WriteString(w, "of-the-node")
		}
	}))
	t.Cleanup(metadata.Close)
	var sent url.Values
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.ParseForm())
		sent = r.PostForm
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(thief.Close)
	// find has the library get a token, and returns what the other server was sent.
	find := func(t *testing.T, env []corev1.EnvVar, source map[string]any) string {
		t.Helper()
		for _, e := range env {
			t.Setenv(e.Name, e.Value)
		}
		file, err := json.Marshal(map[string]any{"type": "external_account", "audience": "//iam.googleapis.com/a", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
			"token_url": thief.URL, "credential_source": source})
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "service_account.json")
		require.NoError(t, os.WriteFile(path, file, 0o600))
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
		sent = nil
		found, err := google.FindDefaultCredentials(t.Context(), "scope")
		require.NoError(t, err)
		_, err = found.TokenSource.Token()
		require.Error(t, err, "the other server gives no token")
		return sent.Get("subject_token")
	}
	env := controllerEnvironment(t)
	executable := map[string]any{"executable": map[string]any{"command": program}}
	assert.Empty(t, find(t, env, executable))
	assert.NoFileExists(t, ran, "the library has started a program")
	assert.Equal(t, "of-the-pod", find(t, env, map[string]any{"file": token}), "what the library sends of a file")
	assert.Equal(t, "of-the-node", find(t, env, map[string]any{"url": metadata.URL, "headers": map[string]string{"Metadata-Flavor": "Google"}}), "what the library sends of an answer")

	find(t, append(env, corev1.EnvVar{Name: "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", Value: "1"}), executable)
	assert.FileExists(t, ran, "without the container's environment the library starts no program, either: the test proves nothing")
}

// controllerEnvironment returns the environment of the container that reads the Secret. It fails the test unless that is the only one.
func controllerEnvironment(t *testing.T) (env []corev1.EnvVar) {
	t.Helper()
	readers := 0
	for _, m := range slices.Concat(drivers.OfKind(manifests(t), "Deployment"), drivers.OfKind(manifests(t), "DaemonSet")) {
		workload := &appsv1.Deployment{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": map[string]any{"template": m.Object.Object["spec"].(map[string]any)["template"]}}, workload))
		pod := workload.Spec.Template.Spec
		for _, volume := range pod.Volumes {
			if volume.Secret == nil || volume.Secret.SecretName != Driver.Secrets[0] {
				continue
			}
			for _, c := range pod.Containers {
				if slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == volume.Name }) {
					readers++
					env = c.Env
				}
			}
		}
	}
	require.Equal(t, 1, readers, "containers with the Secret")
	return env
}
