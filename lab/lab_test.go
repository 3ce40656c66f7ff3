package lab_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

func TestOLM(t *testing.T) {
	c := cluster.Start(t, cluster.Options{OLM: true})
	out, err := c.Kubectl(t.Context(), "get", "operatorgroups", "--all-namespaces").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReadme: the example of the page is TestOLM.
func TestReadme(t *testing.T) {
	source, err := os.ReadFile("lab_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(page), "```go\n")
	example, _, found := strings.Cut(example, "```\n")
	if !found || strings.Count(example, "\n") > 12 || !bytes.Contains(source, []byte(example)) {
		t.Errorf("README.md has no example in ```go of at most 12 lines that is in lab_test.go; it has:\n%s", example)
	}
}

// TestClosure: the lab's code and its tests import only the lab's packages of this module. So it could be a module of
// its own.
func TestClosure(t *testing.T) {
	module, err := exec.Command("go", "list", "-m").Output()
	require.NoError(t, err)
	out, err := exec.Command("go", "list", "-test", "-deps", "./...").Output()
	require.NoError(t, err)
	own := strings.TrimSpace(string(module)) + "/"
	seen := 0
	for line := range strings.Lines(string(out)) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " ") // of a package that is compiled for a test, the test is named, too
		switch rest, ok := strings.CutPrefix(path, own); {
		case !ok:
		case rest == "lab" || rest == "lab_test" || rest == "lab.test" || strings.HasPrefix(rest, "lab/"):
			seen++
		default:
			t.Errorf("the lab imports %s", rest)
		}
	}
	assert.GreaterOrEqual(t, seen, 30, "packages of the lab: is this the list of them?")
}
