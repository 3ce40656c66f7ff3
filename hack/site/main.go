// Command site builds the documentation's site, with search: the README is its first page, and the pages in the folders
// of docs/ follow. MkDocs, with its theme Material, does the work. Then the command checks that all links lead somewhere,
// that the menu has each page, and that nothing is loaded from other servers.
//
//	go run ./hack/site FOLDER
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// repository is the address of files that are not on the site.
const repository = "https://github.com/berth-csi/berth/blob/main/"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./hack/site FOLDER")
		os.Exit(2)
	}
	if err := build(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
}

func build(folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	source, err := os.MkdirTemp("", "site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := gather(filepath.Join(source, "docs")); err != nil {
		return err
	}
	config, err := os.ReadFile("hack/site/mkdocs.yml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(source, "mkdocs.yml"), config, 0o644); err != nil {
		return err
	}
	mkdocs := exec.Command("mkdocs", "build", "--strict", "--quiet", "--site-dir", folder)
	mkdocs.Dir, mkdocs.Stdout, mkdocs.Stderr = source, os.Stderr, os.Stderr
	if err := mkdocs.Run(); err != nil {
		return fmt.Errorf("mkdocs build: %w", err)
	}
	if err := redirect(folder); err != nil {
		return err
	}
	problems, err := check(folder)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems", len(problems))
	}
	return nil
}

// pictures is the folder of the pages' pictures, beside them.
const pictures = "pictures/"

// gather copies all pages and pictures to a folder.
func gather(to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(to, pictures), os.DirFS("docs/"+pictures)); err != nil {
		return err
	}
	style, err := os.ReadFile("hack/site/style.css")
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "style.css"), style, 0o644)
	}
	if err != nil {
		return err
	}
	pages, err := pages()
	if err != nil {
		return err
	}
	for _, page := range append(pages, "docs/README.md", "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		file := filepath.Join(to, onSite(page))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(nest(tell(relink(page, comment.ReplaceAllString(string(text), ""))))), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages returns the pages in folders. Pages beside the folders only say where the pages in folders are, see redirect.
func pages() ([]string, error) {
	pages, err := filepath.Glob("docs/*/*.md")
	if err == nil && len(pages) == 0 {
		err = errors.New("found no pages in docs/*/")
	}
	return pages, err
}

// onSite returns the file of a page on the site, or "".
func onSite(file string) string {
	name, is := strings.CutPrefix(file, "docs/")
	switch {
	case file == "README.md":
		return "index.md"
	case file == "docs/README.md":
		return "pages.md"
	case is && (strings.HasPrefix(name, pictures) || path.Ext(name) == ".md" && path.Dir(name) != "."):
		return name
	}
	return ""
}

// moved is a page that makes the reader's browser open another page, at the same heading.
const moved = `<!doctype html>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="%[1]s">
<script>location.replace("%[1]s" + location.hash)</script>
<meta http-equiv="refresh" content="0; url=%[1]s">
<p>This page is now <a href="%[1]s">here</a>.</p>
`

// redirect makes the former address of each page, from before the site had folders, lead to the page.
func redirect(site string) error {
	pages, err := pages()
	if err != nil {
		return err
	}
	for _, page := range pages {
		address := strings.TrimSuffix(onSite(page), ".md")
		file := filepath.Join(site, path.Base(address), "index.html")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if _, err := os.Stat(file); err == nil {
			return fmt.Errorf("%s would hide %s: give the page another name", page, file)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, moved, "../"+address+"/"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// comment matches a line with a comment for people who edit a page, such as which test runs its commands.
var comment = regexp.MustCompile(`(?m)^ *<!-- .* -->\n`)

// fence matches a line before or after a block of code, with its language.
var fence = regexp.MustCompile("^( *)```([a-z]*)\n$")

// tell gives commands one class and their output another one, so that style.css can tell them apart. Commands are in blocks without a
// language, and output is in the language text.
func tell(text string) string {
	var told strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if parts := fence.FindStringSubmatch(line); parts != nil {
			classes := map[string]string{"": " { .sh .command }", "text": " { .text .output }"}[parts[2]]
			if inside = !inside; inside && classes != "" {
				line = parts[1] + "```" + classes + "\n"
			}
		}
		told.WriteString(line)
	}
	return told.String()
}

// item matches the beginning of an item of a list.
var item = regexp.MustCompile(`^(?:-|\d+\.) +`)

// nest indents the content of a list item by four spaces. GitHub takes fewer, and MkDocs does not.
func nest(text string) string {
	var nested strings.Builder
	indent, code := "", false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			indent, code = "", !code
		case code || line == "\n":
		case item.MatchString(line):
			indent = strings.Repeat(" ", len(item.FindString(line)))
		case !strings.HasPrefix(line, indent):
			indent = ""
		case indent != "":
			nested.WriteString(strings.Repeat(" ", max(4-len(indent), 0)))
		}
		nested.WriteString(line)
	}
	return nested.String()
}

// link matches the target of a link to a file of the repository, after its text.
var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// relink makes the links of a page lead to pages of the site, or to files of the repository.
func relink(page, text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		target := path.Join(path.Dir(page), parts[1])
		to := onSite(target)
		if to == "" {
			return "](" + repository + target + parts[2] + ")"
		}
		// Both are below the root of the site, so there is a path.
		relative, _ := filepath.Rel(path.Dir(onSite(page)), to)
		return "](" + filepath.ToSlash(relative) + parts[2] + ")"
	})
}
