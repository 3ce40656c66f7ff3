package matrix

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/page"
)

var (
	update = flag.Bool("update", false, "write the matrix into docs/drivers.md")
	all    = flag.Bool("all-drivers", false, "run every driver on testbeds, which takes many minutes, and not only the shortest journey")
)

func TestMain(m *testing.M) { cluster.Main(m) }

// tests are those of each driver, by its name in the names of tests. They use one testbed after the other.
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

// TestMatrix shows what each driver can do.
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
	File:  "../../../docs/drivers.md",
	Begin: "<!-- The matrix is written by go test ./test/drivers/matrix -run TestPage -update. -->", End: "<!-- end of the matrix -->",
	Update: "go test ./test/drivers/matrix -run TestPage -update",
}

func TestPageShowsTheMatrix(t *testing.T) { shown.Check(t, "\n"+Markdown()+"\n", *update) }

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
	if diff := cmp.Diff([]string{"TestMatrix/efs/delete", "TestMatrix/efs/tags"}, open); diff != "" || !strings.Contains(text, "| yes | – | yes | – | – | not run | FAIL | yes | yes |") {
		t.Errorf("open tests (-want +got):\n%s\n%s", diff, text)
	}
}
