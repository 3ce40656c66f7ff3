package list

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

func TestFit(t *testing.T) {
	table := func() [][]string {
		return [][]string{{"PACKAGE", "SKIPS", "VERSION"}, {"tide", "tide.v0.1.0,tide.v0.1.1", "潮0.1.0-0123456789"}, {"ebb", "-", "1.0.0"}}
	}
	for columns, want := range map[int][][]string{
		53: table(), // as wide as it is: 7, 23 and 17, and the gaps
		52: {{"PACKAGE", "SKIPS", "VERSION"}, {"tide", "tide.v0.1.0,tide.v0.1…", "潮0.1.0-0123456789"}, {"ebb", "-", "1.0.0"}},
		40: {{"PACKAGE", "SKIPS", "VERSION"}, {"tide", "tide.v0.1.0,…", "潮0.1.0-012345…"}, {"ebb", "-", "1.0.0"}},
		29: {{"PACKAGE", "SKIPS", "VERSION"}, {"tide", "tide.v0…", "潮0.1.0-…"}, {"ebb", "-", "1.0.0"}},
		20: {{"PACKAGE", "SK…", "VER…"}, {"tide", "ti…", "潮0.…"}, {"ebb", "-", "1.0…"}}, // the package is a name
		16: {{"PAC…", "SK…", "VE…"}, {"tide", "ti…", "潮0…"}, {"ebb", "-", "1.…"}},
	} {
		got := fit(table(), columns)
		assert.Emptyf(t, cmp.Diff(want, got), "%d columns: -want +got", columns)
	}
	fit(nil, 80)
	empty := [][]string{{"PACKAGE", "SKIPS"}, {"tide", "-"}, {"ebb", "-"}}
	assert.Empty(t, cmp.Diff([][]string{{"PACKAGE"}, {"tide"}, {"ebb"}}, fit(empty, 14)), "an empty column: -want +got")
}
