package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/catalogs"
)

// writeKinds writes a file or a folder of each kind that somebody could give to a command, into the working directory.
func writeKinds(t *testing.T) {
	t.Helper()
	catalogs.WriteBundle(t, "bundle", "tide", "1.0.0", "")
	catalogs.WriteBundle(t, "bundles/1.0.0", "tide", "1.0.0", "")
	catalogs.WriteBundle(t, "repository/operators/tide/1.0.0", "tide", "1.0.0", "")
	catalogs.Write(t, "catalog/tide/catalog.yaml", "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\nentries:\n- name: tide.v1\n---\n"+
		"schema: olm.bundle\npackage: tide\nname: tide.v1\nimage: quay.io/example/tide:v1\nproperties:\n- type: olm.package\n  value: {packageName: tide, version: 1.0.0}\n")
	catalogs.Write(t, "template.yaml", "schema: olm.semver\nstable:\n  bundles:\n  - image: quay.io/example/tide:v1\n")
	catalogs.Write(t, "template.json", `{"entries": [{"schema": "olm.package", "name": "tide"}], "schema": "olm.template.basic"}`)
	catalogs.Write(t, "chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 0.1.0\n")
	catalogs.Write(t, "chart/templates/service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Values.name }} }\n")
	catalogs.Write(t, "deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: tide}\n")
	catalogs.Write(t, "service.json", `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tide"}}`)
	catalogs.Write(t, "csv.yaml", "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: tide.v1.0.0}\n")
	catalogs.Write(t, "manifests/deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: tide}\n")
	catalogs.Write(t, "imageset.yaml", "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\n")
	catalogs.Write(t, "index.db", "SQLite format 3\x00")
	catalogs.Write(t, "tide.pdf", "%PDF-1.4\n%\xe2\xe3\n1 0 obj\n")
	catalogs.Write(t, "tide.csv", "name,version\ntide,1.0.0\n")
	catalogs.Write(t, "tide.zip", "PK\x03\x04")
	catalogs.Write(t, "folders/a/notes", "")
	require.NoError(t, os.Mkdir("empty", 0o755))
	var archive, compressed bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "csv.yaml", Mode: 0o644, Format: tar.FormatUSTAR}))
	require.NoError(t, w.Close())
	catalogs.Write(t, "bundle.tar", archive.String())
	z := gzip.NewWriter(&compressed)
	_, err := z.Write(archive.Bytes())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	catalogs.Write(t, "bundle.tar.gz", compressed.String())
}

// TestMistakenInputs gives each command that reads files each kind that it does not take. The error says what that is and what the command
// wants, and names the command for it if there is one.
func TestMistakenInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	writeKinds(t)
	const (
		catalog    = "a catalog"
		bundle     = "a bundle"
		either     = "a catalog or a bundle"
		content    = "a template, or folders of bundles"
		repository = "a repository of operators"
	)
	commands := []struct{ command, wants string }{
		{"catalog validate @", catalog},
		{"catalog validate catalog --against @", catalog},
		{"catalog list packages @", catalog},
		{"catalog diff catalog @", catalog},
		{"catalog graph @", catalog},
		{"catalog lifecycle @", catalog},
		{"catalog plan @ tide", catalog},
		{"catalog serve @ --address 127.0.0.1:0", catalog},
		{"catalog image @ --dockerfile", catalog},
		{"catalog mirror @ oci:mirrored --dry-run", catalog},
		{"catalog convert-template basic @", catalog},
		{"catalog render @", either},
		{"catalog build @ --output-dir built", content},
		{"bundle validate @", bundle},
		{"bundle permissions @", bundle},
		{"bundle bump @", bundle},
		{"bundle image @ --layout image", bundle},
		{"check @", repository},
	}
	for _, kind := range []struct {
		path, is string
		fits     []string
		names    map[string]string // a command or a folder, by what is wanted; "" for any
	}{
		{"bundle", "the folder of a bundle", []string{bundle, either, content}, map[string]string{catalog: "`berth catalog build bundle --output-dir DIR`", repository: "`berth bundle validate bundle`"}},
		{"bundle/manifests", "a part of the bundle bundle", nil, map[string]string{"": "`berth bundle validate bundle`"}},
		{"bundle/manifests/csv.yaml", "a part of the bundle bundle", nil, map[string]string{"": "`berth bundle validate bundle`"}},
		{"bundles", "a folder of bundles", nil, map[string]string{catalog: "`berth catalog build bundles/* --output-dir DIR`", content: "`berth catalog build bundles/* --output-dir DIR`",
			bundle: "such as bundles/1.0.0", "": "`berth bundle validate bundles/*`"}},
		{"catalog", "a catalog", []string{catalog, either}, map[string]string{"": "`berth catalog validate catalog`"}},
		{"catalog/tide/catalog.yaml", "a catalog", []string{catalog, either}, map[string]string{"": "`berth catalog validate catalog/tide/catalog.yaml`"}},
		{"template.yaml", "a template", []string{content, either}, map[string]string{catalog: "`berth catalog build template.yaml --output-dir DIR`"}},
		{"template.json", "a template", []string{content, either}, map[string]string{catalog: "`berth catalog build template.json --output-dir DIR`"}},
		{"repository", "a repository of operators", []string{repository}, map[string]string{"": "`berth check repository`"}},
		{"imageset.yaml", "a file of oc-mirror", nil, map[string]string{"": "`berth catalog mirror --config imageset.yaml DESTINATION`"}},
		{"chart", "a Helm chart", nil, nil},
		{"chart/Chart.yaml", "a Helm chart", nil, nil},
		{"deployment.yaml", "a Kubernetes manifest of kind Deployment", nil, nil},
		{"service.json", "a Kubernetes manifest of kind Service", nil, nil},
		{"csv.yaml", "a Kubernetes manifest of kind ClusterServiceVersion", nil, map[string]string{"": "it belongs in the folder manifests/ of a bundle"}},
		{"manifests", "a folder with a Kubernetes manifest of kind Deployment", nil, nil},
		{"bundle.tar", "a tar archive", nil, map[string]string{"": "unpack it"}},
		{"bundle.tar.gz", "a file that gzip compressed", nil, map[string]string{"": "unpack it"}},
		{"tide.zip", "a ZIP archive", nil, map[string]string{"": "unpack it"}},
		{"index.db", "a SQLite catalog, which opm no longer makes", nil, map[string]string{"": "`opm migrate index.db DIR`"}},
		{"tide.pdf", "a PDF document", nil, nil},
		{"tide.csv", "a table of comma-separated values", nil, nil},
		{"empty", "an empty folder", nil, nil},
	} {
		for _, c := range commands {
			if slices.Contains(kind.fits, c.wants) {
				continue
			}
			t.Run(c.command+" "+kind.path, func(t *testing.T) {
				_, said := streamsOf(strings.Fields(strings.ReplaceAll(c.command, "@", kind.path)))
				assert.Contains(t, said, kind.path+" is "+kind.is)
				if kind.path != "index.db" { // of which the SQLite catalog is said at once
					assert.Contains(t, said, "; want "+c.wants)
				}
				assert.Contains(t, said, kind.names[c.wants])
				assert.Contains(t, said, kind.names[""])
			})
		}
	}
}

// TestUnknownInputs: for what Berth cannot recognize, or what is not there, an error says what is wanted.
func TestUnknownInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	writeKinds(t)
	for command, want := range map[string]string{
		"catalog validate missing":                 "stat missing: no such file or directory; want the folder or the file of a catalog, or the image of one",
		"bundle validate missing":                  "stat missing: no such file or directory; want the folder of a bundle",
		"bundle validate folders/a/notes":          "folders/a/notes is a file; want a bundle: a folder with manifests/ and metadata/, or an image",
		"bundle validate folders":                  "folders is not a bundle folder: it has no folder manifests; expected manifests/ with exactly one ClusterServiceVersion",
		"catalog validate folders":                 "catalog folder folders holds no package; expected YAML or JSON files with olm.package, olm.channel and olm.bundle documents",
		"check folders/a/notes":                    "folders/a/notes is a file; want a repository of operators: a folder with operators/NAME/VERSION",
		"catalog validate quay.io/example/catalog": `image "quay.io/example/catalog" has neither a tag nor a digest: want one of them, such as quay.io/example/catalog:v1.0.0`,
		"bundle validate quay.io/example/tide":     `image "quay.io/example/tide" has neither a tag nor a digest: want one of them, such as quay.io/example/tide:v1.0.0`,
		"catalog valdate catalog":                  `unknown command "valdate" for "berth catalog"; did you mean validate?`,
		"bundel validate bundle":                   `unknown command "bundel" for "berth"; did you mean bundle?`,
	} {
		t.Run(command, func(t *testing.T) {
			_, said := streamsOf(strings.Fields(command))
			assert.Contains(t, said, want)
		})
	}
}
