package efs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/efs"
)

// TestCredentialProcess starts the scripts of the driver's pods with files that whoever may write a Secret can put there, and makes the AWS
// SDK read the result: it finds the credentials, and starts no program.
func TestCredentialProcess(t *testing.T) {
	for pod, script := range scripts(t) {
		for name, test := range map[string]struct{ file, key string }{
			"a key pair":               {"[default]\naws_access_key_id = AKIAGOOD\naws_secret_access_key = a+b/c\n", "AKIAGOOD"},
			"without spaces":           {"[default]\naws_access_key_id=AKIAGOOD\naws_secret_access_key=a+b/c=", "AKIAGOOD"},
			"a program":                {"[default]\ncredential_process = PROGRAM\n", ""},
			"a program beside keys":    {"[default]\naws_access_key_id = AKIAGOOD\ncredential_process = PROGRAM\naws_secret_access_key = abc\n", "AKIAGOOD"},
			"a program by indent":      {"[default]\n  credential_process = PROGRAM\n", ""},
			"another profile":          {"[profile evil]\ncredential_process = PROGRAM\n[evil]\ncredential_process = PROGRAM\n[default]\nsource_profile = evil\nrole_arn = arn:aws:iam::1:role/a\n", ""},
			"a line that has a return": {"[default]\naws_access_key_id = x\rcredential_process = PROGRAM\n", ""},
			"names for a shell":        {"[default]\naws_access_key_id = $(PROGRAM)\n`PROGRAM` = x\nregion = *;PROGRAM\n[default];PROGRAM\n", ""},
			"a service section":        {"[default]\nservices = s\n[services s]\nsts =\n  endpoint_url = http://evil\n  credential_process = PROGRAM\n", ""},
		} {
			t.Run(pod+"/"+name, func(t *testing.T) {
				dir := t.TempDir()
				for _, folder := range []string{"aws", "aws-secret", "bin"} {
					require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
				}
				write := func(path, text string) {
					require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o700))
				}
				write("program", "#!/bin/sh\necho ran >"+filepath.Join(dir, "ran"))
				write("bin/aws-efs-csi-driver", "#!/bin/sh\necho \"$@\"")
				secret := strings.ReplaceAll(test.file, "PROGRAM", filepath.Join(dir, "program"))
				write("aws-secret/credentials", secret)
				start := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(script, "/var/run/aws", filepath.Join(dir, "aws")), "aws-efs-csi-driver", "--endpoint=x")
				start.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
				if out, err := start.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "--endpoint=x\n") {
					t.Fatalf("the script ended with %v: %s", err, out)
				}
				write("aws-secret/credentials", "[default]\ncredential_process = "+filepath.Join(dir, "program")+"\n") // while the pod runs
				assert.EqualValues(t, test.key, key(t, filepath.Join(dir, "aws", "credentials")), "the SDK finds key")
				assert.NoFileExists(t, filepath.Join(dir, "ran"), "the SDK has started a program")
				if key(t, filepath.Join(dir, "aws-secret", "credentials")); !exists(filepath.Join(dir, "ran")) {
					t.Error("the SDK does not start the program of the Secret itself: the test proves nothing")
				}
			})
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// key returns the access key that the AWS SDK finds in a file, "" if it finds none.
func key(t *testing.T, file string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"))
	if err != nil {
		return ""
	}
	found, err := loaded.Credentials.Retrieve(ctx)
	if err != nil {
		return ""
	}
	return found.AccessKeyID
}

// scripts returns the script with which each of the driver's pods starts the driver, and checks where its files are.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	manifests, err := efs.Driver.Operand(drivers.Values{Namespace: "ns", Image: func(env string) string { return env }})
	require.NoError(t, err)
	found := map[string]string{}
	for _, m := range slices.Concat(drivers.OfKind(manifests, "Deployment"), drivers.OfKind(manifests, "DaemonSet")) {
		workload := &appsv1.DaemonSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": map[string]any{"template": m.Object.Object["spec"].(map[string]any)["template"]}}, workload); err != nil {
			t.Fatal(err)
		}
		pod := workload.Spec.Template.Spec
		for _, c := range pod.Containers {
			at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "AWS_SHARED_CREDENTIALS_FILE" })
			if at < 0 {
				continue
			}
			found[m.Object.GetKind()] = c.Command[2]
			mount := slices.IndexFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == filepath.Dir(c.Env[at].Value) })
			volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == c.VolumeMounts[mount].Name })
			assert.NotNilf(t, pod.Volumes[volume].EmptyDir, "%s: the volume from which the SDK reads %s is none of the pod: %+v", m.Object.GetKind(), c.Env[at].Value, pod.Volumes[volume])
		}
	}
	require.Lenf(t, found, 2, "found %d containers with credentials, want 2", len(found))
	return found
}
