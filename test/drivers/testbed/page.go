package testbed

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/page"
)

// Follow runs the commands below a heading of a page of documentation, with other names: pairs of a text and its
// replacement. The operator's namespace is the testbed's. It returns the output of the commands.
func (b *Testbed) Follow(t testing.TB, path, heading string, names ...string) string {
	t.Helper()
	reader := page.Reader{
		Docs: filepath.Dir(path), Kubectl: b.Tools().Path("kubectl"), Kubeconfig: b.Kubeconfig(), Limit: 2 * Limit, Dir: t.TempDir(),
		Variables: "NS=" + cluster.OperatorNamespace,
		Names:     strings.NewReplacer(append(names, drivers.ClusterStorageNamespace, cluster.OperatorNamespace)...),
	}
	return reader.Follow(t, filepath.Base(path), heading)
}
