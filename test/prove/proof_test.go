package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/page"
)

var update = flag.Bool("update", false, "write docs/reference/proofs.md")

// oneSpace has a space for each break of a line, and for each indentation.
func oneSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestPagesSayWhatIsClaimed: a claim is a sentence of its page, word for word, and has a name of its own.
func TestPagesSayWhatIsClaimed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range claims {
		assert.Falsef(t, seen[c.id], "there are two claims %q", c.id)
		seen[c.id] = true
		content, err := os.ReadFile(filepath.Join("../..", c.page))
		require.NoError(t, err)
		assert.Containsf(t, oneSpace(string(content)), c.sentence, "claim %s: %s", c.id, c.page)
	}
}

// TestClaimsCanBeProved: what proves a claim exists, as a suite, or as tests of a package.
func TestClaimsCanBeProved(t *testing.T) {
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)
	for _, c := range claims {
		if c.suite != "" {
			assert.Truef(t, slices.ContainsFunc(suites, func(s suite) bool { return s.name == c.suite }), "claim %s: there is no suite %q", c.id, c.suite)
			continue
		}
		s := c.by()
		whole, _, _ := strings.Cut(cmp.Or(s.bench, s.run), "/")
		wanted := regexp.MustCompile(whole)
		for _, folder := range strings.Fields(s.pkg) { // go test says nothing of a package in which no test has a name that is wanted
			files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
			require.NoError(t, err)
			found := false
			for _, file := range files {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, match := range function.FindAllStringSubmatch(string(content), -1) {
					found = found || wanted.MatchString(match[1])
				}
			}
			assert.Truef(t, found, "claim %s: %s has no test %s", c.id, folder, wanted)
		}
		_, err := c.versions()
		assert.NoErrorf(t, err, "claim %s", c.id)
	}
}

// TestRecordsAreOfClaims: a record is of a claim as it is now, by the tests that prove it now, and within the bounds of now.
func TestRecordsAreOfClaims(t *testing.T) {
	records, err := readRecords("proofs")
	require.NoError(t, err)
	for id, r := range records {
		at := slices.IndexFunc(claims, func(c claim) bool { return c.id == id })
		if at < 0 {
			t.Errorf("there is a record of %q, which is no claim", id)
			continue
		}
		c := claims[at]
		again := fmt.Sprintf("make proof CLAIM=%s RECORD=yes proves it again", id)
		assert.Equalf(t, c.sentence, r.Sentence, "the record of %s is of another sentence; %s", id, again)
		assert.Emptyf(t, gocmp.Diff(r.Tests, c.by().arguments()), "the record of %s is of other tests (-record +now); %s", id, again)
		if err := c.broken(r.Figures); err != nil || len(r.Figures) != len(c.figures) {
			t.Errorf("the record of %s has the figures %v: %v; %s", id, r.Figures, err, again)
		}
	}
}

// TestMayRecord: what a record itself changes does not prevent the next one, and any other change does.
func TestMayRecord(t *testing.T) {
	root := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"}} {
		output, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).CombinedOutput()
		require.NoError(t, err, string(output))
	}
	write := func(file string) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte("x"), 0o644))
	}
	for _, file := range []string{recordsFolder + "/tls.json", versionsPage, recordsPage} {
		write(file)
	}
	require.NoError(t, mayRecord(t.Context(), root))
	write("other")
	require.ErrorContains(t, mayRecord(t.Context(), root), "commit these first:\n?? other")
}

func TestPagesShowTheRecords(t *testing.T) {
	records, err := readRecords("proofs")
	require.NoError(t, err)
	page.Part{
		File:  "../../" + versionsPage,
		Begin: "<!-- The table is written by go test ./test/prove -run TestPagesShow -update. -->", End: "<!-- end of the table -->",
		Update: "go test ./test/prove -run TestPagesShow -update",
	}.Check(t, versionsTable(records), *update)
	page.Part{
		File:  "../../" + recordsPage,
		Begin: "<!-- The tables are written by go test ./test/prove -run TestPagesShow -update. -->", End: "<!-- end of the tables -->",
		Update: "go test ./test/prove -run TestPagesShow -update",
	}.Check(t, markdown(records), *update)
}

// TestMarkdown: a claim without a record is never called proved.
func TestMarkdown(t *testing.T) {
	id := claims[0].id
	if text := markdown(nil); strings.Contains(text, "| [20") || strings.Count(text, unproved) != len(claims) {
		t.Errorf("without a record the page says:\n%s", text)
	}
	text := markdown(map[string]record{id: {Claim: id, Date: "2026-11-29", Passed: 2, Seconds: 90, Log: "sha256:0123456789abcdef"}})
	if want := "| 2 passed in 1m30s | – | `sha256:0123456789ab` |\n"; !strings.Contains(text, want) || strings.Count(text, unproved) != len(claims)-1 {
		t.Errorf("with a record of %s the page says:\n%s\nwant %q", id, text, want)
	}
}

// pods is output of the suite catalog-pods, and templates output of BenchmarkTemplate.
const (
	pods = `    pods_test.go:95: berth metadata | 0.11 s | 3 s | 0 | 20.1+3.0 | 40.2+3.5 | 0 | 350000 in 9.1 s | 9, 19, 20
    pods_test.go:102: opm within 50Mi metadata | it did not answer | restarts 4
    pods_test.go:95: berth community | 0.11 s | 3 s | 0 | 20.1+3.0 | 60.2+3.5 | 0 | 350000 in 9.1 s | 9, 19, 20
`
	templates = "BenchmarkTemplate/small-bundles/loopback-2         \t       1\t         0 ns/op\t        20.1 MiB-anonymous\t         2.10 s\t         3.70 x-faster\t        40.1 x-faster-again\t 5.0 x-less-cpu\n" +
		"BenchmarkTemplate/large-bundles/loopback-2         \t       1\t         0 ns/op\t        20.1 MiB-anonymous\t         2.10 s\t         4.20 x-faster\t        40.1 x-faster-again\t 5.0 x-less-cpu\n" +
		"BenchmarkTemplate/large-bundles/remote-2         \t       1\t         0 ns/op\t        20.1 MiB-anonymous\t         2.10 s\t         5.20 x-faster\t        40.1 x-faster-again\t 5.0 x-less-cpu\n"
)

// TestFigures: the worst figure in the log is compared with the bound.
func TestFigures(t *testing.T) {
	for id, tc := range map[string]struct {
		log    string
		want   map[string]float64
		broken string
		missed string
	}{
		"catalog-memory": {log: pods, want: map[string]float64{"MiB at most, with 50 clients": 43.7, "restarts of opm": 4}},
		"templates": {log: templates, want: map[string]float64{"times as fast": 3.7, "times as fast, with a registry of 20 ms": 5.2},
			broken: "templates does not hold: times as fast, with a registry of 20 ms is 5.2, want at least 6"},
		"templates, of which nothing is said": {log: "PASS\n", missed: "the log does not say times as fast"},
	} {
		t.Run(id, func(t *testing.T) {
			name, _, _ := strings.Cut(id, ",")
			c := claims[slices.IndexFunc(claims, func(c claim) bool { return c.id == name })]
			got, err := c.measure(tc.log)
			if diff := gocmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.missed == "") || err != nil && !strings.Contains(err.Error(), tc.missed) {
				t.Fatalf("error %v (-want +got):\n%s", err, diff)
			}
			said := ""
			if err := c.broken(got); err != nil && tc.missed == "" {
				said = err.Error()
			}
			assert.EqualValues(t, tc.broken, said)
		})
	}
}

func TestCompare(t *testing.T) {
	c := claim{id: "speed", figures: []figure{{name: "times", atLeast: 2}}}
	now := record{Passed: 3, Seconds: 7, Figures: map[string]float64{"times": 2.5}}
	before := map[string]record{"speed": {Date: "2026-11-29", Passed: 3, Seconds: 6, Figures: map[string]float64{"times": 3}}}
	for of, want := range map[string]string{
		"record":               "| speed | now | bound | record |\n| --- | --- | --- | --- |\n| tests that passed | 3 | | none |\n| seconds | 7 | | none |\n| times | 2.5 | at least 2 | none |\n",
		"record of 2026-11-29": "| speed | now | bound | record of 2026-11-29 |\n| --- | --- | --- | --- |\n| tests that passed | 3 | | 3 |\n| seconds | 7 | | 6 |\n| times | 2.5 | at least 2 | 3 |\n",
	} {
		records := before
		if of == "record" {
			records = nil
		}
		assert.Emptyf(t, gocmp.Diff(want, c.compare(now, records)), "%s (-want +got)", of)
	}
}

// TestClaimsAreNamed: without a claim, make proof lists them, and says which have no record.
func TestClaimsAreNamed(t *testing.T) {
	want := regexp.MustCompile(`(?m)^  catalog-memory +README.md; `)
	var listed strings.Builder
	if err := run(t.Context(), []string{"-claim", ""}, &listed); err != nil || !want.MatchString(listed.String()) {
		t.Errorf("error %v, and\n%s", err, &listed)
	}
	for _, args := range [][]string{{"-claim", "speed"}, {"-record", ""}} {
		if err := run(t.Context(), args, &strings.Builder{}); err == nil || !want.MatchString(err.Error()) {
			t.Errorf("%q: got error %v, want the names of all claims", args, err)
		}
	}
}
