package testbed

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/page"
)

// Follow runs the commands below a heading of a page of documentation, with other names: pairs of a text and what stands there
// instead. The operator's namespace is that of the testbed, and oc is kubectl.
func (b *Testbed) Follow(t testing.TB, path, heading string, names ...string) {
	t.Helper()
	names = append(names, drivers.ClusterStorageNamespace, cluster.OperatorNamespace)
	oc := t.TempDir()
	if err := os.Symlink(b.Tools().Path("kubectl"), filepath.Join(oc, "oc")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", page.Commands(t, path, heading, strings.NewReplacer(names...)))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig(), "PATH="+oc+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	t.Logf("%s:\n%s", heading, output)
	if err != nil {
		t.Fatal(err)
	}
}
