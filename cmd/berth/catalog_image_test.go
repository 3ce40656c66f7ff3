package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// pushed pushes the image of a catalog or a bundle and returns its reference.
func pushed(t *testing.T, address, kind, folder string) string {
	t.Helper()
	reference := address + "/harbour/" + filepath.Base(filepath.Dir(folder)) + "-" + filepath.Base(folder) + ":v1"
	output(t, exec.Command("berth", kind, "image", folder, "--push", reference))
	return reference
}

// TestCatalogsOfImages: each command that takes the folder of a catalog takes its image, and prints the same, but for how the
// catalog is called.
func TestCatalogsOfImages(t *testing.T) {
	address := registry.Start(t, nil)
	certified, community := filepath.Join(root, "catalog", "certified"), filepath.Join(root, "catalog", "community")
	ofCertified, ofCommunity := pushed(t, address, "catalog", certified), pushed(t, address, "catalog", community)
	for name, tc := range map[string]struct {
		args []string // CATALOG and OTHER are the catalogs
		exit int
	}{
		"validate":      {args: []string{"validate", "CATALOG"}},
		"validate json": {args: []string{"validate", "CATALOG", "-o", "json"}},
		"against":       {args: []string{"validate", "CATALOG", "--against", "OTHER", "-o", "sarif"}},
		"list":          {args: []string{"list", "bundles", "CATALOG", "aws-efs-operator", "-o", "json"}},
		"list package":  {args: []string{"list", "bundles", "CATALOG", "aws-efs-operater"}, exit: exitFailed},
		"diff":          {args: []string{"diff", "OTHER", "CATALOG", "-o", "json"}, exit: exitFound},
		"graph":         {args: []string{"graph", "CATALOG", "-o", "html"}},
		"graph of all":  {args: []string{"graph", "CATALOG"}, exit: exitFailed},
		"plan":          {args: []string{"plan", "CATALOG", "aws-efs-operator@0.0.8"}},
		"plan v1":       {args: []string{"plan", "CATALOG", "aws-efs-operator@0.0.8", "--olm", "v1"}, exit: exitFound},
		"render":        {args: []string{"render", "CATALOG", "OTHER"}},
	} {
		t.Run(name, func(t *testing.T) {
			said := func(catalog, other string) string {
				args := []string{"catalog"}
				for _, arg := range tc.args {
					args = append(args, strings.NewReplacer("CATALOG", catalog, "OTHER", other).Replace(arg))
				}
				out, err := exec.Command("berth", args...).CombinedOutput()
				if code := exitCodeOf(t, err); code != tc.exit {
					t.Errorf("berth %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, tc.exit, out)
				}
				// Commands quote the name of an image, whose colon could mean something to a shell.
				return strings.NewReplacer("'"+catalog+"'", "CATALOG", catalog, "CATALOG", other, "OTHER").Replace(string(out))
			}
			want := said(certified, community)
			for _, prefix := range []string{"", "docker://"} {
				assert.Emptyf(t, cmp.Diff(want, said(prefix+ofCertified, prefix+ofCommunity)), "%s (-folders +images)", prefix)
			}
		})
	}
}

// exitCodeOf returns the exit code of a command that has ended.
func exitCodeOf(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return exitFine
	}
	ended, is := err.(*exec.ExitError)
	require.True(t, is, err)
	return ended.ExitCode()
}

// TestRenderImages: berth renders images of catalogs and bundles as opm does.
func TestRenderImages(t *testing.T) {
	address := registry.Start(t, nil)
	catalog := pushed(t, address, "catalog", filepath.Join(root, "catalog", "certified"))
	bundle := pushed(t, address, "bundle", filepath.Join(root, "bundle", "aws-efs-operator", "1.0.0"))
	for name, args := range map[string][]string{"catalog": {catalog}, "bundle": {bundle}, "both": {bundle, catalog}} {
		t.Run(name, func(t *testing.T) {
			byOPM := blobs(t, output(t, catalogs.OPMOfImages(t, append([]string{"render", "--use-http", "--output=json", "--migrate-level=bundle-object-to-csv-metadata"}, args...)...)))
			byBerth := blobs(t, output(t, exec.Command("berth", append([]string{"catalog", "render"}, args...)...)))
			assert.Empty(t, cmp.Diff(byOPM, byBerth), "what is rendered (-opm +berth)")
		})
	}
}

// TestFindingsOfImages: findings name files of an image by their paths in it, wherever its label says that they are, and a
// baseline is for the image that follows, too.
func TestFindingsOfImages(t *testing.T) {
	address := registry.Start(t, nil)
	const faulty = "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: fast\nentries: []\n"
	push := func(tag, label string, files map[string]string) string {
		content := oci.Content{Files: map[string][]byte{}, Labels: map[string]string{}}
		for name, text := range files {
			content.Files[name] = []byte(text)
		}
		if label != "" {
			content.Labels["operators.operatorframework.io.index.configs.v1"] = label
		}
		index, err := content.Index()
		require.NoError(t, err)
		reference := address + "/harbour/faulty:" + tag
		_, err = oci.Push(t.Context(), reference, index)
		require.NoError(t, err)
		return reference
	}
	for name, tc := range map[string]struct {
		label string
		files map[string]string
		want  string
	}{
		"label":        {"/configs", map[string]string{"configs/tide/catalog.yaml": faulty}, `^configs/tide/catalog\.yaml:3:1: error: `},
		"no label":     {"", map[string]string{"configs/tide/catalog.yaml": faulty}, `^configs/tide/catalog\.yaml:3:1: error: `},
		"other folder": {"/var/lib/../sea/", map[string]string{"var/sea/a.yaml": faulty, "configs/b.yaml": "none"}, `^var/sea/a\.yaml:3:1: error: `},
		"the root":     {"/..", map[string]string{"configs/a.yaml": faulty}, `^berth: cannot pull image .*: its label \S+ is "/\.\."; expected a folder of the catalog, such as /configs\n$`},
		"no catalog":   {"/configs", map[string]string{"database/index.db": "SQLite format 3"}, `^berth: image \S+ has no catalog: it has no files in /configs\n$`},
		"empty":        {"/configs", map[string]string{"configs/.indexignore": "*"}, `^berth: catalog folder configs holds no package; `},
		"a bundle":     {"", map[string]string{"manifests/a.yaml": "a: b"}, `^berth: image \S+ has no catalog: it has no files in /configs\n$`},
	} {
		t.Run(name, func(t *testing.T) {
			reference := push(strings.ReplaceAll(name, " ", "-"), tc.label, tc.files)
			out, err := exec.Command("berth", "catalog", "validate", reference).CombinedOutput()
			if err == nil || !regexp.MustCompile(tc.want).Match(out) {
				t.Errorf("validate: %v, want %s:\n%s", err, tc.want, out)
			}
			out, err = exec.Command("berth", "catalog", "list", "packages", reference).CombinedOutput()
			// It shows what it can of a catalog with faults, and fails only without a catalog.
			listed, hasCatalog := exitCodeOf(t, err) == exitFine, strings.Contains(tc.want, ": error: ")
			if listed != hasCatalog || regexp.MustCompile(`berth-catalog-`).Match(out) {
				t.Errorf("list: %v:\n%s", err, out)
			}
		})
	}
	bundle := pushed(t, address, "bundle", filepath.Join(root, "bundle", "aws-efs-operator", "1.0.0"))
	out, err := exec.Command("berth", "catalog", "graph", bundle).CombinedOutput()
	if want := `^berth: image \S+ is the image of a bundle; expected the image of a catalog, with the label \S+\n$`; exitCodeOf(t, err) != exitFailed || !regexp.MustCompile(want).Match(out) {
		t.Errorf("graph of a bundle: %v:\n%s", err, out)
	}

	index, err := oci.Content{Files: map[string][]byte{"hold/ballast": make([]byte, 65<<20)}, Labels: map[string]string{"operators.operatorframework.io.bundle.package.v1": "tide"}}.Index()
	require.NoError(t, err)
	heavy := address + "/harbour/heavy:v1"
	_, err = oci.Push(t.Context(), heavy, index)
	require.NoError(t, err)
	out, err = exec.Command("berth", "catalog", "render", heavy).CombinedOutput()
	if want := `^berth: cannot pull image \S+: its files take more than 67108864 bytes; expected a smaller image\n$`; exitCodeOf(t, err) != exitFailed || !regexp.MustCompile(want).Match(out) {
		t.Errorf("render of a bundle that is too large: %v:\n%s", err, out)
	}

	known := filepath.Join(t.TempDir(), "known.json")
	first := push("one", "/configs", map[string]string{"configs/tide/catalog.yaml": faulty})
	if out, err := exec.Command("sh", "-c", `berth catalog validate "$0" -o json > "$1"`, first, known).CombinedOutput(); exitCodeOf(t, err) != exitFound {
		t.Fatalf("%v\n%s", err, out)
	}
	second := push("two", "/configs", map[string]string{"configs/tide/catalog.yaml": "\n\n" + faulty})
	if out, err := exec.Command("berth", "catalog", "validate", second, "--baseline", known).CombinedOutput(); err != nil || !strings.Contains(string(out), "known from") {
		t.Errorf("with the baseline of the image before: %v\n%s", err, out)
	}
}
