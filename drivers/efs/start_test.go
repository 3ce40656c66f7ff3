package efs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/efs"
)

// TestStart runs the command that starts the driver, with the test's files instead of the node's and the image's, and
// a program that prints its arguments instead of the driver.
func TestStart(t *testing.T) {
	const (
		fipsFile  = "/proc/sys/crypto/fips_enabled"
		openshift = "/usr/share/aws-efs-csi-driver/efs-static-files"
		upstream  = "/etc/amazon/efs-static-files"
	)
	arguments := []string{"--endpoint=unix:/csi/csi.sock", `--tags=a\ b:c\\:d e:f`}
	for _, tc := range []struct {
		name   string
		fips   string // content of the file, "" if there is none
		files  string // the directory that the image has
		env    string // of the pod
		driver string // its output
	}{
		{name: "off", fips: "0\n", driver: "false"},
		{name: "on", fips: "1\n", driver: "true"},
		{name: "unknown to the kernel", driver: "false"},
		{name: "off, whatever the pod says", fips: "0\n", env: "FIPS_ENABLED=true", driver: "false"},
		{name: "the image of OpenShift", fips: "1\n", files: openshift, driver: "true"},
		{name: "the image of the driver's authors", fips: "0\n", files: upstream, driver: "false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			place := func(path string) string { return filepath.Join(root, strings.ReplaceAll(path, "/", "_")) }
			program := "#!/bin/sh\nprintf '%s\\n' \"$FIPS_ENABLED\" \"$@\"\n"
			require.NoError(t, os.WriteFile(filepath.Join(root, "aws-efs-csi-driver"), []byte(program), 0o755))
			if tc.fips != "" {
				require.NoError(t, os.WriteFile(place(fipsFile), []byte(tc.fips), 0o644))
			}
			want := []string{tc.driver}
			if tc.files != "" {
				require.NoError(t, os.Mkdir(place(tc.files), 0o755))
				want = append(want, "--efs-utils-static-files-path="+place(tc.files))
			}
			command := startCommand(t)
			for i := range command {
				for _, path := range []string{fipsFile, openshift, upstream} {
					command[i] = strings.ReplaceAll(command[i], path, place(path))
				}
			}
			started := exec.Command(command[0], append(command[1:], arguments...)...)
			started.Env = []string{"PATH=" + root + ":" + os.Getenv("PATH"), tc.env}
			started.Stderr = os.Stderr
			out, err := started.Output()
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(append(want, arguments...), strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")), "the driver got (-want +got)")
		})
	}
}

// startCommand returns the command that starts the driver. It is the same in the controller and on the nodes.
func startCommand(t *testing.T) []string {
	t.Helper()
	all := manifests(t, efs.Driver, "ns")
	controller := convert[appsv1.Deployment](t, drivers.OfKind(all, "Deployment")[0]).Spec.Template
	node := convert[appsv1.DaemonSet](t, drivers.OfKind(all, "DaemonSet")[0]).Spec.Template
	command := func(pod corev1.PodTemplateSpec) []string { return pod.Spec.Containers[0].Command }
	assert.Empty(t, cmp.Diff(command(controller), command(node)), "the driver's command (-controller +node)")
	return command(node)
}
