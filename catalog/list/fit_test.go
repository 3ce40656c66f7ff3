package list

import (
	"strings"
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
		28: {{"PACKA…", "SKIPS", "VERSION"}, {"tide", "tide.v0…", "潮0.1.0-…"}, {"ebb", "-", "1.0.0"}},
		25: {{"PACKAGE", "SKIPS"}, {"tide", "tide.v0.1.0,ti…"}, {"ebb", "-"}}, // cut more, three columns would say nothing
		14: {{"PACKAGE"}, {"tide"}, {"ebb"}},
		5:  {{"PACK…"}, {"tide"}, {"ebb"}}, // the package is a name
		3:  {{"PAC…"}, {"tide"}, {"ebb"}},
	} {
		got := fit(table(), columns)
		assert.Emptyf(t, cmp.Diff(want, got), "%d columns: -want +got", columns)
	}
	fit(nil, 80)
	empty := [][]string{{"PACKAGE", "SKIPS"}, {"tide", "-"}, {"ebb", "-"}}
	assert.Empty(t, cmp.Diff([][]string{{"PACKAGE"}, {"tide"}, {"ebb"}}, fit(empty, 14)), "an empty column: -want +got")
	long := fit([][]string{{"BUNDLE"}, {strings.Repeat("x", 300)}}, 80)
	assert.Equal(t, strings.Repeat("x", longestName-1)+"…", long[1][0], "no object can have such a name")
}
