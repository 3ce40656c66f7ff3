package page

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	addresses = []*regexp.Regexp{
		regexp.MustCompile(`findings\.Page\("([^"#]+)#?([^"]*)"\)`),
		regexp.MustCompile(`https://github\.com/berth-csi/berth/blob/[^/\s]+/docs/([\w.-]+\.md)#?([\w-]*)`),
	}
	inPath  = regexp.MustCompile(`"[^"\n]*docs/[a-z0-9-]+\.md[^"\n]*"`)
	titles  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestAddresses: each page that is named by a message, an alert, a manifest or a bundle exists, with its section. Pages that released
// bundles name must exist for as long as somebody may have these bundles: a page or heading that moves leaves a stub, which says where to.
func TestAddresses(t *testing.T) {
	found := map[string]int{} // by the file's folder
	for _, room := range []string{"bundle", "catalog", "ci", "cmd", "deploy", "drivers", "internal", "migrate", "olm", "operator", "release", "sharedvolume"} {
		walk(t, room, func(path, text string) {
			for _, form := range addresses {
				for _, match := range form.FindAllStringSubmatch(text, -1) {
					found[filepath.Dir(path)]++
					if problem := lacks(match[1], match[2]); problem != "" {
						t.Errorf("%s: %s", path, problem)
					}
				}
			}
		})
	}
	released, err := filepath.Glob(filepath.Join(root, "bundle", "*", "*", "manifests"))
	if err != nil || len(released) == 0 {
		t.Fatalf("found no bundles (%v)", err)
	}
	for _, folder := range append(released, filepath.Join(root, "operator/clusterstorage/release"), filepath.Join(root, "internal/doctor")) {
		if found[folder] == 0 {
			t.Errorf("%s names no page: does the test still know how addresses look?", folder)
		}
	}
}

// TestNoPaths: messages of these rooms name pages by their addresses, since who reads them has no checkout.
func TestNoPaths(t *testing.T) {
	for _, room := range []string{"internal/doctor", "migrate", "olm", "cmd/berth"} {
		walk(t, room, func(path, text string) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				for _, text := range inPath.FindAllString(text, -1) {
					t.Errorf("%s: %s is a path in a checkout: use findings.Page", path, text)
				}
			}
		})
	}
}

func TestLacks(t *testing.T) {
	for address, lack := range map[string]bool{
		"install.md#": false, "install.md#remove-the-driver": false, "install.md#remove-the": true, "instal.md#": true, "troubleshooting.md#my-driver-is-not-available": false,
	} {
		page, section, _ := strings.Cut(address, "#")
		if got := lacks(page, section); (got != "") != lack {
			t.Errorf("%s: got %q, want a problem: %t", address, got, lack)
		}
	}
}

// lacks returns the missing page or section, or "". The section "" is the page.
func lacks(page, section string) string {
	text, err := os.ReadFile(pathOf(root, page))
	if err != nil {
		return err.Error()
	}
	if section == "" || slices.ContainsFunc(titles.FindAllStringSubmatch(string(text), -1), func(title []string) bool {
		return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title[1]), ""), " ", "-") == section
	}) {
		return ""
	}
	return page + " has no section #" + section
}

// walk reads the files of a room.
func walk(t *testing.T, room string, read func(path, text string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(root, room), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		read(path, string(text))
		return err
	}))
}

// TestFilesAtAddresses: each file of the project that a page has its readers fetch by its address exists.
func TestFilesAtAddresses(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range fetched.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s names %s: %v", page, match[0], err)
			}
		}
	}
	if found == 0 {
		t.Error("no page names a file by its address: does the test still know how addresses look?")
	}
}

// fetched matches the address of a file of the project, with its path.
var fetched = regexp.MustCompile(`https://raw\.githubusercontent\.com/berth-csi/berth/main/([\w./-]+)`)
