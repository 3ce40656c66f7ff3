package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// TestAllPages: the page of all pages leads to each other one.
func TestAllPages(t *testing.T) {
	const all = "pages.md"
	text, err := os.ReadFile(pathOf(root, all))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(pathOf(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		if name := filepath.Base(path); name != all && !strings.Contains(string(text), "]("+name+")") {
			t.Errorf("docs/%s does not lead to %s", all, name)
		}
	}
}

// TestEachBlockHasAFollower: for each block of shell commands of each page, the table says which tests run it, or why none does. The
// table has nothing else.
func TestEachBlockHasAFollower(t *testing.T) {
	pages, err := filepath.Glob(pathOf(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]map[string]int{}
	for _, path := range append(pages, pathOf(root, "README.md")) {
		name := filepath.Base(path)
		has[name] = map[string]int{}
		_, blocks := read(t, path, strings.NewReplacer())
		for _, block := range commandBlocks(blocks) {
			has[name][block.Heading]++
		}
		for heading, blocks := range has[name] {
			if said := len(followers[name][heading]); said != blocks {
				t.Errorf("%s has %d blocks of commands below %q, and followers.go says of %d who follows them: add a test that runs the commands, or say why none does", name, blocks, heading, said)
			}
		}
	}
	for name, sections := range followers {
		for heading := range sections {
			if has[name][heading] == 0 {
				t.Errorf("followers.go has %s, %q, which has no blocks of commands", name, heading)
			}
		}
	}
}

// TestEachBlockShowsWhatItPrints: a page shows the output of its commands, as a test has seen it.
func TestEachBlockShowsWhatItPrints(t *testing.T) {
	for name, sections := range followers {
		for heading, all := range sections {
			for i, block := range commandBlocks(Blocks(t, pathOf(root, name), heading, strings.NewReplacer())) {
				if i >= len(all) || all[i].none != "" {
					continue
				}
				if shows := block.Output != "" || len(block.Transcript()) > 0; shows == all[i].quiet {
					t.Errorf("%s, %q, block %d: it shows what commands print: %t; followers.go says that they print nothing: %t. Run its test with -update-pages", name, heading, i, shows, all[i].quiet)
				}
			}
		}
	}
}

// TestFollowersExist: each test that the table names exists, and its package names the page and the heading.
func TestFollowersExist(t *testing.T) {
	packages := map[string]source{}
	for page, sections := range followers {
		for heading, all := range sections {
			for _, f := range all {
				if f.none != "" {
					continue
				}
				if _, parsed := packages[f.pkg]; !parsed {
					packages[f.pkg] = parse(t, f.pkg)
				}
				of := packages[f.pkg]
				for _, test := range f.tests {
					if !of.functions[test] {
						t.Errorf("%s, %q: there is no %s in %s", page, heading, test, f.pkg)
					}
				}
				if !of.texts[heading] || !slices.ContainsFunc(slices.Collect(maps.Keys(of.texts)), func(text string) bool { return filepath.Base(text) == page }) {
					t.Errorf("%s, %q: no test in %s names both the page and the heading", page, heading, f.pkg)
				}
			}
		}
	}
}

// source holds the functions and the texts of a package's tests.
type source struct{ functions, texts map[string]bool }

func parse(t *testing.T, pkg string) source {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests (%v)", pkg, err)
	}
	found := source{map[string]bool{}, map[string]bool{}}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				found.functions[n.Name.Name] = true
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					found.texts[text] = true
				}
			}
			return true
		})
	}
	return found
}
