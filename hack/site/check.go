package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// page holds the parts of a page of the site that are checked.
type page struct {
	ids   map[string]bool
	links []string
	// loads are the files that a browser loads with the page.
	loads []string
	// unboxed are paragraphs that consist only of code: blocks of code that MkDocs has not recognized.
	unboxed []string
	// moves says that the page only redirects browsers to another page.
	moves bool
}

// check returns the problems of a site in a folder.
func check(folder string) ([]string, error) {
	pages := map[string]*page{}
	files := map[string]bool{}
	site := os.DirFS(folder)
	err := fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name] = true
		if path.Ext(name) != ".html" {
			return nil
		}
		file, err := site.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		root, err := html.Parse(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		pages[name] = read(root)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var problems []string
	linked := map[string]bool{"index.html": true, "404.html": true}
	for name, p := range pages {
		if name == "404.html" { // its links begin at the root of a server
			continue
		}
		for _, target := range p.links {
			to, fragment, outside := resolve(name, target)
			switch {
			case outside:
			case !files[to]:
				problems = append(problems, fmt.Sprintf("%s: link to %s: there is no such file", name, target))
			case fragment != "" && pages[to] != nil && !pages[to].ids[fragment]:
				problems = append(problems, fmt.Sprintf("%s: link to %s: %s has no such heading", name, target, to))
			case name == "index.html":
				linked[to] = true
			}
		}
		for _, code := range p.unboxed {
			problems = append(problems, fmt.Sprintf("%s: %q is no block of code: have a blank line before it, and indent it like the text of its list", name, code))
		}
		for _, target := range p.loads {
			if to, _, outside := resolve(name, target); outside || !files[to] {
				problems = append(problems, fmt.Sprintf("%s: loads %s: want a file of the site", name, target))
			}
		}
	}
	for name, p := range pages {
		if !linked[name] && !p.moves {
			problems = append(problems, fmt.Sprintf("%s: is not in the menu: add it to nav in hack/site/mkdocs.yml", name))
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// read returns the checked parts of a page.
func read(root *html.Node) *page {
	p := &page{ids: map[string]bool{}}
	for node := range root.Descendants() {
		attributes := map[string]string{}
		for _, a := range node.Attr {
			attributes[a.Key] = a.Val
		}
		if id := attributes["id"]; id != "" {
			p.ids[id] = true
		}
		switch {
		case node.Type != html.ElementNode:
		case node.Data == "p" && node.FirstChild != nil && node.FirstChild == node.LastChild && node.FirstChild.Data == "code" && node.FirstChild.FirstChild != nil:
			p.unboxed = append(p.unboxed, node.FirstChild.FirstChild.Data)
		case node.Data == "meta" && attributes["http-equiv"] == "refresh":
			p.moves = true
		case node.Data == "a" && attributes["href"] != "":
			p.links = append(p.links, attributes["href"])
		case node.Data == "link" && strings.Contains(attributes["rel"], "stylesheet"):
			p.loads = append(p.loads, attributes["href"])
		case (node.Data == "script" || node.Data == "img" || node.Data == "iframe") && attributes["src"] != "":
			p.loads = append(p.loads, attributes["src"])
		}
	}
	return p
}

// resolve returns the file that a link of a page leads to, and the heading in it. outside says that it is on another server.
func resolve(from, target string) (to, fragment string, outside bool) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return "", "", err == nil
	}
	if u.Path == "" {
		return from, u.Fragment, false
	}
	to = path.Join(path.Dir(from), u.Path)
	if strings.HasSuffix(u.Path, "/") || path.Base(u.Path) == "." || path.Base(u.Path) == ".." || path.Ext(to) == "" {
		to = path.Join(to, "index.html")
	}
	return to, u.Fragment, false
}
