package tools

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"
)

// ownVersion says why a module has another version than in hack/tools, by folder.
var ownVersion = map[string]map[string]string{
	"hack/node": {
		"k8s.io/cri-api":               "containerd implements this version of the API",
		"github.com/Microsoft/hcsshim": "it is for Windows",
	},
	"hack/drivers": {
		"github.com/container-storage-interface/spec": "drivers implement this version of the API",
	},
}

// TestSharedModules: modules that the control plane has, too, have the same version everywhere, so that a package is compiled
// once for all. A demonstration that builds everything takes minutes longer otherwise.
func TestSharedModules(t *testing.T) {
	shared := effective(t, pinsFolder)
	for folder, own := range ownVersion {
		for module, version := range effective(t, folder) {
			want, both := shared[module]
			switch {
			case both && version != want && own[module] == "":
				t.Errorf("%s/go.mod has %s %s, want %s as in %s", folder, module, version, want, pinsFolder)
			case version == want && own[module] != "":
				t.Errorf("%s/go.mod has %s %s, as has %s, but there is a reason why it differs: %s", folder, module, version, pinsFolder, own[module])
			}
		}
	}
}

// effective returns the versions of modules that are built with the go.mod of a folder.
func effective(t *testing.T, folder string) map[string]string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, folder, "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := modfile.Parse(path, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, require := range parsed.Require {
		versions[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range parsed.Replace {
		if _, required := versions[replace.Old.Path]; required {
			versions[replace.Old.Path] = replace.New.Version
		}
	}
	return versions
}
