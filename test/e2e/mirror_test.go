package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/release"
)

// TestMirrorObjects: an API server takes the objects that berth catalog mirror writes for clusters, without ignoring a field.
func TestMirrorObjects(t *testing.T) {
	t.Parallel()
	made := release.Build(t, efs(t))
	from, dir := registry.Start(t, nil)+"/example/tide-bundle", t.TempDir()
	digest := catalogs.PushBundle(t, made.Bundles[0], "tide", from+":v1.0.0")
	catalogs.Write(t, filepath.Join(dir, "catalog", "catalog.yaml"), fmt.Sprintf(`schema: olm.package
name: tide
defaultChannel: stable
---
schema: olm.channel
package: tide
name: stable
entries: [{name: tide.v1.0.0}]
---
schema: olm.bundle
package: tide
name: tide.v1.0.0
image: %[1]s@%[2]s
properties: [{type: olm.package, value: {packageName: tide, version: 1.0.0}}]
relatedImages: [{name: by tag, image: "%[1]s:v1.0.0"}]
`, from, digest))
	mirror := exec.CommandContext(t.Context(), made.Berth, "catalog", "mirror", "catalog", registry.Start(t, nil)+"/mirror")
	mirror.Dir = dir
	out, err := mirror.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)

	c := cluster.Start(t, cluster.Options{})
	for _, set := range []crds.Set{crds.OLM, crds.OLMv1, crds.Mirrors} {
		require.NoError(t, set.Create(t.Context(), c.Client()))
	}
	for file, object := range map[string]string{
		"imagedigestmirrorset": "imagedigestmirrorset.config.openshift.io/catalog",
		"imagetagmirrorset":    "imagetagmirrorset.config.openshift.io/catalog",
		"catalogsource":        "catalogsource.operators.coreos.com/catalog",
		"clustercatalog":       "clustercatalog.olm.operatorframework.io/catalog",
	} {
		cluster.Eventually(t, limit, "the API server to take the "+file, func(ctx context.Context) error {
			out, err := c.Kubectl(ctx, "apply", "--validate=strict", "-f", filepath.Join(dir, "mirror", file+".yaml")).CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), object+" ") {
				return fmt.Errorf("%v: %s", err, out)
			}
			return nil
		})
	}
	root, err := tools.Root()
	require.NoError(t, err)
	r := &page.Reader{Docs: filepath.Join(root, "docs"), Kubectl: c.Tools().Path("kubectl"), Kubeconfig: c.Kubeconfig(), Limit: limit, Dir: dir}
	r.Follow(t, "catalog/disconnected.md", "## From registry to registry", 2)
}
