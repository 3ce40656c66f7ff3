package olmv1_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
)

// moveResults are the results of all moves, for a table.
type moveResults struct {
	lock   sync.Mutex
	setups []string
	// of has the results by operator and setup.
	of map[string]map[string]string
}

func (r *moveResults) add(setup, operator, result string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !slices.Contains(r.setups, setup) {
		r.setups = append(r.setups, setup)
	}
	if r.of == nil {
		r.of = map[string]map[string]string{}
	}
	if r.of[operator] == nil {
		r.of[operator] = map[string]string{}
	}
	r.of[operator][setup] = result
}

// table has a row for each operator, and a column for each setup.
func (r *moveResults) table() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, strings.Join(append([]string{"OPERATOR"}, r.setups...), "\t"))
	for _, operator := range slices.Sorted(maps.Keys(r.of)) {
		row := []string{operator}
		for _, setup := range r.setups {
			row = append(row, r.of[operator][setup])
		}
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	columns.Flush()
	return text.String()
}

// TestMoveResults: the table has the result of each operator in each setup.
func TestMoveResults(t *testing.T) {
	r := &moveResults{}
	r.add("helm", "second", "moved")
	r.add("boxcutter", "second", "refused: code")
	r.add("helm", "first", "failed")
	want := `OPERATOR  helm    boxcutter
first     failed  
second    moved   refused: code
`
	assert.Equal(t, want, r.table())
}
