// Package catalogs is for tests of catalogs: it has the real opm, which they compare with, and makes bundles and catalogs of
// any size.
package catalogs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// OPM returns the path of the real opm.
func OPM(t testing.TB) string {
	t.Helper()
	path, err := tools.OPM(t.Context(), nil)
	require.NoError(t, err)
	return path
}

// OPMOfImages returns a command of the real opm that pulls images, with the policy that it needs to do that.
func OPMOfImages(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	Write(t, filepath.Join(home, ".config", "containers", "policy.json"), `{"default": [{"type": "insecureAcceptAnything"}]}`)
	cmd := exec.CommandContext(t.Context(), OPM(t), args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+t.TempDir()) // opm leaves a folder there for each image
	return cmd
}

// Write writes a file and creates its folder.
func Write(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// Tree lists all files and folders below a folder, in order.
func Tree(t testing.TB, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		below, err := filepath.Rel(dir, path)
		paths = append(paths, below)
		return err
	})
	require.NoError(t, err)
	return paths
}

// Bundle returns a bundle whose name is PACKAGE.vVERSION.
func Bundle(pkg, name string) declcfg.Bundle {
	version := strings.TrimPrefix(name, pkg+".v")
	return declcfg.Bundle{
		Schema:     declcfg.SchemaBundle,
		Package:    pkg,
		Name:       name,
		Image:      "registry.example.com/" + pkg + "-bundle:" + version,
		Properties: []property.Property{property.MustBuildPackage(pkg, version)},
	}
}

// WriteConfig writes a catalog into a folder.
func WriteConfig(t testing.TB, dir string, config declcfg.DeclarativeConfig) {
	t.Helper()
	require.NoError(t, declcfg.WriteFS(config, dir, declcfg.WriteJSON, ".json"))
}
