package certification

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
)

// wantCapabilities are the capabilities of each driver, in addition to all drivers'.
var wantCapabilities = map[string]string{
	"azuredisk": "block fsGroup snapshotDataSource pvcDataSource controllerExpansion nodeExpansion offlineExpansion onlineExpansion topology seLinuxMount",
	"azurefile": "fsGroup volumeMountGroup snapshotDataSource pvcDataSource RWX controllerExpansion offlineExpansion onlineExpansion",
	"cinder":    "block fsGroup snapshotDataSource pvcDataSource controllerExpansion nodeExpansion offlineExpansion onlineExpansion seLinuxMount",
	"ebs":       "block fsGroup snapshotDataSource pvcDataSource controllerExpansion nodeExpansion offlineExpansion onlineExpansion topology seLinuxMount",
	"efs":       "RWX",
	"gcppd":     "block fsGroup snapshotDataSource pvcDataSource controllerExpansion nodeExpansion offlineExpansion onlineExpansion topology seLinuxMount",
	"manila":    "snapshotDataSource RWX controllerExpansion offlineExpansion onlineExpansion",
	"vsphere":   "block fsGroup snapshotDataSource controllerExpansion nodeExpansion offlineExpansion onlineExpansion seLinuxMount",
}

func TestCapabilities(t *testing.T) {
	for _, d := range registry.All() {
		has, err := Capabilities(d)
		require.NoError(t, err)
		want := append(strings.Fields(wantCapabilities[d.Name]), "persistence", "exec", "multipods", "readWriteOncePod", "multiplePVsSameID")
		var got []string
		for name, value := range has {
			if value {
				got = append(got, name)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		assert.Emptyf(t, cmp.Diff(want, got), "%s (-want +got)", d.Name)
	}
}

func TestIncompleteDefinition(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*drivers.Driver)
		want   string
	}{
		{"no class", func(d *drivers.Driver) { d.Certification.Class = "" }, "has no Certification.Class"},
		{"unknown class", func(d *drivers.Driver) { d.Certification.Class = "gp9" }, "no asset with StorageClass gp9, and no backend"},
		{"unknown snapshot class", func(d *drivers.Driver) { d.Certification.SnapshotClass = "polaroid" }, `0 assets with VolumeSnapshotClass "polaroid", want one`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := registry.Get("ebs")
			require.NoError(t, err)
			tc.change(&d)
			if _, err := Files([]drivers.Driver{d}); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "driver ebs") {
				t.Errorf("got the error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// placeholder matches a placeholder that job has left because it does not know it.
var placeholder = regexp.MustCompile(`@[A-Z_]+@`)

// TestManifests: the folder has what is generated for each driver, and nothing else. So the drivers' jobs differ only in what their
// definitions say.
func TestManifests(t *testing.T) {
	files, err := Files(registry.All())
	require.NoError(t, err)
	generated := map[string]string{}
	for _, file := range files {
		generated[file.Path] = fmt.Sprintf("executable: %t\n%s", file.Mode()&0o100 != 0, file.Data)
	}
	committed := map[string]string{}
	require.NoError(t, filepath.WalkDir("manifests", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		committed[strings.TrimPrefix(filepath.ToSlash(path), "manifests/")] = fmt.Sprintf("executable: %t\n%s", info.Mode()&0o100 != 0, content)
		return err
	}))
	assert.Empty(t, cmp.Diff(generated, committed), "run go generate ./deploy/certification (-generated +committed)")
}

func TestJobs(t *testing.T) {
	for _, d := range registry.All() {
		job := filepath.Join("manifests", d.Name, jobFile)
		if output, err := exec.Command("bash", "-n", job).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", job, err, output)
		}
		content, err := os.ReadFile(job)
		require.NoError(t, err)
		if left := placeholder.FindString(string(content)); left != "" {
			t.Errorf("%s: nobody replaces %s", job, left)
		}
	}
}
