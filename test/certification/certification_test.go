package certification

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/deploy/certification"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/page"
)

var (
	update    = flag.Bool("update", false, "write the records of what ran, and the table into docs/reference/certification.md")
	certify   = flag.Bool("certify", false, "run Kubernetes' tests of each driver, which takes up to an hour each")
	processes = flag.Int("processes", 4, "how many tests run at the same time")
	focus     = flag.String("focus", "External.Storage", "which tests, as a regular expression; with another one than all, their outcomes are only logged")
)

func TestMain(m *testing.M) { cluster.Main(m) }

// limit is how long the tests of a driver may take. A suite has an hour, and also starts a cluster.
const limit = 50 * time.Minute

// TestCertification runs Kubernetes' tests of each driver, and compares the outcomes with the record.
func TestCertification(t *testing.T) {
	for _, d := range registry.All() {
		t.Run(d.Name, func(inner *testing.T) {
			if !*certify {
				inner.Skip("without -certify: see make prove SUITE=certification-" + d.Name)
			}
			cluster.NeedRealNodes(inner)
			t.Logf("%s: %s", d.Name, run(inner, d)) // make prove prints the whole test's log
		})
	}
}

// run returns how many tests have which outcome.
func run(t *testing.T, d drivers.Driver) string {
	t.Helper()
	has, err := certification.Capabilities(d)
	require.NoError(t, err)
	folder := t.ArtifactDir()
	require.NoError(t, manifests(d, folder))
	log, err := os.Create(filepath.Join(folder, "ginkgo.log"))
	require.NoError(t, err)
	defer log.Close()
	outcomes, err := Run{
		Cluster: start(t, d).Cluster, Folder: folder, Manifest: certification.ManifestFile, CSIName: d.CSIName,
		Processes: *processes, Limit: limit, Focus: *focus, Exclude: Exclude(d.Name, has), Log: log,
	}.Run(t.Context())
	require.NoError(t, err)
	if *focus != flag.Lookup("focus").DefValue {
		for _, o := range outcomes {
			if o.State != Skip {
				t.Logf("%s %s %s", o.State, o.Test, o.Message)
			}
		}
		return "ran only some tests"
	}
	got, err := NewRecord(d.Name, has, outcomes)
	assert.NoError(t, err)
	got.Date = time.Now().UTC().Format(time.DateOnly)
	got.Programs, err = testbed.Programs(d, nil)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(recordOf(d.Name), []byte(got.String()), 0o644))
	}
	content, err := os.ReadFile(recordOf(d.Name))
	require.NoError(t, err)
	want, err := ParseRecord(string(content))
	require.NoError(t, err)
	if diff := cmp.Diff(want.outcomes(), got.outcomes()); diff != "" {
		t.Errorf("the tests of driver %s with these programs: %s\ndiffer from the record of %s with these: %s\nif that is right, run with -update (-want +got):\n%s",
			d.Name, got.Programs, want.Date, want.Programs, diff)
	}
	return got.summary() + "; " + got.Programs
}

// shown is the part of the page that has the tables.
var shown = page.Part{
	File:  "../../docs/reference/certification.md",
	Begin: "<!-- The tables are written by go test ./test/certification -run TestPage -update. -->", End: "<!-- end of the tables -->",
	Update: "go test ./test/certification -run TestPage -update",
}

func TestPageShowsTheTables(t *testing.T) {
	records, err := Records()
	require.NoError(t, err)
	shown.Check(t, "\n"+Markdown(records)+"\n", *update)
}

// TestReasons: each reason explains a test, once all drivers that it applies to have a record, and each test that does
// not pass has a reason that applies to its driver.
func TestReasons(t *testing.T) {
	records, err := Records()
	require.NoError(t, err)
	used := map[string]bool{}
	for driver, record := range records {
		d, err := registry.Get(driver)
		require.NoError(t, err)
		has, err := certification.Capabilities(d)
		require.NoError(t, err)
		for name := range record.Skipped {
			if r := named(name); r.Name == "" || r.Kind == Fails || !r.applies(driver, has) {
				t.Errorf("the record of driver %s has tests that were skipped for the reason %q, which is none of that driver; run make prove SUITE=certification-%s", driver, name, driver)
			}
			used[name] = true
		}
		for _, test := range record.Failed {
			r, explained := Explain(driver, has, Outcome{Test: test, State: Fail})
			assert.Truef(t, explained, "no reason explains why a test of driver %s fails: %s", driver, test)
			used[r.Name] = true
		}
	}
	for _, r := range reasons {
		if !used[r.Name] && recorded(t, r, records) {
			t.Errorf("the reason %q explains no test of any driver: remove it", r.Name)
		}
		if strings.ContainsAny(r.Why, "|\n") || r.Why == "" {
			t.Errorf("reason %q: %q would break the table", r.Name, r.Why)
		}
	}
}

// recorded reports whether all drivers that a reason applies to have a record.
func recorded(t *testing.T, r Reason, records map[string]Record) bool {
	t.Helper()
	for _, d := range registry.All() {
		has, err := certification.Capabilities(d)
		require.NoError(t, err)
		if _, run := records[d.Name]; r.applies(d.Name, has) && !run {
			return false
		}
	}
	return true
}

func TestNewRecord(t *testing.T) {
	has := map[string]bool{"block": true}
	block, fails := "[Testpattern: Dynamic PV (block volmode)] volumes should store data", "[Testpattern: Dynamic PV (xfs)] volumes should store data"
	without := map[string]bool{}
	record, err := NewRecord("efs", without, []Outcome{{Test: "a", State: Pass}, {Test: block, State: Skip}, {Test: block, State: Skip}})
	record.Date, record.Programs = "2026-11-27", "driver: the real one, v9.9.9"
	require.NoError(t, err)
	assert.Equalf(t, "ran\t2026-11-27\tdriver: the real one, v9.9.9\npass\ta\nskip\t2\tblock\n", record.String(), "the record %q", record)
	parsed, err := ParseRecord(record.String())
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(record, parsed), "a record that was written and read differs (-want +got)")
	_, err = ParseRecord("pass\ta\n")
	assert.ErrorContains(t, err, "want ran, the date and the programs", "a record that does not say what ran")
	_, err = NewRecord("ebs", has, []Outcome{{Test: block, State: Skip, Message: "not today"}, {Test: fails, State: Fail, Message: "no space left"}})
	for _, want := range []string{"skip, and no reason explains it: " + block + "\nnot today", "fail, and no reason explains it: " + fails + "\nno space left"} {
		assert.ErrorContains(t, err, want, "got the error")
	}
}

func TestRead(t *testing.T) {
	const driver = "x.example.com"
	spec := func(kind, state, message string) string {
		return fmt.Sprintf(`{"ContainerHierarchyTexts":["External Storage [Driver: %s]","[Testpattern: P]","volumes"],"LeafNodeType":%q,"LeafNodeText":"should store data","State":%q,"Failure":{"Message":%q}}`, driver, kind, state, message)
	}
	for _, tc := range []struct {
		name, specs, err string
		want             []Outcome
	}{
		{"outcomes", spec("It", "passed", "") + "," + spec("It", "timedout", "too late") + "," + spec("It", "skipped", "no"), "", []Outcome{
			{"[Testpattern: P] volumes should store data", Pass, ""}, {"[Testpattern: P] volumes should store data", Fail, "too late"}, {"[Testpattern: P] volumes should store data", Skip, "no"}}},
		{"preparation", spec("SynchronizedBeforeSuite", "failed", "no nodes"), "no nodes", nil},
		{"interrupted", spec("It", "interrupted", ""), `has the state "interrupted"`, nil},
		{"none", "", "no test whose name begins", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(`[{"SpecReports":[`+tc.specs+`]}]`), driver)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err, "got the error")
				return
			}
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(tc.want, got), "outcomes (-want +got)")
		})
	}
}
