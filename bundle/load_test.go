package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	csvManifest = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: gadget.v1.0.0}\n"
	crdManifest = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.com}\n"
	gadget      = "annotations: {operators.operatorframework.io.bundle.package.v1: gadget}\n"
)

// folder writes files, given by slash-separated path, to a folder of the test.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	b, err := Load(folder(t, map[string]string{
		"manifests/csv.yaml": csvManifest, "manifests/crd.yaml": crdManifest, "manifests/.hidden": "{", "metadata/annotations.yaml": gadget,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if b.Name != "gadget.v1.0.0" || b.Package != "gadget" || len(b.Files) != 3 {
		t.Errorf("got %+v, want the bundle gadget.v1.0.0 of package gadget with three files", b)
	}
}

func TestLoadExplains(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{{
		name:  "no bundle at all",
		files: map[string]string{"README.md": "hello"},
		want: "DIR is not a bundle folder: it has no folder manifests; expected manifests/ with exactly one ClusterServiceVersion, " +
			"and metadata/annotations.yaml with the package's name",
	}, {
		name:  "the folder above",
		files: map[string]string{"1.0.0/manifests/csv.yaml": csvManifest, "1.0.0/metadata/annotations.yaml": gadget},
		want:  "; there is a bundle in DIR/1.0.0",
	}, {
		name:  "no metadata",
		files: map[string]string{"manifests/csv.yaml": csvManifest},
		want:  "it has no folder metadata",
	}, {
		name:  "no ClusterServiceVersion",
		files: map[string]string{"manifests/crd.yaml": crdManifest, "metadata/annotations.yaml": gadget},
		want:  "DIR is not a bundle folder: it has no ClusterServiceVersion, only manifests/crd.yaml (CustomResourceDefinition); expected",
	}, {
		name:  "no manifests",
		files: map[string]string{"manifests/.keep": "", "metadata/annotations.yaml": gadget},
		want:  "its folder manifests is empty",
	}, {
		name:  "two ClusterServiceVersions",
		files: map[string]string{"manifests/a.yaml": csvManifest, "manifests/b.yaml": csvManifest, "metadata/annotations.yaml": gadget},
		want:  "it has 2 ClusterServiceVersions: manifests/a.yaml, manifests/b.yaml",
	}, {
		name:  "broken YAML",
		files: map[string]string{"manifests/a.yaml": csvManifest + "spec:\n\tbroken: x", "metadata/annotations.yaml": gadget},
		want:  "bundle folder DIR: manifests/a.yaml: error converting YAML to JSON: yaml: line 5: found character that cannot start any token",
	}, {
		name:  "other metadata only",
		files: map[string]string{"manifests/a.yaml": csvManifest, "metadata/properties.yaml": "properties: []"},
		want:  "it has no metadata/annotations.yaml",
	}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t, tc.files)
			_, err := Load(dir)
			if want := strings.ReplaceAll(tc.want, "DIR", dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

func TestLoadOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir+": no such file or directory") {
		t.Errorf("error %v, want one that says that %s does not exist", err, dir)
	}
}
