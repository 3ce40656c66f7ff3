package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

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
