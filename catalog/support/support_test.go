package support

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/test/browser"
	"github.com/berth-csi/berth/test/catalogs"
)

var update = flag.Bool("update", false, "write the golden files")

// documents is a catalog with a package that has a lifecycle, one whose texts are hostile, and one without any.
const documents = `schema: olm.package
name: tide
defaultChannel: stable
---
schema: olm.channel
package: tide
name: stable
entries: [{name: tide.v1.0.0}, {name: tide.v1.1.0, replaces: tide.v1.0.0}, {name: tide.v1.1.1, replaces: tide.v1.1.0}, {name: tide.v1.2.0, replaces: tide.v1.1.1}]
---
{schema: olm.bundle, package: tide, name: tide.v1.0.0, image: example.com/tide, properties: [{type: olm.package, value: {packageName: tide, version: 1.0.0}}]}
---
{schema: olm.bundle, package: tide, name: tide.v1.1.0, image: example.com/tide, properties: [{type: olm.package, value: {packageName: tide, version: 1.1.0}}]}
---
{schema: olm.bundle, package: tide, name: tide.v1.1.1, image: example.com/tide, properties: [{type: olm.package, value: {packageName: tide, version: 1.1.1}}]}
---
{schema: olm.bundle, package: tide, name: tide.v1.2.0, image: example.com/tide, properties: [{type: olm.package, value: {packageName: tide, version: 1.2.0}}]}
---
schema: io.openshift.operators.lifecycles.v1alpha1
package: tide
versions:
- name: "1.0"
  phases:
  - {name: Full support, startDate: "2023-01-15", endDate: "2023-12-31"}
- name: "1.1"
  phases:
  - {name: Full support, startDate: "2024-01-01", endDate: "2024-12-31"}
  - {name: Maintenance support, startDate: "2025-01-01", endDate: "2026-06-30"}
  platformCompatibility:
  - {name: openshift, versions: ["4.18", "4.19"]}
---
schema: olm.package
name: ebb
---
schema: olm.package
name: reef
---
schema: io.openshift.operators.lifecycles.v1alpha1
package: reef
versions:
- name: "<script>document.title='broken'</script>\u202e"
  phases:
  - {name: "\"><script>document.title='broken'</script>", startDate: "0001-01-01", endDate: "9999-12-31"}
  - {name: Never, startDate: "2024-01-01", endDate: never}
  platformCompatibility:
  - {name: "<b>", versions: ["4.18"]}
`

func read(t *testing.T, packages ...string) *Document {
	t.Helper()
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), documents)
	c, found, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, found)
	var of []*fbc.Package
	for _, name := range packages {
		of = append(of, c.Find(name))
	}
	d, err := Of(of, "2025-03-01")
	require.NoError(t, err)
	return d
}

// TestWrite compares the output with golden files.
func TestWrite(t *testing.T) {
	for _, format := range []string{"text", "json", "svg"} {
		var got strings.Builder
		require.NoError(t, read(t, "tide", "ebb").Write(&got, format))
		file := "testdata/tide." + strings.Replace(format, "text", "txt", 1)
		if *update {
			catalogs.Write(t, file, got.String())
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Emptyf(t, cmp.Diff(string(want), got.String()), "%s (-want +got)", format)
	}
}

// TestPage: the page is right, even for a hostile catalog, and loads nothing. Package browser fails the test if it does.
func TestPage(t *testing.T) {
	var text strings.Builder
	require.NoError(t, read(t, "tide", "reef").Write(&text, "html"))
	file := filepath.Join(t.TempDir(), "page.html")
	catalogs.Write(t, file, text.String())
	page := browser.Open(t, 1280, 800)
	page.Load(file)
	for expression, want := range map[string]string{
		`document.title`: "What is supported when",
		`[...document.querySelectorAll(".package")].map(e => e.textContent).join()`:                             "tide,reef",
		`[...document.querySelectorAll(".version > text:first-child")].map(e => e.firstChild.data).join()`:      `1.2,1.1,1.0,<script>document.…`,
		`[...document.querySelectorAll(".version.past > text:first-child")].map(e => e.firstChild.data).join()`: "1.0",
		`document.querySelectorAll(".bar").length.toString()`:                                                   "4",
		`document.querySelector(".bar title").textContent`:                                                      "1.1 Full support: 2024-01-01 to 2024-12-31",
		`document.querySelectorAll(".unknown").length.toString()`:                                               "1",
	} {
		var got string
		page.Eval(expression, &got)
		assert.EqualValues(t, want, got, expression)
	}
}

// TestYears: a drawing marks a few years, however long the time is.
func TestYears(t *testing.T) {
	for _, packages := range [][]string{{"tide"}, {"reef"}} {
		c := read(t, packages...).newChart()
		if n := len(c.years()); n < 2 || n > maxYears+2 {
			t.Errorf("of %s, %d years are marked, from %s to %s", packages, n, c.from, c.to)
		}
	}
}
