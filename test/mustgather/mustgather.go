// Package mustgather runs the script that collects support data, and looks at its output.
package mustgather

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Run runs the script on a cluster, and returns its folder and its output.
func Run(t testing.TB, c *cluster.Cluster, drivers ...string) (folder, output string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "must-gather")
	command := Command(t, Kubeconfig(t, c), append([]string{folder}, drivers...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err)
	require.Zerof(t, stderr.Len(), "gather:\n%s%s", out, stderr.Bytes())
	return folder, string(out)
}

// Kubeconfig writes a kubeconfig of an account that may do anything, like the account of the pod where `oc adm
// must-gather` runs a script. It has a token, which the operator accepts, too.
func Kubeconfig(t testing.TB, c *cluster.Cluster) string {
	t.Helper()
	in := c.Namespace(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	c.WriteKubeconfig(t, in, "must-gather", path)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: in},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: in, Name: "must-gather"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	require.NoError(t, c.Client().Create(t.Context(), binding))
	t.Cleanup(func() {
		assert.NoError(t, c.Client().Delete(context.Background(), binding))
	})
	return path
}

// Command returns a command that runs the script with only kubectl and the programs of every Linux.
func Command(t testing.TB, kubeconfig string, args ...string) *exec.Cmd {
	t.Helper()
	root, err := tools.Root()
	require.NoError(t, err)
	built, err := tools.Ensure(t.Context(), nil)
	require.NoError(t, err)
	path := t.TempDir()
	programs := map[string]string{"kubectl": built.Path("kubectl")}
	for _, name := range []string{"awk", "bash", "cat", "cut", "du", "find", "head", "mkdir", "mktemp", "mv", "rm", "sed", "sort", "tail", "timeout", "tr", "wc"} {
		programs[name], err = exec.LookPath(name)
		require.NoError(t, err)
	}
	for name, program := range programs {
		require.NoError(t, os.Symlink(program, filepath.Join(path, name)))
	}
	command := exec.CommandContext(t.Context(), filepath.Join(root, "deploy", "must-gather", "gather"), args...)
	command.Env = []string{"PATH=" + path, "KUBECONFIG=" + kubeconfig, "KUBECACHEDIR=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	return command
}

// Files returns the content of all files of a folder, by their paths in it.
func Files(t testing.TB, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		files[path] = string(content)
		return err
	})
	require.NoError(t, err)
	return files
}

// Check checks that each file whose name matches a pattern contains the pattern's text.
func Check(t testing.TB, files, shown map[string]string) {
	t.Helper()
	for pattern, want := range shown {
		var found []string
		for name := range files {
			if ok, _ := filepath.Match(pattern, name); ok {
				found = append(found, name)
			}
		}
		assert.NotEmptyf(t, found, "there is no file %s", pattern)
		for _, name := range found {
			assert.Contains(t, "\n"+files[name], want, name)
		}
	}
}
