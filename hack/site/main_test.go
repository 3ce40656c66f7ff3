package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRelink(t *testing.T) {
	for _, test := range []struct{ page, text, want string }{
		{"README.md", "[a](docs/start/install.md#b), [c](CHANGELOG.md), [d](docs/README.md)", "[a](start/install.md#b), [c](" + repository + "CHANGELOG.md), [d](pages.md)"},
		{"docs/start/faq.md", "[a](install.md), [b](../../manifests), [c](../../README.md#d)", "[a](install.md), [b](" + repository + "manifests), [c](../index.md#d)"},
		{"docs/start/faq.md", "[a](../move/switch.md#b), [c](../README.md), [d](../install.md)", "[a](../move/switch.md#b), [c](../pages.md), [d](" + repository + "docs/install.md)"},
		{"docs/README.md", "[a](start/faq.md), [b](../CHANGELOG.md)", "[a](start/faq.md), [b](" + repository + "CHANGELOG.md)"},
		{"README.md", "![a\nb](docs/pictures/a.svg)", "![a\nb](pictures/a.svg)"},
		{"docs/start/faq.md", "![a](../pictures/a.svg)", "![a](../pictures/a.svg)"},
		{"docs/start/faq.md", "[a](#b), [c](https://example.com/d.md)", "[a](#b), [c](https://example.com/d.md)"},
	} {
		assert.Equal(t, test.want, relink(test.page, test.text), test.page)
	}
}

// TestRedirect: the address that a page had when there were no folders leads to it, and pages beside the folders are not on the site.
func TestRedirect(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(file, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	for _, file := range []string{"README.md", "docs/README.md", "docs/install.md", "docs/start/install.md", "docs/pictures/a.svg", "hack/site/style.css"} {
		write(file, "")
	}
	require.NoError(t, gather("source"))
	if got, err := fs.Glob(os.DirFS("source"), "*"); err != nil || !slices.Equal(got, []string{"index.md", "pages.md", "pictures", "start", "style.css"}) {
		t.Errorf("got %q, %v", got, err)
	}
	write("site/index.html", `<a href="start/install/">Install</a>`)
	write("site/start/install/index.html", `<h2 id="credentials">Credentials</h2>`)
	require.NoError(t, redirect("site"))
	if problems, err := check("site"); err != nil || len(problems) > 0 {
		t.Errorf("got %q, %v", problems, err)
	}
	if text, err := os.ReadFile("site/install/index.html"); err != nil || !strings.Contains(string(text), `"../start/install/" + location.hash`) {
		t.Errorf("got %s, %v", text, err)
	}
	assert.Error(t, redirect("site"), "a page was overwritten")
}

func TestNest(t *testing.T) {
	const text = "1. One\n   more\n\n   ```\n   code\n     indented\n   ```\n\n2. Two\n\nText\n\n- A\n  b\n\n  c\n\n```\n- no item\n  x\n```\n"
	const want = "1. One\n    more\n\n    ```\n    code\n      indented\n    ```\n\n2. Two\n\nText\n\n- A\n    b\n\n    c\n\n```\n- no item\n  x\n```\n"
	assert.Equal(t, want, nest(text))
}

// TestTell: commands and their output get classes, and what is in a block stays as it is.
func TestTell(t *testing.T) {
	const text = "```\noc get pods\n```\n\n```text\nNAME\n```\n\n```yaml\na: b\n```\n\n   ```\n   oc logs a\n   ```\n"
	const want = "``` { .sh .command }\noc get pods\n```\n\n``` { .text .output }\nNAME\n```\n\n```yaml\na: b\n```\n\n   ``` { .sh .command }\n   oc logs a\n   ```\n"
	assert.Equal(t, want, tell(text))
}

// TestComment: what a page says to those who edit it is not on the site, and leaves no line behind.
func TestComment(t *testing.T) {
	const text = "1. One:\n\n   <!-- test: test/e2e TestOne -->\n   ```\n   oc get pods\n   ```\n\nA <!-- b --> c\n"
	const want = "1. One:\n\n   ```\n   oc get pods\n   ```\n\nA <!-- b --> c\n"
	assert.Equal(t, want, comment.ReplaceAllString(text, ""))
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		pages map[string]string
		want  []string
	}{
		"a site without problems": {map[string]string{
			"index.html":     `<a href="a/">A</a><a href="a/b/">B</a><a href="https://example.com/">elsewhere</a><script src="s.js"></script>`,
			"a/index.html":   `<h1 id="top">A</h1><a href="..">home</a><a href="#top">up</a><a href="../a/#top">up</a>`,
			"a/b/index.html": `<a href="../..">home</a><a href="..">A</a>`,
			"s.js":           "",
			"404.html":       `<a href="/nothing">x</a>`,
		}, nil},
		"links that lead nowhere": {map[string]string{
			"index.html": `<a href="b/">B</a><a href="#c">C</a>`,
		}, []string{
			"index.html: link to #c: index.html has no such heading",
			"index.html: link to b/: there is no such file",
		}},
		"what is loaded from elsewhere": {map[string]string{
			"index.html": `<link rel="stylesheet" href="https://fonts.example.com/a.css"><img src="missing.svg">`,
		}, []string{
			"index.html: loads https://fonts.example.com/a.css: want a file of the site",
			"index.html: loads missing.svg: want a file of the site",
		}},
		"a block of code that is none": {map[string]string{
			"index.html": `<p><code>oc get pods</code></p><p>See <code>oc</code>.</p><pre><code>oc</code></pre><p><code></code></p>`,
		}, []string{
			`index.html: "oc get pods" is no block of code: have a blank line before it, and indent it like the text of its list`,
		}},
		"a page that has moved": {map[string]string{
			"index.html":     `<a href="b/a/">A</a>`,
			"b/a/index.html": "",
			"a/index.html":   `<meta http-equiv="refresh" content="0; url=../b/a/"><a href="../b/a/">here</a>`,
			"c/index.html":   `<meta http-equiv="refresh" content="0; url=../b/c/"><a href="../b/c/">here</a>`,
		}, []string{
			"c/index.html: link to ../b/c/: there is no such file",
		}},
		"a page that nothing leads to": {map[string]string{"index.html": "", "a/index.html": ""}, []string{
			"a/index.html: is not in the menu: add it to nav in hack/site/mkdocs.yml",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range test.pages {
				require.NoError(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
			}
			if got, err := check(folder); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
