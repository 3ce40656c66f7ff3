package drivers_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
)

var update = flag.Bool("update", false, "update the golden files")

func TestOperatorDeployment(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, _ []drivers.Manifest) {
		deployment, err := yaml.Marshal(d.OperatorDeployment())
		require.NoError(t, err)
		compareWithGolden(t, filepath.Join(d.Name, "testdata", "deployment.yaml"), string(deployment))
	})
}

func compareWithGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Emptyf(t, cmp.Diff(string(want), got), "%s (-want +got), `go test ./drivers -update` updates it", file)
}

func TestOperatorRulesOfUnknownKind(t *testing.T) {
	d := drivers.Driver{Name: "tug", Assets: fstest.MapFS{
		"rope.yaml": {Data: []byte("apiVersion: harbour.example/v1\nkind: Rope\nmetadata:\n  name: long\n")},
	}}
	_, err := d.OperatorPolicyRules(permissions.Removable)
	want := "asset rope.yaml of driver tug: Rope long: the API resource of kind Rope.harbour.example is unknown"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
