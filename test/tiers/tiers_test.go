package main

import (
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/trials"
)

var update = flag.Bool("update", false, "write the table of promises into docs/contribute/develop.md")

const root = "../.."

// TestSplitsNameTests: a test that was renamed would silently be in the wrong tier.
func TestSplitsNameTests(t *testing.T) {
	for _, s := range splits {
		tests := mustHaveTests(t, s.pkg)
		if len(s.first) > 0 && len(s.second) > 0 {
			t.Errorf("%s: want the names of the tests of one tier, got %d of the first and %d of the second", s.pkg, len(s.first), len(s.second))
		}
		for _, name := range slices.Concat(s.first, s.second, s.third) {
			top, _, _ := strings.Cut(name, "/")
			assert.Containsf(t, tests, top, "tests of %s", s.pkg)
		}
	}
	for pkg, run := range raceJourneys {
		for name := range strings.SplitSeq(run, "|") {
			assert.Containsf(t, mustHaveTests(t, pkg), strings.Trim(name, "^$"), "%s has no test %s", pkg, name)
		}
	}
	for pkg := range weights {
		mustHaveTests(t, pkg)
	}
}

// TestPromisesAreInTheFirstTier: each promise has a test that make test runs.
func TestPromisesAreInTheFirstTier(t *testing.T) {
	for _, p := range promises {
		assert.Containsf(t, mustHaveTests(t, p.pkg), p.test, "%s: %s has no test %s", p.promise, p.pkg, p.test)
		s, ok := splitOf(p.pkg)
		if ok && s.tierOf(p.test) != first && !namesSubtest(s.first, p.test) {
			t.Errorf("%s: the first tier does not run %s of %s", p.promise, p.test, p.pkg)
		}
	}
}

// TestAttacksAreTried: the table of attacks matches the first two tiers.
func TestAttacksAreTried(t *testing.T) {
	for _, area := range trials.Areas {
		for _, a := range area.Attacks {
			pkg, test, _ := strings.Cut(a.Test, " ")
			test, _, _ = strings.Cut(test, "/")
			if s, ok := splitOf(pkg); ok && s.tierOf(test) == third {
				t.Errorf("%s: %s of %s is in the third tier", a.Attack, test, pkg)
			}
		}
	}
}

// TestAttacksInTheFirstTier: make test tries an attack of each area.
func TestAttacksInTheFirstTier(t *testing.T) {
	for _, area := range trials.Areas {
		if !slices.ContainsFunc(area.Attacks, func(a trials.Attack) bool {
			pkg, test, _ := strings.Cut(a.Test, " ")
			return isInFirstTier(pkg, test)
		}) {
			t.Errorf("%s: the first tier has none of its %d attacks", area.Name, len(area.Attacks))
		}
	}
}

func isInFirstTier(pkg, test string) bool {
	s, ok := splitOf(pkg)
	if !ok {
		return true
	}
	j, ok := s.job(first)
	return ok && runs(j, test)
}

// sweepsOfOtherTiers are the packages whose sweeps are not in the first tier, with the first tier's replacement.
var sweepsOfOtherTiers = map[string]string{
	"migrate/subscription": "a run of real OLM takes half a minute: migrate TestApplyKilledAtEachWrite kills the engine at each write",
	"migrate/move":         "a move takes half a minute: as above",
	"test/clusterstorage":  "a hand-over takes minutes: as above",
}

// TestSweepsInTheFirstTier: make test tries a fault of each sweep.
func TestSweepsInTheFirstTier(t *testing.T) {
	sweeps := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		pkg := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), root+"/"))
		if err != nil || pkg == "lab/fault" || pkg == "test/tiers" || !strings.Contains(string(source), "fault.Sweep(") {
			return err
		}
		sweeps++
		s, ok := splitOf(pkg)
		if !ok {
			return nil
		}
		j, _ := s.job(first)
		someOf := namesSubtest(s.first, "TestCrashSweep") || namesSubtest(s.second, "TestCrashSweep") && runs(j, "TestCrashSweep/other")
		if why := sweepsOfOtherTiers[pkg]; someOf == (why != "") {
			t.Errorf("%s: the first tier has a fault of its sweep: %t; in sweepsOfOtherTiers: %q", pkg, someOf, why)
		}
		return nil
	})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, sweeps, 6, "sweeps")
}

// TestPageShowsThePromises: docs/contribute/develop.md has the table. -update writes it there.
func TestPageShowsThePromises(t *testing.T) {
	table := page.Part{
		File:  filepath.Join(root, "docs/contribute/develop.md"),
		Begin: "<!-- The table is written by go test ./test/tiers -update. -->", End: "<!-- end of the table -->",
		Update: "go test ./test/tiers -update",
	}
	table.Check(t, "\n"+promisesTable()+"\n", *update)
}

func namesSubtest(names []string, test string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, test+"/") })
}

// TestTiersTogetherAreAll: a test is in one tier, as go test understands the two patterns.
func TestTiersTogetherAreAll(t *testing.T) {
	for _, s := range splits {
		for _, test := range mustHaveTests(t, s.pkg) {
			var in []string
			for _, tier := range []string{first, second, third} {
				if j, ok := s.job(tier); ok && runs(j, test) {
					in = append(in, tier)
				}
			}
			if !namesSubtest(slices.Concat(s.first, s.second), test) && !slices.Equal(in, []string{s.tierOf(test)}) {
				t.Errorf("%s %s: go test runs it in the tiers %q, want %s", s.pkg, test, in, s.tierOf(test))
			}
		}
	}
}

// TestLab: the lab's own tests are in the second tier as a whole, and as others once somebody changes the lab.
func TestLab(t *testing.T) {
	packages := []testedPackage{{ImportPath: module + "lab/ports", TestImports: []string{"testing"}}, {ImportPath: module + "olm/upgrade", TestImports: []string{"testing"}}}
	for _, s := range splits {
		packages = append(packages, testedPackage{ImportPath: module + s.pkg, TestImports: []string{"testing"}})
	}
	for _, tc := range []struct {
		tier                string
		changed             bool
		ports, upgrade      bool
		startsOne, restores bool // tests of lab/cluster in the first tier, and in the second
	}{
		{first, false, false, true, false, false},
		{second, false, true, false, true, true},
		{ofLab, false, true, false, true, true},
		{first, true, true, true, true, false},
		{second, true, false, false, false, true},
		{ofLab, true, true, false, true, true},
	} {
		jobs, err := plan(tc.tier, packages, tc.changed)
		require.NoError(t, err)
		has := func(pkg, test string) bool {
			return slices.ContainsFunc(jobs, func(j job) bool { return slices.Contains(j.packages, pkg) && runs(j, test) })
		}
		for pkg, want := range map[string]bool{"lab/ports": tc.ports, "olm/upgrade": tc.upgrade} {
			assert.Equalf(t, want, has(pkg, "TestAny"), "tier %s, lab changed %t: it has %s", tc.tier, tc.changed, pkg)
		}
		if has("lab/cluster", "TestControlPlane") != tc.startsOne || has("lab/cluster", "TestRestore") != tc.restores {
			t.Errorf("tier %s, lab changed %t: it has tests of lab/cluster in the first tier %t, in the second %t, want %t and %t", tc.tier, tc.changed,
				has("lab/cluster", "TestControlPlane"), has("lab/cluster", "TestRestore"), tc.startsOne, tc.restores)
		}
	}
}

// TestLabHasChanged: a change in a clone, committed or not, is seen, and one elsewhere does not count.
func TestLabHasChanged(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	git := func(args ...string) {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput()
		require.NoErrorf(t, err, "git %q: %s", args, out)
	}
	write := func(name string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(name), 0o644))
	}
	mustBe := func(want bool, when string) {
		t.Helper()
		assert.Equalf(t, want, labHasChanged(t.Context()), "%s: changed", when)
	}
	mustBe(true, "without Git")
	git("init", "-q", "-b", "main")
	write("lab/a.go")
	git("add", ".")
	git("commit", "-qm", "a")
	mustBe(true, "without origin/main")
	git("update-ref", "refs/remotes/origin/main", "HEAD")
	mustBe(false, "of origin/main")
	write("docs/b.md")
	mustBe(false, "a page is new")
	write("lab/b.go")
	mustBe(true, "a file is new")
	git("add", ".")
	git("commit", "-qm", "b")
	mustBe(true, "a file is committed")
}

// runs reports whether go test runs a test, perhaps a subtest.
func runs(j job, test string) bool {
	matches := func(pattern string, test []string) bool {
		for name := range strings.SplitSeq(pattern, "|") {
			elements := strings.Split(name, "/")
			if len(elements) > len(test) {
				continue
			}
			all := true
			for i, element := range elements {
				all = all && regexp.MustCompile(element).MatchString(test[i])
			}
			if all {
				return true
			}
		}
		return false
	}
	elements := strings.Split(test, "/")
	return (j.run == "" || matches(j.run, elements)) && (j.skip == "" || !matches(j.skip, elements))
}

func TestPattern(t *testing.T) {
	assert.Equal(t, `^TestA$|^TestB$/^one\.two$`, pattern([]string{"TestA", "TestB/one.two"}))
}

// TestNeedCluster: a package needs a cluster if its tests can start one, also by other packages that support tests.
func TestNeedCluster(t *testing.T) {
	packages := []testedPackage{
		{ImportPath: module + "support", Imports: []string{clusterPackage}},
		{ImportPath: clusterPackage, TestImports: []string{"testing"}},
		{ImportPath: module + "direct", XTestImports: []string{clusterPackage}},
		{ImportPath: module + "indirect", TestImports: []string{module + "support"}},
		{ImportPath: module + "alone", TestImports: []string{"testing", module + "direct"}},
	}
	needs := needCluster(packages)
	for _, p := range packages[1:] {
		assert.Equal(t, p.name() != "alone", needs(p), p.name())
	}
}

func mustHaveTests(t *testing.T, pkg string) []string {
	t.Helper()
	tests, err := trials.TestsIn(filepath.Join(root, pkg))
	require.NoError(t, err)
	assert.NotEmptyf(t, tests, "%s has no tests", pkg)
	return tests
}

// TestReport: failures are counted and named, also of a package that failed without a failing test.
func TestReport(t *testing.T) {
	r := newReport([]job{{packages: []string{"good", "bad", "broken"}, weight: 3}})
	for _, event := range []trials.Event{
		{Action: "pass", Package: "good", Test: "TestA", Elapsed: 2}, {Action: "skip", Package: "good", Test: "TestB"}, {Action: "pass", Package: "good", Elapsed: 3},
		{Action: "output", Package: "bad", Test: "TestC", Output: "why\n"}, {Action: "fail", Package: "bad", Test: "TestC"}, {Action: "fail", Package: "bad"},
		{Action: "output", Package: "broken", Output: "panic\n"}, {Action: "fail", Package: "broken"},
	} {
		r.add(event, job{packages: []string{"good", "bad", "broken"}, weight: 3})
	}
	if r.passed != 1 || r.failed != 1 || r.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped, want 1 of each", r.passed, r.failed, r.skipped)
	}
	assert.Equal(t, "1 tests failed:\n  bad TestC\n  broken", r.complaint())
	assert.Contains(t, r.slowest(), "  3.0 s  good                         of which 2.0 s TestA")
}

// TestMissedTest: a test that a tier names and that is not there is a failure.
func TestMissedTest(t *testing.T) {
	r := newReport(nil)
	r.add(trials.Event{Action: "pass", Package: "a/b", Test: "TestA/one/of two"}, job{weight: 1})
	r.misses(job{packages: []string{"a/b"}, named: []string{"TestA", "TestA/one", "TestA/one/of two", "TestA/two"}})
	assert.Equal(t, []string{"a/b TestA/two is not there: see splits.go"}, r.broken)
}

// TestInterruptEndsTests: a signal reaches the test binaries that go test waits for.
func TestInterruptEndsTests(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started") // a pipe, which can be read once the program has written to it
	require.NoError(t, syscall.Mkfifo(started, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\nsh -c '>"+started+"; exec sleep 1000'\ntrue\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		newReport(nil).run(ctx, first, job{packages: []string{"slow"}}, io.Discard)
		close(ended)
	}()
	_, err := os.ReadFile(started)
	require.NoError(t, err)
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the tests' program still runs a minute after the signal")
	}
}

// TestReasons: a tier ends with the messages of its failed tests, without the logs of their clusters.
func TestReasons(t *testing.T) {
	output := []string{
		"    cluster.go:126: cluster: starting\n",
		"    tide_test.go:12: \n",
		"        \tError Trace:\ttide_test.go:12\n",
		"        \tError:      \tIt ebbs.\n",
		"=== NAME  TestTide\n",
		"    testing.go:138: --- end of kube-scheduler.log\n",
		"        E1129 20:43:04 \"late\" status=\"not found\"\n",
	}
	r := newReport(nil)
	for _, line := range output {
		r.add(trials.Event{Action: "output", Package: "sea", Test: "TestTide", Output: line}, job{})
	}
	r.add(trials.Event{Action: "fail", Package: "sea", Test: "TestTide"}, job{})
	assert.Equal(t, "1 tests failed:\n  sea TestTide\n    tide_test.go:12: \n        \tError Trace:\ttide_test.go:12\n        \tError:      \tIt ebbs.", r.complaint())
}
