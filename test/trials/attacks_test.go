package trials

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/page"
)

var update = flag.Bool("update", false, "write the tables into docs/reference/attacks.md and docs/move/adopt.md")

// TestPagesShowTheTables: docs/reference/attacks.md and docs/move/adopt.md have these lists.
func TestPagesShowTheTables(t *testing.T) {
	const command = "go test ./test/trials -update"
	for file, want := range map[string]string{"reference/attacks.md": attackTables(), "move/adopt.md": failureTable() + "\n"} {
		page.Part{
			File: "../../docs/" + file, Begin: "<!-- The table is written by " + command + ". -->", End: "<!-- end of the table -->", Update: command,
		}.Check(t, "\n"+want, *update)
	}
}

// Only a run shows whether the subtest exists: it fails if an attack was not tried.
func TestEachAttackHasItsTest(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range all() {
		if a.Attack == "" || a.Stops == "" || strings.ContainsAny(a.Attack+a.Stops, "|\n") {
			t.Errorf("%+v: want both texts, without characters that break a table cell", a)
		}
		assert.Falsef(t, seen[a.Attack], "%q is in the table twice", a.Attack)
		seen[a.Attack] = true
		folder, test, ok := strings.Cut(a.Test, " ")
		if !ok {
			t.Errorf("%q: the test is %q, want for example \"operator TestForgedNamespace/efs\"", a.Attack, a.Test)
			continue
		}
		tests, err := TestsIn(filepath.Join("..", "..", folder))
		require.NoError(t, err)
		name, _, _ := strings.Cut(test, "/")
		assert.Containsf(t, tests, name, "%q: tests in folder %s", a.Attack, folder)
	}
}

func all() (attacks []Attack) {
	for _, area := range Areas {
		attacks = append(attacks, area.Attacks...)
	}
	return attacks
}
