package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/mirror/policy"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/schemas"
)

// TestMirrorFormats: standard output of catalog mirror is nothing but its report in each format, from a registry, from and to a folder, and
// in a dry run.
func TestMirrorFormats(t *testing.T) {
	address, dir := registry.Start(t, nil), t.TempDir()
	index, err := oci.Content{Files: map[string][]byte{"tide": []byte("ebb")}}.Index()
	require.NoError(t, err)
	digest, err := oci.Push(t.Context(), address+"/harbour/tide:v1", index)
	require.NoError(t, err)
	catalog, folder := filepath.Join(dir, "sea"), "oci:"+filepath.Join(dir, "carried")
	// The package that is needed is missing, so there is a warning beside the report.
	catalogs.Write(t, filepath.Join(catalog, "catalog.yaml"), fmt.Sprintf(`schema: olm.package
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
image: %[1]s/harbour/tide@%[2]s
properties:
- {type: olm.package, value: {packageName: tide, version: 1.0.0}}
- {type: olm.package.required, value: {packageName: moon, versionRange: ">=1.0.0"}}
relatedImages: [{name: tide, image: "%[1]s/harbour/tide@%[2]s"}]
`, address, digest))
	pushed(t, address, "catalog", catalog)
	image := address + "/harbour/" + filepath.Base(dir) + "-sea:v1"
	command, _, err := newCommand().Find([]string{"catalog", "mirror"})
	require.NoError(t, err)
	for _, tc := range []struct {
		name, from, to string
		dry            bool
	}{
		{"a dry run", catalog, address + "/empty", true},
		{"to a registry", catalog, address + "/mirror", false},
		{"again", catalog, address + "/mirror", false},
		{"from an image", image, address + "/other", false},
		{"to a folder", image, folder, false},
		{"from a folder", folder, address + "/carried", false},
	} {
		for _, format := range formatsOf(command) {
			t.Run(tc.name+"/"+format, func(t *testing.T) {
				args := []string{"catalog", "mirror", tc.from, tc.to, "--resources", filepath.Join(t.TempDir(), "resources"), "-o", format}
				if tc.dry {
					args = append(args, "--dry-run")
				}
				out := output(t, exec.Command("berth", args...))
				if err := readers[format]([]byte(out)); err != nil {
					t.Errorf("%v in\n%s", err, out)
				}
				if format == "text" {
					assert.NotContains(t, out, ".invalid", "want a name without the registry that there is not")
					if !strings.Contains(out, "tide") || strings.Contains(out, "moon") {
						t.Errorf("want package tide, and no warning about package moon, in\n%s", out)
					}
					return
				}
				var d mirror.Document
				require.NoError(t, boundedyaml.Unmarshal([]byte(out), &d))
				if format == "json" {
					if err := schemas.Check([]byte(out)); err != nil {
						t.Errorf("%v in\n%s", err, out)
					}
				}
				if d.Source != tc.from || d.Destination != tc.to || d.DryRun != tc.dry || len(d.Packages) != 1 || len(d.Images) != 1 || d.Catalog.Digest == "" {
					t.Errorf("want one package and one image of %s to %s, and the catalog's digest, in\n%s", tc.from, tc.to, out)
				}
				if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "moon") {
					t.Errorf("want a warning about package moon, got %q", d.Warnings)
				}
			})
		}
	}
}

// TestMirrorPolicy: --policy and --registries-d say which images may be copied, and where their signatures are.
func TestMirrorPolicy(t *testing.T) {
	address, dir := registry.Start(t, nil), t.TempDir()
	index, err := oci.Content{Files: map[string][]byte{"tide": []byte("ebb")}}.Index()
	require.NoError(t, err)
	digest, err := oci.Push(t.Context(), address+"/harbour/tide:v1", index)
	require.NoError(t, err)
	catalog, lookaside, registries := filepath.Join(dir, "sea"), filepath.Join(dir, "lookaside"), filepath.Join(dir, "registries.d")
	catalogs.Write(t, filepath.Join(catalog, "catalog.yaml"), fmt.Sprintf("schema: olm.package\nname: tide\ndefaultChannel: stable\n---\n"+
		"schema: olm.channel\npackage: tide\nname: stable\nentries: [{name: tide.v1.0.0}]\n---\n"+
		"schema: olm.bundle\npackage: tide\nname: tide.v1.0.0\nimage: %s/harbour/tide@%s\nproperties: [{type: olm.package, value: {packageName: tide, version: 1.0.0}}]\n", address, digest))
	signature := "harbour/tide@" + strings.Replace(digest, ":", "=", 1) + "/signature-1"
	catalogs.Write(t, filepath.Join(lookaside, signature), "a signature")
	catalogs.Write(t, filepath.Join(registries, "all.yaml"), "default-docker: {lookaside: \"file://"+lookaside+"\"}\n")
	pushed(t, address, "catalog", catalog)
	image := address + "/harbour/" + filepath.Base(dir) + "-sea:v1"

	for name, tc := range map[string]struct {
		from, policy string
		code         int
		says         string // on standard error
	}{
		"anything":             {catalog, `{"default": [{"type": "insecureAcceptAnything"}]}`, exitFine, ""},
		"nothing":              {catalog, `{"default": [{"type": "reject"}]}`, exitFailed, "entry 1 of default, reject"},
		"not the bundle":       {catalog, `{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"` + address + `/harbour/tide": [{"type": "reject"}]}}}`, exitFailed, "bundle tide.v1.0.0: "},
		"not the catalog":      {image, `{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"` + image + `": [{"type": "reject"}]}}}`, exitFailed, "cannot mirror " + image},
		"no signature":         {image, `{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "` + filepath.Join(dir, "no-key") + `"}]}`, exitFailed, "no-key"},
		"malformed":            {catalog, `{"default": [}`, exitFailed, "policy.json"},
		"an unknown kind":      {catalog, `{"default": [{"type": "trustMe"}]}`, exitFailed, "trustMe"},
		"an empty requirement": {catalog, `{"default": []}`, exitFailed, "default"},
		"no file":              {catalog, "", exitFailed, "policy.json"},
	} {
		t.Run(name, func(t *testing.T) {
			to, resources, file := address+"/"+strings.ReplaceAll(name, " ", "-"), filepath.Join(t.TempDir(), "resources"), filepath.Join(t.TempDir(), "policy.json")
			if tc.policy != "" {
				catalogs.Write(t, file, tc.policy)
			}
			var code int
			log := standardError(t, func() {
				code = run(context.Background(), []string{"catalog", "mirror", tc.from, to, "--resources", resources, "--policy", file, "--registries-d", registries})
			})
			assert.Equal(t, tc.code, code, log)
			assert.Contains(t, log, tc.says)
			copied, err := oci.Digests(t.Context(), to+"/sea:latest")
			assert.Equal(t, tc.code == exitFine, err == nil && len(copied) > 0, "whether the catalog was copied")
			if tc.code != exitFine {
				assert.NoDirExists(t, resources)
				return
			}
			signatures, err := filepath.Glob(filepath.Join(resources, policy.Folder, "*", "*", "*", "tide@*", "signature-1"))
			require.NoError(t, err)
			assert.Len(t, signatures, 1)
		})
	}
}
