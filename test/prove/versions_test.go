package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/openshift"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// TestCombinations: the rows are of the versions of OpenShift with that Kubernetes, and what is called pinned is.
func TestCombinations(t *testing.T) {
	pinned := map[string]bool{}
	for _, c := range combinations {
		minor := strings.Split(c.kubernetes, ".")[1]
		for _, version := range strings.Split(c.openshift, ", ") {
			v, err := openshift.Parse(version)
			require.NoError(t, err)
			if release, known := openshift.Find(v); !known || fmt.Sprint(release.Kubernetes) != minor {
				t.Errorf("OpenShift %s has Kubernetes 1.%d, want that of %s", version, release.Kubernetes, c.kubernetes)
			}
		}
		for _, column := range columns {
			if id, is := c.tested[column]; is && id != "" {
				pinned[c.kubernetes+" "+c.olm] = true
			}
		}
	}
	pins, err := tools.ToolPins()
	require.NoError(t, err)
	kubernetes, err := pins.Version("k8s.io/kubernetes")
	require.NoError(t, err)
	olm, err := pins.Version("github.com/operator-framework/operator-lifecycle-manager")
	require.NoError(t, err)
	want := strings.TrimPrefix(kubernetes, "v") + " " + strings.TrimSuffix(strings.TrimPrefix(olm, "v"), ".0")
	assert.Truef(t, pinned[want], "no row is of what is pinned, %s: %v", want, pinned)
}

// TestVersionsTable: a cell says "tested" if there is a record of its suite, and "claimed" otherwise.
func TestVersionsTable(t *testing.T) {
	text := versionsTable(map[string]record{"versions-1.31": {}})
	for _, want := range []string{
		"| 1.31.4 | 4.18 | 0.46 | tested | tested | tested | tested |\n",
		"| 1.32.9 | 4.19 | 0.46 | claimed | claimed | claimed | claimed |\n",
		"| 1.36.3 | 4.23, 5.0 | v1, 1.11 | claimed | – | claimed | – |\n",
	} {
		assert.Contains(t, text, want, "the table")
	}
}

// TestSuitesOfVersions: each has the version that it names, and a matrix of a workflow has none of them.
func TestSuitesOfVersions(t *testing.T) {
	var matrix strings.Builder
	if err := writeMatrix(&matrix, ""); err != nil || strings.Contains(matrix.String(), "versions-") || !strings.Contains(matrix.String(), "continuity") {
		t.Errorf("error %v, matrix %s", err, &matrix)
	}
	for _, s := range ofVersions() {
		assert.Truef(t, strings.HasPrefix(s.kubernetes, strings.TrimPrefix(s.name, "versions-")+"."), "suite %s runs on Kubernetes %q", s.name, s.kubernetes)
	}
}
