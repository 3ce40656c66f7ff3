package fbc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestRead reads a catalog of all kinds of documents.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "tide.yaml"), `schema: olm.bundle
package: tide
name: tide.v1.0.0
properties:
- {type: olm.package, value: {packageName: tide, version: 1.0.0}}
- {type: olm.csv.metadata, value: {displayName: Tide}}
- {type: olm.bundle.object, value: {data: eyJraW5kIjoiU2VydmljZSJ9}}
relatedImages:
- {name: tide, image: registry.example.com/tide:1}
---
schema: olm.channel
package: tide
name: stable
entries: [{name: tide.v1.0.0}]
---
schema: olm.package
name: tide
---
schema: olm.deprecations
package: tide
entries: [{reference: {schema: olm.package}, message: ebb}]
---
{schema: com.example.depth, package: tide, name: low}
`)
	catalogs.Write(t, filepath.Join(dir, "ebb.json"), `{"schema": "olm.package", "name": "ebb"}`)
	c, found, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, found)
	var got []string
	for _, p := range c.Packages {
		got = append(got, p.Name)
	}
	assert.Empty(t, cmp.Diff([]string{"ebb", "tide"}, got), "packages: -want +got")
	p := c.Find("tide")
	if p == nil || !p.Declared || p.Line != 16 || len(p.Channels) != 1 || len(p.Bundles) != 1 || len(p.Deprecations) != 1 || len(c.Others) != 1 {
		t.Fatalf("%+v", p)
	}
	b := p.FindBundle("tide.v1.0.0")
	if b != p.Bundles[0] || b.Line != 1 || b.Number().String() != "1.0.0" || len(b.RelatedImages) != 1 || len(b.Properties) != 3 ||
		b.Properties[1].Value != nil || b.Properties[2].Value != nil {
		t.Errorf("%+v", b)
	}
	if c := p.FindChannel("stable"); c != p.Channels[0] || c.Line != 11 || len(c.Entries) != 1 {
		t.Errorf("%+v", c)
	}
	if p.FindBundle("ebb") != nil || p.FindChannel("ebb") != nil || c.Find("flood") != nil {
		t.Error("it finds what is not there")
	}
	if other := c.Others[0]; other.Schema != "com.example.depth" || other.Name != "low" || other.Line != 23 {
		t.Errorf("%+v", other)
	}
}

// TestReadWhileItChanges: a file is added while others are read.
func TestReadWhileItChanges(t *testing.T) {
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "catalog.json"), `{"schema": "olm.package", "name": "tide"}`)
	_, _, err := fbc.ReadAndKeep(t.Context(), dir, func(document.Document) error {
		return os.WriteFile(filepath.Join(dir, "more.json"), nil, 0o600)
	})
	assert.ErrorContains(t, err, "changed while it was being read")
}

// TestReadRefusesPipes: files that may never end are not read.
func TestReadRefusesPipes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "catalog.json"), 0o600))
	if _, _, err := fbc.Read(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "catalog.json is not a regular file (prw-------)") {
		t.Errorf("got error %v", err)
	}
}

// TestReadHugeFile reads files of a gigabyte that are not catalogs. The fault is reported at their beginning.
func TestReadHugeFile(t *testing.T) {
	for _, test := range []struct{ name, begin, rule string }{
		{"catalog.json", `{"schema": "olm.package", "name": "`, "syntax"},
		{"catalog.yaml", "schema: olm.package\nname: ", "document-size"},
	} {
		path := filepath.Join(t.TempDir(), test.name)
		catalogs.Write(t, path, test.begin)
		if err := os.Truncate(path, 1<<30); err != nil { // it is sparse, and takes no room
			t.Fatal(err)
		}
		_, found, err := fbc.Read(t.Context(), filepath.Dir(path))
		if err != nil || len(found) != 1 || found[0].Rule != test.rule || found[0].Line != 1 {
			t.Errorf("%s: got findings %v, error %v", test.name, found, err)
		}
	}
}

func TestReadFails(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := fbc.Read(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "holds no package") {
		t.Errorf("of an empty folder: got error %v", err)
	}
	catalogs.Write(t, filepath.Join(dir, "catalog.json"), `{"schema": "olm.package", "name": "tide"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := fbc.Read(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got error %v", err)
	}
	require.NoError(t, os.Symlink(".", filepath.Join(dir, "folder")))
	if _, _, err := fbc.Read(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "is a folder; expected a file") {
		t.Errorf("of a link to a folder: got error %v", err)
	}
}

// TestReadReportsSomeFaults: only some of very many faults of a document are reported, because locating each one means
// parsing the whole document.
func TestReadReportsSomeFaults(t *testing.T) {
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), "schema: olm.bundle\npackage: tide\nname: tide.v1.0.0\nproperties:\n"+
		strings.Repeat("- type: olm.bundle.object\n  value:\n    data: eA==\n", 5000))
	_, found, err := fbc.Read(t.Context(), dir)
	isLimit := func(f *findings.Finding) bool {
		return strings.HasPrefix(f.Message, "properties from number 51 on were not checked")
	}
	if err != nil || len(found) != document.MaxFaults+1 || !slices.ContainsFunc(found, isLimit) {
		t.Errorf("%d findings, error %v; want %d findings", len(found), err, document.MaxFaults+1)
	}
}

// TestManyFaults: the first faults are reported, the same ones each time, and the number of the others for each file.
func TestManyFaults(t *testing.T) {
	const most = 10_000
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "a.yaml"), strings.Repeat("---\n- a\n", most-1))
	catalogs.Write(t, filepath.Join(dir, "b.json"), strings.Repeat("{}\n", 3*most))
	catalogs.Write(t, filepath.Join(dir, "c.yaml"), "schema: olm.package\nname: tide\n---\nschema: none\n---\n{}\n")
	for range 2 {
		c, faults, err := fbc.Read(t.Context(), dir)
		require.NoError(t, err)
		if len(faults) != most+2 || len(c.Packages) != 1 || !c.Packages[0].Incomplete {
			t.Fatalf("%d findings, want %d; packages %v", len(faults), most+2, c.Packages)
		}
		for i, want := range []string{"b.json:1: ", fmt.Sprintf("b.json:2: from here on, faults in this file are not reported, %d in all; ", 3*most-1), "c.yaml:6: from here on, faults in this file are not reported, 1 in all; "} {
			assert.Contains(t, faults[most-1+i].Error(), want)
		}
	}
}

// TestManyKeys: a document with very many keys takes time in proportion to them.
func TestManyKeys(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"schema": "x"`)
	for i := range 100_000 {
		fmt.Fprintf(&text, `,"k%d":1`, i)
	}
	text.WriteString("}")
	began := time.Now()
	if _, ok := fbc.ScanMeta([]byte(text.String())); ok || time.Since(began) > 5*time.Second {
		t.Errorf("it is scanned to its end, in %s", time.Since(began))
	}
}
