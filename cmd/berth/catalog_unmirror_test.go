package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestUnmirrorWantsCatalog: without its catalog in the destination, nobody knows which images clusters need, so none is listed.
func TestUnmirrorWantsCatalog(t *testing.T) {
	dir, to := t.TempDir(), registry.Start(t, nil)+"/mirror"
	catalog, file := filepath.Join(dir, "sea"), filepath.Join(dir, "delete.yaml")
	catalogs.Write(t, filepath.Join(catalog, "catalog.yaml"), "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\n"+
		"schema: olm.channel\npackage: tide\nname: stable\nentries: [{name: tide.v1.0.0}]\n---\n"+
		"schema: olm.bundle\npackage: tide\nname: tide.v1.0.0\nimage: registry.example.com/tide:v1\nproperties: [{type: olm.package, value: {packageName: tide, version: 1.0.0}}]\n")
	catalogs.Write(t, file, "apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\ndelete: {operators: [{catalog: "+catalog+"}]}\n")
	code := 0
	log := standardError(t, func() { code = run(context.Background(), []string{"catalog", "unmirror", "--config", file, to}) })
	if want := "there is no catalog " + to + "/sea:latest"; code != exitFailed || !strings.Contains(log, want) {
		t.Errorf("exit code %d, %q; want %d and %q", code, log, exitFailed, want)
	}
}

// TestUnmirror: the list is deleted where the registry allows it, also after an interruption, unless the catalog has changed since.
func TestUnmirror(t *testing.T) {
	var allowed atomic.Int64 // deletions
	address := registry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete && allowed.Add(-1) < 0 {
				w.WriteHeader(http.StatusMethodNotAllowed)
				fmt.Fprint(w, `{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}`)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	dir, to := t.TempDir(), address+"/mirror"
	catalog, file, list := filepath.Join(dir, "sea"), filepath.Join(dir, "delete.yaml"), filepath.Join(dir, "list")
	images := map[string]string{}
	for _, version := range []string{"1", "2", "3"} {
		index, err := oci.Content{Files: map[string][]byte{"tide": []byte(version)}}.Index()
		require.NoError(t, err)
		digest, err := oci.Push(t.Context(), address+"/harbour/tide:v"+version, index)
		require.NoError(t, err)
		images[version] = address + "/harbour/tide@" + digest
	}
	write := func(versions ...string) {
		entries, bundles := "", ""
		for i, version := range versions {
			entries += "\n- {name: tide.v" + version
			if i > 0 {
				entries += ", replaces: tide.v" + versions[i-1]
			}
			entries += "}"
			bundles += "---\nschema: olm.bundle\npackage: tide\nname: tide.v" + version + "\nimage: " + images[version] +
				"\nproperties: [{type: olm.package, value: {packageName: tide, version: " + version + ".0.0}}]\n" +
				"relatedImages: [{name: tide, image: \"" + images[version] + "\"}]\n"
		}
		catalogs.Write(t, filepath.Join(catalog, "catalog.yaml"), "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\n"+
			"schema: olm.channel\npackage: tide\nname: stable\nentries:"+entries+"\n"+bundles)
	}
	berth := func(args ...string) (code int, out, log string) {
		var stdout, stderr strings.Builder
		command := exec.CommandContext(t.Context(), "berth", append([]string{"catalog"}, args...)...)
		command.Stdout, command.Stderr = &stdout, &stderr
		_ = command.Run()
		return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
	}
	mirrored := func() {
		code, _, log := berth("mirror", catalog, to, "--resources", filepath.Join(t.TempDir(), "resources"))
		require.Equal(t, exitFine, code, log)
	}
	has := func(version string) bool {
		found, err := oci.Find(t.Context(), to+"/"+strings.Replace(images[version], ":", "__", 1))
		require.NoError(t, err)
		return found != ""
	}
	catalogs.Write(t, file, "apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\ndelete: {operators: [{catalog: "+catalog+", full: true}]}\n")

	write("1", "2", "3")
	mirrored()
	write("3")
	mirrored()
	write("1", "2", "3") // what the list chooses from
	code, text, log := berth("unmirror", "--config", file, to)
	require.Equal(t, exitFine, code, log)
	catalogs.Write(t, list, text)

	empty := filepath.Join(t.TempDir(), "empty") // as a command that fails leaves it behind
	catalogs.Write(t, empty, "\n")
	code, _, log = berth("unmirror", "--confirm", empty, to)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, log, empty+" is empty; expected what `berth catalog unmirror --config FILE "+to+"` prints; nothing is deleted")

	code, _, log = berth("unmirror", "--confirm", list, to)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, log, "its registry does not allow deletion")
	allowed.Store(1)
	code, _, log = berth("unmirror", "--confirm", list, to)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, log, "1 of 2 images were deleted; run the same command to continue")
	assert.NotEqual(t, has("1"), has("2"), "one of both is deleted")

	allowed.Store(100)
	write("2", "3")
	mirrored()
	code, _, log = berth("unmirror", "--confirm", list, to)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, log, "had "+digestLine.FindString(text))
	assert.Contains(t, log, "nothing is deleted")
	assert.True(t, has("2"), "the catalog needs version 2 again")

	write("3")
	mirrored()
	code, out, log := berth("unmirror", "--confirm", list, to)
	assert.Equal(t, exitFine, code, log)
	assert.Equal(t, "deleted 2 images\n", out)
	assert.False(t, has("1") || has("2"))
	assert.True(t, has("3"))
}

// digestLine matches the digest that a list has for a catalog.
var digestLine = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
