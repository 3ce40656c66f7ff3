package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

func TestCheckFile(t *testing.T) {
	leaves := func(place, what string) []string {
		return []string{fmt.Sprintf("%s: %q leaves the clone: nothing beside it may be needed", place, what)}
	}
	for name, tc := range map[string]struct {
		file, content string
		want          []string
	}{
		"in the clone":                 {"lab/modules/olmv1/go.mod", "\nreplace a => ../../../internal/oci\n", nil},
		"a module beside the clone":    {"lab/modules/olmv1/go.mod", "\nreplace a => ../../../../sources/a\n", leaves("lab/modules/olmv1/go.mod:2", "../../../../sources/a")},
		"a file beside the clone":      {"a/a_test.go", "const a = \"../../sources\"\n", leaves("a/a_test.go:1", "../../sources")},
		"the folder above the clone":   {"Makefile", "cd ../ && ls\n", leaves("Makefile:1", "../")},
		"the same, joined":             {"a/a_test.go", `filepath.Join("..", "..", "sources")`, leaves("a/a_test.go:1", `"..", ".."`)},
		"joined, in the clone":         {"a/b/a_test.go", `filepath.Join("..", "..", "docs")`, nil},
		"from the root of the clone":   {"a/b/a.go", `filepath.Join(root, "../shared/fixtures")`, leaves("a/b/a.go:1", "../shared/")},
		"a link of a page":             {"docs/a.md", "[a](../README.md)\n", nil},
		"a command of a page":          {"docs/a.md", "$ cat ../driver.yaml\n", leaves("docs/a.md:1", "../driver.yaml")},
		"a path in the middle":         {"a.go", `"a/../../b"`, nil},
		"all files below a folder":     {"a/a.go", "//go:generate go run ../hack/a ./...\n", nil},
		"a path that an attacker uses": {"a/b/c_test.go", `"../../etc/passwd"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			exists := func(file string) bool { return file == "README.md" }
			assert.Empty(t, cmp.Diff(tc.want, checkFile(tc.file, tc.content, exists)), "-want +got")
		})
	}
}
