package matrix

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/test/page"
)

var (
	update = flag.Bool("update", false, "write the matrix into docs/reference/drivers.md")
	all    = flag.Bool("all-drivers", false, "run every driver on testbeds, which takes many minutes, and not only the shortest journey")
)

func TestMain(m *testing.M) { cluster.Main(m) }

// tests are the tests of each driver, by its name in the names of tests. They use one testbed after the other.
var tests = map[string]func(*testing.T){
	"azuredisk": testAzureDisk,
	"azurefile": testAzureFile,
	"cinder":    testCinder,
	"ebs":       testEBS,
	"efs":       func(t *testing.T) { testEFS(t, efsDefault) },
	"gcppd":     testGCPPD,
	"efs-3.4.1": func(t *testing.T) { testEFS(t, efsNewer) },
	"manila":    testManila,
	"sample":    testSample,
	"vsphere":   testVSphere,
}

// shortest are the tests that run without -all-drivers.
var shortest = []string{"efs", "sample"}

// TestMatrix shows the capabilities of each driver.
func TestMatrix(t *testing.T) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !*all && !slices.Contains(shortest, name) {
				t.Skip("without -all-drivers: see make prove SUITE=drivers")
			}
			test(t)
		})
	}
}

// shown is the part of the page that has the matrix.
var shown = page.Part{
	File:  "../../../docs/reference/drivers.md",
	Begin: "<!-- The matrix is written by go test ./test/drivers/matrix -run TestPage -update. -->", End: "<!-- end of the matrix -->",
	Update: "go test ./test/drivers/matrix -run TestPage -update",
}

func TestPageShowsTheMatrix(t *testing.T) {
	text, err := Markdown()
	require.NoError(t, err)
	shown.Check(t, "\n"+text+"\n", *update)
}

// TestProgramOfARow: a row says which program ran: ours, or the one that the user has given.
func TestProgramOfARow(t *testing.T) {
	ours := func(string) (programs.Ran, error) { return programs.Ran{}, nil }
	real := func(string) (programs.Ran, error) { return programs.Ran{Real: true, Version: "v9.9.9"}, nil }
	for name, test := range map[string]struct {
		in   programLookup
		want string
	}{
		"ours":  {ours, "| EFS, version 3.4.1 | our stand-in | stand-in | – | stand-in | – | – | stand-in | stand-in | stand-in | stand-in |\n"},
		"given": {real, "| EFS, version 3.4.1 | the real one, v9.9.9 | yes | – | yes | – | – | yes | yes | yes | yes |\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := render(test.in, func(real bool, cell Cell) string {
				if cell.Test == "" {
					return "–"
				}
				return passes(real)
			})
			require.NoError(t, err)
			assert.Contains(t, text, test.want)
		})
	}
}

// TestEveryCellIsFilled: each has a test or a reason. Only a run shows whether the test exists: prove fails if it did not
// run.
func TestEveryCellIsFilled(t *testing.T) {
	for _, row := range Rows {
		for _, c := range Capabilities {
			switch cell := row.Cells[c.Name]; {
			case cell.Test == "" && cell.Not == "", cell.Test != "" && cell.Not != "":
				t.Errorf("%s, %s: got %+v, want either a test or a reason", row.Driver, c.Name, cell)
			case strings.ContainsAny(cell.Not, "|\n"):
				t.Errorf("%s, %s: the reason %q would break the table", row.Driver, c.Name, cell.Not)
			}
		}
	}
}

func TestReport(t *testing.T) {
	passed := map[string]string{}
	for _, row := range Rows {
		for _, cell := range row.Cells {
			passed[cell.Test] = "pass"
		}
	}
	if text, open := Report(passed); len(open) > 0 || strings.Contains(text, "not run") {
		t.Errorf("all have passed, but %q are open:\n%s", open, text)
	}
	passed["TestMatrix/efs/tags"] = "fail"
	delete(passed, "TestMatrix/efs/delete")
	text, open := Report(passed)
	if diff := cmp.Diff([]string{"TestMatrix/efs/delete", "TestMatrix/efs/tags"}, open); diff != "" || !strings.Contains(text, " | – | – | not run | FAIL | ") {
		t.Errorf("open tests (-want +got):\n%s\n%s", diff, text)
	}
}
