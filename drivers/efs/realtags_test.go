package efs

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTagsInTheDriver: the parsers of the real driver read the tags that the operator gives them, and so do the parsers
// of these tests.
func TestTagsInTheDriver(t *testing.T) {
	for version, read := range parsers {
		t.Run(version, func(t *testing.T) {
			program := buildParser(t, version)
			for _, tc := range tagCases {
				t.Run(tc.name, func(t *testing.T) {
					list, _ := tc.list(t, version)
					if diff := cmp.Diff(tc.expected(version), parseWith(t, program, list)); diff != "" {
						t.Errorf("the driver reads other tags from %s (-want +got):\n%s", list, diff)
					}
				})
			}
			// Lists that the operator does not make.
			for _, list := range []string{"a:b:c d:e", `a\:b:c`, `a\ b:c`, `a\\:b:c d:`, "a b:c", "é:x a:b", `\\:\\`} {
				if diff := cmp.Diff(read(list), parseWith(t, program, list)); diff != "" {
					t.Errorf("the parser of the tests reads %s in another way than the driver (-tests +driver):\n%s", list, diff)
				}
			}
		})
	}
}

// parserFuncs are the functions with which versions of the driver parse their list of tags, in pkg/driver/driver.go.
var parserFuncs = map[string]bool{"parseTagsFromStr": true, "splitToList": true}

// buildParser builds a program of the real functions that parse tags in a version of the driver. They log with klog, as
// this module does, so nothing else has to be built. The program is in an overlay over this module.
func buildParser(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "fixtures", "sources", "aws-efs-csi-driver-v"+version, "pkg", "driver", "driver.go")
	files := token.NewFileSet()
	source, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if os.IsNotExist(err) {
		t.Skipf("the sources of the driver are not here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	var program strings.Builder
	program.WriteString(`package main

import (
	"encoding/json"
	"os"
	"strings"

	"k8s.io/klog/v2"
)

func main() {
	klog.LogToStderr(true)
	// As the driver calls it.
	if err := json.NewEncoder(os.Stdout).Encode(parseTagsFromStr(strings.TrimSpace(os.Args[1]))); err != nil {
		klog.Fatal(err)
	}
}
`)
	for _, declaration := range source.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && parserFuncs[f.Name.Name] {
			program.WriteString("\n")
			if err := format.Node(&program, files, f); err != nil {
				t.Fatal(err)
			}
			program.WriteString("\n")
		}
	}
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "parsetags", "main.go"): write("main.go", program.String())}})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(folder, "parsetags")
	build := exec.Command("go", "build", "-overlay", write("overlay.json", string(overlay)), "-o", binary, "./parsetags")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the parser of version %s: %v\n%s", version, err, out)
	}
	return binary
}

// parseWith returns the tags that a version of the driver reads from a list, nil if it loses them all.
func parseWith(t *testing.T, program, list string) (tags map[string]string) {
	t.Helper()
	out, err := exec.Command(program, list).Output()
	if err != nil {
		t.Fatal(fmt.Errorf("parsing %s: %w", list, err))
	}
	if err := json.Unmarshal(out, &tags); err != nil {
		t.Fatalf("the driver's tags are %s: %v", out, err)
	}
	return tags
}
