package cluster

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// A tenant of the test cluster has the permissions of OLM's own deployment.
func TestOLMRolesAreThoseOfOLM(t *testing.T) {
	const module = "github.com/operator-framework/operator-lifecycle-manager"
	pins, err := tools.ToolPins()
	require.NoError(t, err)
	version, err := pins.Version(module)
	require.NoError(t, err)
	folder, err := tools.ModuleFolder(t.Context(), module, version)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(folder, "deploy/chart/templates/0000_50_olm_09-aggregated.clusterrole.yaml"))
	require.NoError(t, err)
	var want []*rbacv1.ClusterRole
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content)); ; {
		role := &rbacv1.ClusterRole{}
		err := decoder.Decode(role)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		want = append(want, role)
	}
	assert.Emptyf(t, cmp.Diff(want, olmRoles()), "of OLM %s (-), here (+)", version)
}
