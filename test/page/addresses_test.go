package page

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	address = regexp.MustCompile(`findings\.Page\("([^"#]+)#?([^"]*)"\)`)
	inPath  = regexp.MustCompile(`"[^"\n]*docs/[a-z0-9-]+\.md[^"\n]*"`)
	titles  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^a-z0-9 -]`)
)

// TestAddressesInMessages: each page that a message of these rooms names exists, with its section, and none is a path in a checkout.
func TestAddressesInMessages(t *testing.T) {
	const root = "../.."
	found := 0
	for _, room := range []string{"internal/doctor", "migrate", "olm", "cmd/berth"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			code, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, text := range inPath.FindAllString(string(code), -1) {
				t.Errorf("%s: %s is a path in a checkout: use findings.Page", path, text)
			}
			for _, match := range address.FindAllStringSubmatch(string(code), -1) {
				found++
				page, err := os.ReadFile(filepath.Join(root, "docs", match[1]))
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				has := match[2] == ""
				for _, h := range titles.FindAllStringSubmatch(string(page), -1) {
					has = has || strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == match[2]
				}
				if !has {
					t.Errorf("%s: %s has no section #%s", path, match[1], match[2])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("found none")
	}
}
