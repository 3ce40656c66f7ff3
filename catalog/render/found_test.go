package render_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
)

// TestMalformedProperties: opm renders a bundle whose annotation olm.properties is not JSON, so that only warns.
func TestMalformedProperties(t *testing.T) {
	const tide = "../../bundle/rules/testdata/tide"
	files := map[string][]byte{}
	for _, folder := range []string{"manifests", "metadata"} {
		all, err := os.ReadDir(filepath.Join(tide, folder))
		require.NoError(t, err)
		for _, f := range all {
			text, err := os.ReadFile(filepath.Join(tide, folder, f.Name()))
			require.NoError(t, err)
			files[folder+"/"+f.Name()] = []byte(strings.Replace(string(text), "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{'\n", 1))
		}
	}
	b, err := render.Image("registry.example.com/tide:v1", files)
	require.NoError(t, err)
	if len(b.Found) != 1 || b.Found[0].Severity != findings.Warning || !strings.Contains(b.Found[0].Message, "OLM's tools leave them out") {
		t.Errorf("found %v, want one warning", b.Found)
	}
}
