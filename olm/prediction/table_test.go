package prediction

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of traps")

// tell says what is foretold, and why.
func (p *Prediction) describe(r Reason) string {
	switch {
	case p.Verdict == Waits:
		return fmt.Sprintf("OLM does not get to %s: %s", p.Next.Name, r.What)
	case p.Verdict.Good():
		return fmt.Sprintf("OLM %s; %s", p.Sentence(), r.What)
	}
	return fmt.Sprintf("OLM %s: %s", p.Sentence(), r.What)
}

// unsteady is what differs from one time to the next.
var variable = regexp.MustCompile(`install-[a-z0-9]{5}|testtraps-[a-z0-9-]*|CONNECTING`)

// plain returns a text with nothing in it that differs from one time to the next, as a cell of a table.
func normalize(namespace, text string) string {
	text = strings.ReplaceAll(text, namespace, "NAMESPACE")
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		switch {
		case strings.HasPrefix(found, "install-"):
			return "install-abcde"
		case found == "CONNECTING": // as now and then between two attempts
			return "TRANSIENT_FAILURE"
		}
		return "OTHER"
	})
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// What is around the table in the page.
const tableBegin, tableEnd = "<!-- The table is what TestTraps of olm/prediction has seen; its -update writes it. -->\n", "<!-- End of the table. -->\n"

// checkTable compares the table in a page with the rows of this run, or writes it.
func checkTable(t *testing.T, path string, rows []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := bytes.Cut(page, []byte(tableBegin))
	have, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !begun || !ended {
		t.Fatalf("%s lacks the lines around the table: %q and %q", path, tableBegin, tableEnd)
	}
	table := "\n| trap | foretold | happened | what to do |\n| --- | --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n\n"
	if slices.Contains(rows, "") { // only some were asked for
		for _, row := range rows {
			if row != "" {
				t.Log(row)
			}
			if !strings.Contains(string(have), row) {
				t.Errorf("%s is stale: run the whole test with -update", path)
			}
		}
		return
	}
	if !*update {
		if diff := cmp.Diff(string(have), table); diff != "" {
			t.Errorf("%s is stale; run this test with -update:\n%s", path, diff)
		}
		return
	}
	if err := os.WriteFile(path, slices.Concat(before, []byte(tableBegin+table+tableEnd), after), 0o644); err != nil {
		t.Fatal(err)
	}
}
