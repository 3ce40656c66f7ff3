package page

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	addresses = []*regexp.Regexp{
		regexp.MustCompile(`findings\.Page\("([^"#]+)#?([^"]*)"\)`),
		regexp.MustCompile(`https://github\.com/berth-csi/berth/blob/[^/\s]+/docs/([\w./-]+\.md)#?([\w-]*)`),
	}
	inPath  = regexp.MustCompile(`"[^"\n]*docs/[a-z0-9/-]+\.md[^"\n]*"`)
	titles  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// addressesFile lists each address of a page that a message, an alert, a manifest or a bundle has had.
const addressesFile = "testdata/addresses.txt"

var updateAddresses = flag.Bool("update", false, "add new addresses to "+addressesFile)

// TestAddresses: each page that is named by a message, an alert, a manifest or a bundle exists, with its section, for as long as somebody
// may have these: their addresses are on a list, from which nothing is removed. A page or heading that moves leaves a stub behind.
func TestAddresses(t *testing.T) {
	recorded, err := os.ReadFile(addressesFile)
	require.NoError(t, err)
	all := strings.Fields(string(recorded))
	found := map[string]int{} // by the file's folder
	for _, room := range []string{"bundle", "catalog", "ci", "cmd", "deploy", "drivers", "internal", "migrate", "olm", "operator", "release", "sharedvolume"} {
		walk(t, room, func(path, text string) {
			for _, form := range addresses {
				for _, match := range form.FindAllStringSubmatch(text, -1) {
					found[filepath.Dir(path)]++
					address := strings.TrimSuffix(match[1]+"#"+match[2], "#")
					if slices.Contains(all, address) {
						continue
					}
					all = append(all, address)
					if !*updateAddresses {
						t.Errorf("%s: %s is not in test/page/%s: run go test ./test/page -run TestAddresses -update", path, address, addressesFile)
					}
				}
			}
		})
	}
	for _, address := range all {
		page, section, _ := strings.Cut(address, "#")
		if problem := lacks(page, section); problem != "" {
			t.Errorf("%s: a message, an alert or a bundle may lead there. If it has moved, have docs/%s say where to", problem, page)
		}
	}
	released, err := filepath.Glob(filepath.Join(root, "bundle", "*", "*", "manifests"))
	require.NoError(t, err)
	require.NotEmpty(t, released, "found no bundles")
	for _, folder := range append(released, filepath.Join(root, "operator/clusterstorage/release"), filepath.Join(root, "internal/doctor")) {
		assert.NotZerof(t, found[folder], "%s names no page: does the test still know how addresses look?", folder)
	}
	if *updateAddresses {
		slices.Sort(all)
		require.NoError(t, os.WriteFile(addressesFile, []byte(strings.Join(all, "\n")+"\n"), 0o644))
	}
}

// TestStubs: the pages beside the folders say, below each heading, where their readers find it now. They have headings because GitHub cannot
// redirect a reader, and its addresses end with one.
func TestStubs(t *testing.T) {
	stubs, err := filepath.Glob(pathOf(root, "*.md"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(stubs), 2, "stubs")
	for _, stub := range stubs {
		if stub == filepath.Clean(allPages) {
			continue
		}
		text, err := os.ReadFile(stub)
		require.NoError(t, err)
		for i, part := range headings.Split(string(text), -1)[1:] {
			link := moved.FindStringSubmatch(part)
			switch {
			case link == nil:
				t.Errorf("%s: part %d has no link: a page of contents goes into a folder", stub, i)
			case (link[2] == "") != (i == 0):
				t.Errorf("%s: part %d leads to %s", stub, i, link[0])
			default:
				assert.Empty(t, lacks(link[1], link[2]), stub)
			}
		}
	}
}

var (
	headings = regexp.MustCompile(`(?m)^#+ `)
	moved    = regexp.MustCompile(`\]\(([\w-]+/[\w-]+\.md)#?([\w-]*)\)`)
)

// TestNoPaths: messages of these rooms name pages by their addresses, since their readers have no checkout.
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
		"start/install.md#": false, "start/install.md#remove-the-driver": false, "start/install.md#remove-the": true, "instal.md#": true, "operate/troubleshooting.md#my-driver-is-not-available": false,
	} {
		page, section, _ := strings.Cut(address, "#")
		got := lacks(page, section)
		assert.Equalf(t, lack, got != "", "%s: got %q, want a problem", address, got)
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
	found := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range fetched.FindAllStringSubmatch(string(text), -1) {
			found++
			_, err := os.Stat(filepath.Join(root, match[1]))
			assert.NoErrorf(t, err, "%s names %s", page, match[0])
		}
	}
	assert.NotZero(t, found, "no page names a file by its address: does the test still know how addresses look?")
}

// fetched matches the address of a file of the project, with its path.
var fetched = regexp.MustCompile(`https://raw\.githubusercontent\.com/berth-csi/berth/main/([\w./-]+)`)
