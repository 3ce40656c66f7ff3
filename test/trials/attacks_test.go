package trials

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		if seen[a.Attack] {
			t.Errorf("%q is in the table twice", a.Attack)
		}
		seen[a.Attack] = true
		folder, test, ok := strings.Cut(a.Test, " ")
		if !ok {
			t.Errorf("%q: the test is %q, want for example \"operator TestForgedNamespace/efs\"", a.Attack, a.Test)
			continue
		}
		tests, err := TestsIn(filepath.Join("..", "..", folder))
		if err != nil {
			t.Fatal(err)
		}
		if name, _, _ := strings.Cut(test, "/"); !slices.Contains(tests, name) {
			t.Errorf("%q: folder %s has no test %s", a.Attack, folder, name)
		}
	}
}

func all() (attacks []Attack) {
	for _, area := range Areas {
		attacks = append(attacks, area.Attacks...)
	}
	return attacks
}
