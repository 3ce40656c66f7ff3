package registryv1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
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
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	return dir
}

func TestLoad(t *testing.T) {
	b, err := Load(folder(t, map[string]string{
		"manifests/csv.yaml": csvManifest, "manifests/crd.yaml": crdManifest, "manifests/.hidden": "{", "metadata/annotations.yaml": gadget,
	}))
	require.NoError(t, err)
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
		name:  "broken YAML",
		files: map[string]string{"manifests/a.yaml": csvManifest + "spec:\n\tbroken: x", "metadata/annotations.yaml": gadget},
		want:  "DIR/manifests/a.yaml:5:1: malformed YAML: found character that cannot start any token",
	}, {
		name:  "other metadata only",
		files: map[string]string{"manifests/a.yaml": csvManifest, "metadata/properties.yaml": "properties: []"},
		want:  "no file in its folder metadata has the annotation operators.operatorframework.io.bundle.package.v1",
	}, {
		name:  "faults in both folders",
		files: map[string]string{"manifests/a.yaml": "a: b: c\n", "metadata/annotations.yaml": "{}\n"},
		want:  "malformed YAML: mapping values are not allowed in this context; OLM's tools leave the file out\nDIR is not a bundle folder: no file in its folder metadata",
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

// TestLoadWarns: the bundle is read without the parts that OLM's tools leave out.
func TestLoadWarns(t *testing.T) {
	for _, tc := range []struct{ name, file, content, want string }{
		{"two ClusterServiceVersions", "manifests/z.yaml", csvManifest, "DIR/manifests/z.yaml:1: a second ClusterServiceVersion, besides the one in DIR/manifests/csv.yaml"},
		{"an empty manifest", "manifests/z.yaml", "# nothing\n", "DIR/manifests/z.yaml:1: the file holds no document, so OLM leaves it out; remove it"},
		{"an empty document first", "manifests/z.yaml", "# nothing\n---\n" + crdManifest, "DIR/manifests/z.yaml:2:1: the first document is empty, and OLM reads only the first: remove line 2 (---)"},
		{"two objects in a file", "manifests/z.yaml", crdManifest + "---\n" + crdManifest, "DIR/manifests/z.yaml:5: a second document begins here"},
		{"no object", "manifests/z.yaml", "a: b\n", "DIR/manifests/z.yaml:1: expected a Kubernetes object"},
		{"a folder", "manifests/crds/z.yaml", crdManifest, "DIR/manifests/crds: a folder in manifests, which OLM leaves out"},
		{"broken YAML", "manifests/z.yaml", "a: b: c\n", "DIR/manifests/z.yaml:1:5: malformed YAML"},
		{"a number of properties", "metadata/z.yaml", "properties: 5\n", "DIR/metadata/z.yaml:1:1: field properties is a number; expected an array; OLM's tools read no properties from this file"},
		{"a text", "metadata/README", "hello\n", "DIR/metadata/README:1: OLM reads nothing from this file"},
		{"an annotation that is a list", "metadata/a.yaml", "annotations: {a: [b]}\n", "DIR/metadata/a.yaml:1:15: annotation a is no text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t, map[string]string{"manifests/csv.yaml": csvManifest, "metadata/annotations.yaml": gadget, tc.file: tc.content})
			b, err := Load(dir)
			require.NoError(t, err)
			if want := strings.ReplaceAll(tc.want, "DIR", dir); len(b.Found) != 1 || !strings.HasPrefix(b.Found[0].Error(), want) || b.Found[0].Severity != findings.Warning {
				t.Errorf("found %v, want a warning %s", b.Found, want)
			}
		})
	}
}

// TestLoadReadsScalars: scalars are converted to text like by opm.
func TestLoadReadsScalars(t *testing.T) {
	b, err := Load(folder(t, map[string]string{"manifests/csv.yaml": csvManifest, "metadata/annotations.yaml": "annotations:\n" +
		"  operators.operatorframework.io.bundle.package.v1: gadget\n  a: true\n  b: 1\n  c: 4.20\n  d: 2020-01-01\n  e: null\n  f: 18446744073709551615\n  g: yes\n  h: 1e3\n"}))
	require.NoError(t, err)
	want := map[string]string{"operators.operatorframework.io.bundle.package.v1": "gadget", "a": "true", "b": "1", "c": "4.2", "d": "2020-01-01", "e": "",
		"f": "18446744073709551615", "g": "true", "h": "1000"}
	if diff := cmp.Diff(want, b.Metadata.Annotations); diff != "" || len(b.Found) > 0 {
		t.Errorf("-want +got:\n%s\nfound %v", diff, b.Found)
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
	require.NoError(t, err)
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
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "manifests", "link.yaml")))
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "link.yaml is a symbolic link to /etc/hostname, which is missing or outside") {
		t.Errorf("error %v, want one about the link", err)
	}
}

// TestManyValues: a small image can have very many values, in as many files as it likes.
func TestManyValues(t *testing.T) {
	files := map[string][]byte{"manifests/csv.yaml": []byte(csvManifest), "metadata/annotations.yaml": []byte(gadget)}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		files["manifests/"+name+".yaml"] = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\nx: [" + strings.Repeat(",", 500_000) + "1]\n")
	}
	_, err := LoadImage("quay.io/example/gadget:v1", files)
	found, others := Faults(err)
	require.Empty(t, others)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, "those of the bundle have more than 2097152 places at which a value may begin")
	require.Contains(t, found[0].File, "manifests/e.yaml")
}

// TestLargeFolder: a repository of a few kilobytes can have gigabytes of files that compress well.
func TestLargeFolder(t *testing.T) {
	dir := folder(t, map[string]string{"manifests/a.yaml": "", "manifests/b.yaml": "", "metadata/annotations.yaml": gadget})
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.Truncate(filepath.Join(dir, "manifests", name+".yaml"), maxFolder/2+1))
	}
	_, err := Load(dir)
	require.ErrorContains(t, err, "with this file, its files have more than 33554432 bytes; expected fewer")
}
