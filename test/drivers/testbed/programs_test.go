package testbed

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers/azuredisk"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/lab/programs"
)

// TestPrograms: the output of a demonstration and of a suite names the driver, with the image that the administrator
// has set, the user's programs, and ours.
func TestPrograms(t *testing.T) {
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "livenessprobe"), content, 0o755))
	t.Setenv(programs.GivenVariable, folder)
	other := []corev1.EnvVar{{Name: "DRIVER_IMAGE", Value: azuredisk.Driver.Images[0].Default}, {Name: "LOG_LEVEL", Value: "4"}}
	for _, test := range []struct {
		env  []corev1.EnvVar
		want string
	}{
		{nil, `^driver: the real one, v[0-9.]+; csi-livenessprobe: the real one, sha256:[0-9a-f]{12}(; ours in place of .*)?$`},
		{other, `^driver: our stand-in; csi-livenessprobe: `},
	} {
		if said, err := Programs(ebs.Driver, test.env); err != nil || !regexp.MustCompile(test.want).MatchString(said) {
			t.Errorf("it says %q, %v; want %s", said, err, test.want)
		}
	}
}
