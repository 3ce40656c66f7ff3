package tools

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ownVersion says why a module has another version than in lab/modules/tools, by folder.
var ownVersion = map[string]map[string]string{
	"lab/modules/node": {
		"k8s.io/cri-api":               "containerd implements this version of the API",
		"github.com/Microsoft/hcsshim": "it is for Windows",
	},
	"lab/modules/etcd": {},
	"lab/modules/olm":  {},
	"lab/modules/drivers": {
		"golang.org/x/mod":                            "the GCP PD driver requires a later one, and no program has it",
		"golang.org/x/tools":                          "the GCP PD driver requires a later one, and no program has it",
		"github.com/container-storage-interface/spec": "drivers implement this version of the API",
	},
}

// TestSharedModules: modules that the control plane has, too, have the same version everywhere, so that a package is compiled
// once for all. A demonstration that builds everything takes minutes longer otherwise.
func TestSharedModules(t *testing.T) {
	shared, err := ToolPins()
	require.NoError(t, err)
	for folder, own := range ownVersion {
		pins, err := PinsOf(folder)
		require.NoError(t, err)
		for module, version := range pins.versions {
			want, both := shared.versions[module]
			switch {
			case both && version != want && own[module] == "":
				t.Errorf("%s/go.mod has %s %s, want %s as in %s", folder, module, version, want, pinsFolder)
			case version == want && own[module] != "":
				t.Errorf("%s/go.mod has %s %s, as has %s, but there is a reason why it differs: %s", folder, module, version, pinsFolder, own[module])
			}
		}
	}
}
