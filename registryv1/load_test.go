package registryv1

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
			"and metadata/ with a file that has the annotation operators.operatorframework.io.bundle.package.v1",
	}, {
		name:  "the folder above",
		files: map[string]string{"1.0.0/manifests/csv.yaml": csvManifest, "1.0.0/metadata/annotations.yaml": gadget},
		want:  "it has no folder manifests, but there is a bundle in DIR/1.0.0;",
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
		want:  "DIR/manifests/b.yaml:1: a second ClusterServiceVersion, beside that of DIR/manifests/a.yaml",
	}, {
		name:  "broken YAML",
		files: map[string]string{"manifests/a.yaml": csvManifest + "spec:\n\tbroken: x", "metadata/annotations.yaml": gadget},
		want:  "DIR/manifests/a.yaml:5:1: malformed YAML: found character that cannot start any token",
	}, {
		name:  "other metadata only",
		files: map[string]string{"manifests/a.yaml": csvManifest, "metadata/properties.yaml": "properties: []"},
		want:  "no file in its folder metadata has the annotation operators.operatorframework.io.bundle.package.v1",
	}, {
		name:  "an empty manifest",
		files: map[string]string{"manifests/a.yaml": csvManifest, "manifests/b.yaml": "# nothing\n", "metadata/annotations.yaml": gadget},
		want:  "DIR/manifests/b.yaml:1: the file holds no document; remove it",
	}, {
		name:  "two objects in a file",
		files: map[string]string{"manifests/a.yaml": csvManifest + "---\n" + crdManifest, "metadata/annotations.yaml": gadget},
		want:  "DIR/manifests/a.yaml:5: a second document begins here",
	}, {
		name:  "no object",
		files: map[string]string{"manifests/a.yaml": csvManifest, "manifests/b.yaml": "a: b\n", "metadata/annotations.yaml": gadget},
		want:  "DIR/manifests/b.yaml:1: expected a Kubernetes object",
	}, {
		name:  "a number among the annotations",
		files: map[string]string{"manifests/a.yaml": csvManifest, "metadata/annotations.yaml": gadget + "properties: 5\n"},
		want:  "DIR/metadata/annotations.yaml:2:1: field properties is a number; expected an array",
	}, {
		name:  "faults in both folders",
		files: map[string]string{"manifests/a.yaml": "a: b: c\n", "metadata/annotations.yaml": "{}\n"},
		want:  "malformed YAML: mapping values are not allowed in this context\nDIR is not a bundle folder: no file in its folder metadata",
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

func TestLoadImage(t *testing.T) {
	files := map[string][]byte{"manifests/csv.yaml": []byte(csvManifest), "metadata/a.yaml": []byte(gadget), "metadata/.hidden": []byte("{"), "tests/a.yaml": []byte("{")}
	c, err := LoadImage("registry.example.com/gadget:v1", files)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "gadget.v1.0.0" || c.Package != "gadget" || len(c.Files) != 2 || c.Metadata.File != "registry.example.com/gadget:v1/metadata/a.yaml" {
		t.Errorf("got %+v, want the bundle gadget.v1.0.0 of package gadget with two files", c)
	}
	delete(files, "metadata/a.yaml")
	_, err = LoadImage("registry.example.com/gadget:v1", files)
	if want := "registry.example.com/gadget:v1 is not a bundle image: it has no file in a folder metadata; expected"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestLoadRefusesLinks: otherwise the author of a bundle could have any file of this machine put into a catalog.
func TestLoadRefusesLinks(t *testing.T) {
	dir := folder(t, map[string]string{"manifests/csv.yaml": csvManifest, "metadata/annotations.yaml": gadget})
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "manifests", "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "link.yaml is a symbolic link to /etc/hostname, which is missing or outside") {
		t.Errorf("error %v, want one about the link", err)
	}
}
