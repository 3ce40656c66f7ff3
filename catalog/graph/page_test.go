package graph

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/test/browser"
)

// open writes a page and opens it. Package browser fails the test if the page has an error or loads anything.
func open(t *testing.T, p *Page, width, height int) *browser.Page {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, p.Write(file))
	require.NoError(t, file.Close())
	page := browser.Open(t, width, height)
	page.Load(path)
	return page
}

// expect compares the value of an expression in the page.
func expect[T any](t *testing.T, page *browser.Page, expression string, want T) {
	t.Helper()
	var got T
	page.Eval(expression, &got)
	assert.Emptyf(t, cmp.Diff(want, got), "%s (-want +got)", expression)
}

const (
	rows     = `[...document.querySelectorAll("tbody tr")].map(r => [...r.children].map(c => c.innerText.replace(/\s+/g, " ")).join(" | "))`
	found    = `[...document.querySelectorAll("#matches li")].map(li => li.innerText.replace("\n", ": "))`
	visible  = `[...document.querySelectorAll("#drawing .node:not(.faint)")].map(n => n.dataset.name)`
	legend   = `[...document.querySelectorAll("#drawing .legend")].map(e => e.textContent)`
	headings = `[...document.querySelectorAll("#details h3")].map(h => h.textContent)`
	items    = `[...document.querySelectorAll("#details h3")].find(h => h.textContent === %q).nextElementSibling.innerText.trim()`
	fits     = `document.documentElement.scrollWidth <= innerWidth && document.getElementById("overview").scrollWidth <= innerWidth`
	focused  = `document.activeElement.id || document.activeElement.textContent`
)

// sizes are the widths and heights of a computer screen and a phone, in pixels.
var sizes = map[string][2]int{"screen": {1280, 800}, "telephone": {400, 800}}

// TestPage uses the page as people do.
func TestPage(t *testing.T) {
	c := load(t)
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := open(t, &Page{Packages: Of(c.Packages...)}, size[0], size[1])
			expect(t, page, `document.title`, "Updates of 2 packages")
			page.Click(`tbody th a`)
			expect(t, page, `document.title`, "Updates of reef")
			expect(t, page, `document.documentElement.scrollWidth <= innerWidth`, true)
			expect(t, page, `document.getElementById("details").hidden`, true)
			expect(t, page, `document.querySelector("#drawing .notice").textContent`, "Deprecated: Use atoll.")
			expect(t, page, `document.querySelector("#drawing svg > title").textContent`, "Updates of reef")
			expect(t, page, `[...document.querySelectorAll(".channel")].map(c => c.dataset.channel)`, []string{"stable", "fast", "<b>old</b>"})
			expect(t, page, legend, []string{"replaces", "skips", "skipRange", "OLM never takes this edge", "head", "deprecated", "not in the channel", "stranded: no update leads to the head"})

			// A version whose manifests the catalog does not have, with a hostile deprecation message.
			page.Click(`.node[data-name="reef.v1.0.0"]`)
			expect(t, page, `document.getElementById("details").hidden`, false)
			expect(t, page, `document.querySelector("#details .notice").textContent`, `Deprecated: It </script><script>document.title='broken'</script> "leaks".`)
			expect(t, page, `document.querySelectorAll("#details .notice")[1].textContent`, "The catalog does not describe this version; its image does.")
			expect(t, page, fmt.Sprintf(items, "Description"), `Keeps the *waves* out. <img src=x onerror="document.title='broken'">`)
			expect(t, page, fmt.Sprintf(items, "Updates from"), "reef.v0.9.0 in stable (replaces)")
			expect(t, page, fmt.Sprintf(items, "Updates to"), "reef.v1.1.1 in stable (replaces)\nreef.v1.1.0 in stable (replaces, never taken by OLM)\n"+
				"reef.v1.1.0 in <b>old</b> (skips, never taken by OLM)")
			// Choosing a version again shows the same details.
			page.Eval(`choose("reef.v1.0.0")`, nil)
			expect(t, page, `[...document.querySelectorAll("#details dt")].map(e => e.textContent)`, []string{"Bundle"})
			page.Click(`#details button.to`)
			expect(t, page, `document.querySelector("#details h2").textContent`, "reef.v0.9.0")
			if size[0] < 600 {
				expect(t, page, `(r => [r.x, r.y, r.width, r.height])(document.getElementById("details").getBoundingClientRect())`, []int{0, 0, size[0], size[1]})
			}
			page.Click(`#close`)
			expect(t, page, `document.getElementById("details").hidden`, true)
			expect(t, page, `document.title`, "Updates of reef")

			// The search hides versions that do not match.
			page.Click(`#search`)
			page.Type("1.2")
			expect(t, page, visible, []string{"reef.v1.2.0", "reef.v1.2.0"})
			page.Type("9")
			expect(t, page, visible, []string{})
			expect(t, page, `document.getElementById("count").textContent`, "Nothing matches.")
			page.Eval(`(s => { s.value = ""; s.oninput() })(document.getElementById("search"))`, nil)
			page.Type("fast")
			expect(t, page, visible, []string{"reef.v2.1.0-rc.1+20260101120000", "reef.v2.0.0"})
			page.Eval(`(s => { s.value = ""; s.oninput() })(document.getElementById("search"))`, nil)

			// Another package, whose manifests it has.
			page.Click(`#all`)
			page.Click(`tbody tr:nth-child(2) td:nth-child(3)`)
			expect(t, page, legend, []string{"replaces", "skips", "head", "not in the channel"})
			page.Click(`.node[data-name="tide.v0.2.0"]`)
			expect(t, page, `document.querySelector("#details img").complete && document.querySelector("#details img").naturalWidth > 0`, true)
			expect(t, page, `document.querySelector("#details h2").textContent`, "Tide")
			expect(t, page, headings, []string{"Install modes", "APIs", "Permissions in the cluster", "Images", "Description", "Updates from"})
			expect(t, page, fmt.Sprintf(items, "Install modes"), "OwnNamespace\nAllNamespaces")
			expect(t, page, fmt.Sprintf(items, "Permissions in the cluster"), "tides of sea.example.com: get, list, watch")
			expect(t, page, `document.documentElement.scrollWidth <= innerWidth`, true)

			// Without a mouse.
			page.Press("Escape")
			expect(t, page, `document.getElementById("details").hidden`, true)
			page.Eval(`document.querySelector(".node").focus()`, nil)
			page.Press("Enter")
			expect(t, page, `document.getElementById("details").hidden`, false)
			page.Press("Escape")
			expect(t, page, `document.activeElement === document.querySelector(".node")`, true)
		})
	}
}

// TestOverview: the page begins with all packages and their faults.
func TestOverview(t *testing.T) {
	c := loadFaulty(t)
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := open(t, &Page{Packages: Of(c.Packages...), Undrawn: c.LeftOut, Faults: c.Faults}, size[0], size[1])
			expect(t, page, `document.title`, "Updates of 4 packages")
			expect(t, page, fits, true)
			expect(t, page, `document.querySelector("#overview .notice summary").textContent`, "1 fault in documents of no package")
			expect(t, page, rows, []string{
				"reef deprecated | fast 2.1.0-rc.1+20260101120000 stable 2.0.0 default <b>old</b> 1.2.0 | 6 | 2.0.0 | 1.0.0 | channel-path",
				"shoal | v1.10 2 heads v1.9 1.9.0 default <i>round</i>\\u202e a cycle | 5 | 1.9.0 | 1.1.0, 1.0.0 | channel-path, channel-head (2)",
				"tide | stable 0.2.0 default preview 0.2.0 | 2 | 0.2.0 | none | none",
				"wreck | none | 0 | none | none | package-channels",
			})

			// A stranded version of the table.
			page.Click(`tbody tr:nth-child(2) button.to`)
			expect(t, page, `document.querySelector("#details .top p:last-child").textContent`, "shoal.v1.1.0")
			page.Click(`#close`)
			expect(t, page, `document.querySelectorAll("#drawing .notice li").length`, 3)
			expect(t, page, `document.querySelector("#drawing .notice li").textContent.includes('no update leads from entries "shoal.v1.0.0", "shoal.v1.1.0"')`, true)
			expect(t, page, `[...document.querySelectorAll("#drawing .notice li")].at(-1).textContent.includes('channel "<i>round</i>')`, true)
			expect(t, page, legend, []string{"skips", "OLM never takes this edge", "head", "stranded: no update leads to the head", "OLM resolves nothing from the channel"})

			// A package that cannot be drawn.
			page.Click(`#all`)
			expect(t, page, focused, "shoal")
			page.Click(`tbody tr:nth-child(4) a`)
			expect(t, page, `[...document.querySelectorAll("#drawing .notice")].at(-1).textContent`, "It is too faulty to draw.")

			// The browser's own ways.
			page.Eval(`new Promise(done => { addEventListener("hashchange", () => done(), { once: true }); history.back() })`, nil)
			expect(t, page, `document.title`, "Updates of 4 packages")
			page.Eval(`new Promise(done => { addEventListener("hashchange", () => done(), { once: true }); location.hash = "shoal/shoal.v1.9.0" })`, nil)
			expect(t, page, `document.querySelector("#details .top p:last-child").textContent`, "shoal.v1.9.0")
			page.Eval(`new Promise(done => { addEventListener("hashchange", () => done(), { once: true }); location.hash = "%" })`, nil)
			expect(t, page, `document.title`, "Updates of 4 packages")
		})
	}
}

// TestSearch: without a mouse, it finds packages, channels and versions of all packages.
func TestSearch(t *testing.T) {
	c := loadFaulty(t)
	page := open(t, &Page{Packages: Of(c.Packages...), Undrawn: c.LeftOut, Faults: c.Faults}, 1280, 800)
	clear := func() { page.Eval(`(s => { s.value = ""; s.oninput() })(document.getElementById("search"))`, nil) }
	page.Press("/")
	expect(t, page, focused, "search")

	// Versions by name or number, also versions that the catalog lacks.
	page.Type("0.2")
	expect(t, page, found, []string{"tide.v0.2.0: version 0.2.0 of tide"})
	expect(t, page, `document.getElementById("count").textContent`, "1 match")
	expect(t, page, `[...document.querySelectorAll("tbody th")].map(e => e.textContent)`, []string{"tide"})
	clear()
	page.Type("2.0+7")
	expect(t, page, found, []string{"shoal.v1.2.0: version 1.2.0+7 of shoal"})
	clear()
	page.Type("reef.v0.9.0")
	expect(t, page, found, []string{"reef.v0.9.0: version of reef that the catalog does not have"})
	page.Press("Enter")
	expect(t, page, `document.querySelector("#details h2").textContent`, "reef.v0.9.0")

	// Packages come first, then the contents of the current package.
	page.Press("/")
	page.Type("E")
	expect(t, page, found+`.slice(0, 5)`, []string{"reef: package", "tide: package", "wreck: package", "stable: channel of reef", "reef.v2.1.0-rc.1+20260101120000: version 2.1.0-rc.1+20260101120000 of reef"})
	page.Press("ArrowDown")
	page.Press("ArrowDown")
	expect(t, page, `document.getElementById(document.getElementById("search").getAttribute("aria-activedescendant")).textContent`, "tidepackage")
	page.Press("ArrowUp")
	page.Press("ArrowUp")
	page.Press("ArrowDown")
	page.Press("ArrowDown")
	page.Press("Enter")
	expect(t, page, `document.title`, "Updates of tide")
	expect(t, page, `document.getElementById("found").hidden`, true)
	expect(t, page, `document.getElementById("search").value`, "")

	// A channel.
	page.Press("/")
	page.Type("v1.10")
	page.Press("Enter")
	expect(t, page, `document.querySelector(".channel.chosen").dataset.channel`, "v1.10")

	// Nothing, and the list closes.
	page.Press("/")
	page.Type("none of these")
	expect(t, page, `document.getElementById("count").textContent`, "Nothing matches.")
	page.Press("Enter")
	page.Press("Escape")
	expect(t, page, `document.getElementById("found").hidden`, true)
	page.Eval(`location.hash = ""; new Promise(done => addEventListener("hashchange", () => done(), { once: true }))`, nil)
	expect(t, page, `document.querySelector("#overview > p").textContent`, "No package matches.")
}

// TestOnePackage: the page begins with the drawing.
func TestOnePackage(t *testing.T) {
	page := open(t, &Page{Packages: Of(load(t).Find("reef"))}, 1280, 800)
	expect(t, page, `document.title`, "Updates of reef")
	expect(t, page, `document.querySelector("h1").textContent`, "Updates of reef")
	expect(t, page, `["all", "overview", "drawing"].map(id => document.getElementById(id).hidden)`, []bool{true, true, false})
	page.Click(`.node[data-name="reef.v1.2.0"]`)
	expect(t, page, `location.hash`, "#reef/reef.v1.2.0")
	// No other script is executed, even if it becomes part of the page.
	expect(t, page, `document.querySelector("meta[http-equiv]").content.replace(/'sha256-[^']+'/, "HASH")`, "default-src 'none'; style-src 'unsafe-inline'; script-src HASH; img-src data:")
}

// TestPageOfReleases opens the catalogs that this repository releases, and every version in them.
func TestPageOfReleases(t *testing.T) {
	dirs, err := filepath.Glob("../certified")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		c, err := rules.Load(t.Context(), dir)
		require.NoError(t, err)
		page := open(t, &Page{Packages: Of(c.Packages...)}, 1280, 800)
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

// TestPageOLMv1: a switch shows what OLM v1 refuses.
func TestPageOLMv1(t *testing.T) {
	c := load(t)
	p := c.Packages[0]
	name := p.Bundles[0].Name
	page := open(t, &Page{Packages: Of(p), OLMv1: map[string]*V1{p.Name: {
		Refused: map[string][]string{name: {"it has an API service"}}, Updates: []V1Update{{From: "none", To: name, Why: "a CRD changes"}},
	}}}, 1280, 800)
	const marked = `[...document.querySelectorAll("#drawing .node.refused")].map(n => n.dataset.name)[0] || ""`
	expect(t, page, marked, "")
	expect(t, page, `document.querySelector("#olm button[data-olm=v1]").click(), document.querySelector("#olm span").textContent`, "refuses 1 version and 1 update")
	expect(t, page, marked, name)
	expect(t, page, fmt.Sprintf(`choose(%q), `+items, name, "OLM v1 refuses"), "it has an API service\nthe update from none: a CRD changes")
	expect(t, page, `document.querySelector("#olm button[data-olm=v0]").click(), `+marked, "")
}
