package graph

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/test/browser"
)

// open writes the page of a catalog and opens it. Package browser fails the test if the page has an error or loads
// anything.
func open(t *testing.T, c *fbc.Catalog, width, height int) *browser.Page {
	t.Helper()
	var packages []*Package
	for _, p := range c.Packages {
		packages = append(packages, Of(p))
	}
	path := filepath.Join(t.TempDir(), "page.html")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := WritePage(file, packages); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	page := browser.Open(t, width, height)
	page.Load(path)
	return page
}

// expect compares the value of an expression in the page.
func expect[T any](t *testing.T, page *browser.Page, expression string, want T) {
	t.Helper()
	var got T
	page.Eval(expression, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", expression, diff)
	}
}

const (
	visible  = `[...document.querySelectorAll("#drawing .node:not(.faint)")].map(n => n.dataset.name)`
	headings = `[...document.querySelectorAll("#details h3")].map(h => h.textContent)`
	items    = `[...document.querySelectorAll("#details h3")].find(h => h.textContent === %q).nextElementSibling.innerText.trim()`
)

// TestPage uses the page as people do, on a screen and on a phone.
func TestPage(t *testing.T) {
	c := load(t)
	for name, size := range map[string][2]int{"screen": {1280, 800}, "telephone": {400, 800}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := open(t, c, size[0], size[1])
			expect(t, page, `document.title`, "Updates of 2 packages")
			expect(t, page, `document.documentElement.scrollWidth <= innerWidth`, true)
			expect(t, page, `document.getElementById("details").hidden`, true)
			expect(t, page, `document.querySelector("#drawing .notice").textContent`, "Deprecated: Use atoll.")
			expect(t, page, `[...document.querySelectorAll(".channel")].map(c => c.dataset.channel)`, []string{"stable", "<b>old</b>", "fast"})

			// A version whose manifests the catalog does not have, with a hostile deprecation message.
			page.Click(`.node[data-name="reef.v1.0.0"]`)
			expect(t, page, `document.getElementById("details").hidden`, false)
			expect(t, page, `document.querySelector("#details .notice").textContent`, `Deprecated: It </script><script>document.title='broken'</script> "leaks".`)
			expect(t, page, `document.querySelectorAll("#details .notice")[1].textContent`, "The catalog does not describe this version; its image does.")
			expect(t, page, fmt.Sprintf(items, "Description"), `Keeps the *waves* out. <img src=x onerror="document.title='broken'">`)
			expect(t, page, fmt.Sprintf(items, "Updates from"), "reef.v0.9.0 in stable (replaces)")
			expect(t, page, fmt.Sprintf(items, "Updates to"), "reef.v1.1.1 in stable (replaces)\nreef.v1.1.0 in stable (replaces, never taken by OLM)\n"+
				"reef.v1.1.0 in <b>old</b> (skips, never taken by OLM)")
			expect(t, page, `document.getElementById("never").hidden`, false)
			page.Click(`#details button.to`)
			expect(t, page, `document.querySelector("#details h2").textContent`, "reef.v0.9.0")
			if size[0] < 600 {
				expect(t, page, `(r => [r.x, r.y, r.width, r.height])(document.getElementById("details").getBoundingClientRect())`, []int{0, 0, size[0], size[1]})
			}
			page.Click(`#close`)
			expect(t, page, `document.getElementById("details").hidden`, true)
			expect(t, page, `document.title`, "Updates of 2 packages")

			// The search.
			page.Click(`#search`)
			page.Type("1.2")
			expect(t, page, visible, []string{"reef.v1.2.0", "reef.v1.2.0"})
			page.Type("9")
			expect(t, page, visible, []string{})
			expect(t, page, `document.getElementById("none").hidden`, false)
			page.Eval(`(s => { s.value = ""; s.oninput() })(document.getElementById("search"))`, nil)
			page.Click(`#search`)
			page.Type("fast")
			expect(t, page, visible, []string{"reef.v2.1.0-rc.1+20260101120000", "reef.v2.0.0"})
			page.Eval(`(s => { s.value = ""; s.oninput() })(document.getElementById("search"))`, nil)

			// Another package, whose manifests it has.
			page.Eval(`(s => { s.value = "tide"; s.dispatchEvent(new Event("change")) })(document.getElementById("package"))`, nil)
			expect(t, page, `document.getElementById("never").hidden`, true)
			page.Click(`.node[data-name="tide.v0.2.0"]`)
			expect(t, page, `document.querySelector("#details img").complete && document.querySelector("#details img").naturalWidth > 0`, true)
			expect(t, page, `document.querySelector("#details h2").textContent`, "Tide")
			expect(t, page, headings, []string{"Install modes", "APIs", "Permissions in the cluster", "Images", "Description", "Updates from"})
			expect(t, page, fmt.Sprintf(items, "Install modes"), "OwnNamespace\nAllNamespaces")
			expect(t, page, fmt.Sprintf(items, "Permissions in the cluster"), "tides of sea.example.com: get, list, watch")
			expect(t, page, `document.documentElement.scrollWidth <= innerWidth`, true)

			// Without a mouse.
			page.Eval(`dispatchEvent(new Event("x")), document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}))`, nil)
			expect(t, page, `document.getElementById("details").hidden`, true)
			page.Eval(`(n => { n.focus(); n.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"})) })(document.querySelector(".node"))`, nil)
			expect(t, page, `document.getElementById("details").hidden`, false)
		})
	}
}

// TestPageOfReleases opens the catalogs that this repository releases, and every version in them.
func TestPageOfReleases(t *testing.T) {
	dirs, err := filepath.Glob("../certified")
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		c, err := rules.Load(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		page := open(t, c, 1280, 800)
		for _, p := range c.Packages {
			page.Eval(fmt.Sprintf(`show(%q)`, p.Name), nil)
			for _, b := range p.Bundles {
				page.Click(fmt.Sprintf(`.node[data-name=%q]`, b.Name))
				expect(t, page, `document.querySelector("#details .top p:last-child").textContent`, b.Name)
				expect(t, page, `document.querySelector("#details img").naturalWidth > 0`, true)
			}
		}
	}
}
