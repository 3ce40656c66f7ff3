// Command clone checks that no file names a path that leaves the clone, because nothing beside it may be needed. It prints each such
// path, and then fails. Relative paths in tests and in links begin at their file's folder, and paths on pages at the root, too.
package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/berth-csi/berth/hack/check"
)

// exempt are files that may name such paths, with the reason.
var exempt = map[string]string{
	"olm/prediction/openshift45_test.go":   "a subtest reads data beside the clone, and is skipped without",
	"operator/openshift45_cluster_test.go": "a subtest reads data beside the clone, and is skipped without",
	"test/e2e/switch_test.go":              "bundles beside the clone are tried, too",
	"test/openshift45/openshift45.go":      "tests read data beside the clone, and are skipped without",
	"test/release/published.go":            "the path begins in a clone that the test makes",
	"hack/clone/main_test.go":              "has such paths as examples",
	"hack/rbac/page.md":                    "it is the template of a page, whose links begin there",
}

func main() {
	check.Main("clone", checkFiles)
}

func checkFiles() (found []string, err error) {
	err = check.EachFile(func(file string, content []byte) error {
		inFile := checkFile(file, string(content), exists)
		if exempt[file] == "" {
			found = append(found, inFile...)
		} else if len(inFile) == 0 {
			found = append(found, file+" is exempt in hack/clone, and names no path that leaves the clone: remove it there")
		}
		return nil
	})
	return found, err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

var (
	// up is a relative path that begins with parent folders.
	up = regexp.MustCompile(`(?:^|[^\w/.$})])((?:\.\./)+)([\w@-][\w./@-]*)?`)
	// joined is the same as arguments of filepath.Join.
	joined = regexp.MustCompile(`(?:"\.\.", )+`)
	// sharedPath matches paths to the folder with data that some machines have beside the clone.
	sharedPath = regexp.MustCompile(`\.\./shared/`)
)

// checkFile returns a line for each path in a file that leaves the clone. exists says whether the clone has a file.
func checkFile(file, content string, exists func(string) bool) (found []string) {
	depth := strings.Count(file, "/")
	number := 0
	for line := range strings.Lines(content) {
		number++
		report := func(what string) {
			found = append(found, fmt.Sprintf("%s:%d: %q leaves the clone: nothing beside it may be needed", file, number, what))
		}
		if sharedPath.MatchString(line) {
			report(sharedPath.FindString(line))
			continue
		}
		for _, match := range up.FindAllStringSubmatch(line, -1) {
			inClone := strings.Count(match[1], "../") <= depth
			if inClone && strings.HasSuffix(file, ".md") && match[2] != "" { // a link, or else a path in a command, which begins at the root
				inClone = exists(path.Join(path.Dir(file), match[1], match[2]))
			}
			if !inClone {
				report(match[1] + match[2])
			}
		}
		for _, match := range joined.FindAllString(line, -1) {
			if strings.Count(match, `".."`) > depth {
				report(strings.TrimSuffix(match, ", "))
			}
		}
	}
	return found
}
