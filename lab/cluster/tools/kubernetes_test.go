package tools

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKubernetesVariable: the variable names another version, and a mistake in it is an error.
func TestKubernetesVariable(t *testing.T) {
	pinned, _, err := Kubernetes()
	require.NoError(t, err)
	for value, want := range map[string]struct {
		version  string
		isPinned bool
		mistake  string
	}{
		"":                              {pinned, true, ""},
		strings.TrimPrefix(pinned, "v"): {pinned, true, ""},
		"1.31.14":                       {"v1.31.14", false, ""},
		"1.31":                          {"", false, `KUBERNETES is "1.31"; want a version with its patch`},
		"../1.31.14":                    {"", false, "want a version with its patch"},
	} {
		t.Setenv(KubernetesVariable, value)
		version, isPinned, err := Kubernetes()
		if version != want.version || isPinned != want.isPinned || (err != nil) != (want.mistake != "") || err != nil && !strings.Contains(err.Error(), want.mistake) {
			t.Errorf("%q: version %s, pinned %v, error %v; want %+v", value, version, isPinned, err, want)
		}
	}
}

// TestVersionsHaveFoldersOfTheirOwn: each version is built into another folder of the cache, and the pinned one stays where it is.
func TestVersionsHaveFoldersOfTheirOwn(t *testing.T) {
	kubelet := []program{{"kubelet", "k8s.io/kubernetes/cmd/kubelet"}}
	seen := map[string]string{}
	for _, version := range []string{"", "1.31.14", "1.32.9"} {
		t.Setenv(KubernetesVariable, version)
		r, err := kubernetesRecipe(kubelet)
		require.NoError(t, err)
		other, is := seen[r.key()]
		assert.Falsef(t, is, "%q and %q have the folder %s", other, version, r.key())
		seen[r.key()] = version
	}
}

func TestModuleOf(t *testing.T) {
	theirs := "module k8s.io/kubernetes\n\ngo 1.22.0\n\nrequire (\n\tgithub.com/google/cel-go v0.20.1\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.130.1\n)\n\n" +
		"replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/apiserver => ./staging/src/k8s.io/apiserver\n)\n"
	got, err := moduleOf("v1.31.14", []byte(theirs))
	want := "module github.com/berth-csi/berth/lab/modules/kubernetes\n\ngo 1.22.0\n\nrequire k8s.io/kubernetes v1.31.14\n\n" +
		"replace (\n\tk8s.io/api => k8s.io/api v0.31.14\n\tk8s.io/apiserver => k8s.io/apiserver v0.31.14\n)\n"
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(want, string(got)), "(-want +got)")
	_, err = moduleOf("v1.31.14", []byte("module k8s.io/kubernetes\n\ngo 1.22.0\n"))
	assert.ErrorContains(t, err, "replaces no module", "without staging modules")
}
