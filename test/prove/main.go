// Command prove runs one of the suites that take too long for "make test", and ends with a table of results. It fails if a test fails or
// is skipped. Of tests that not every machine can run, it only names the skipped ones.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/drivers/matrix"
	"github.com/berth-csi/berth/test/trials"
)

// limit is the time limit of a suite, unless it has its own.
const limit = 2 * time.Hour

// suite is a set of tests of one or several packages.
type suite struct {
	name    string
	about   string
	pkg     string   // a package, or several with spaces between them
	run     string   // which tests, as in go test -run
	options []string // of the tests
	bench   string   // which benchmarks instead, as in go test -bench
	logs    bool     // prints what all tests log, not only failing tests
	given   string   // the variable that names what it needs besides the clone
	limit   time.Duration
	// kubernetes is the version of Kubernetes of its clusters, if it is not the pinned one.
	kubernetes string
	// optional matches the names of tests that may be skipped, because no program can get what they need on some machines.
	optional *regexp.Regexp
	// report, which may be nil, returns additional output from the tests' outcomes by name, and the names of missing
	// tests.
	report func(outcomes map[string]string) (text string, missing []string)
}

var suites = slices.Concat(ordinary, certifications(), ofVersions())

// certifications returns a suite for each driver: all drivers together would take hours.
func certifications() (all []suite) {
	for _, name := range registry.Names() {
		all = append(all, suite{
			name: "certification-" + name, about: "Kubernetes' external storage tests with the driver " + name + ", on real nodes: the table of docs/reference/certification.md, as root",
			pkg: "./test/certification", run: "^TestCertification$/^" + name + "$", options: []string{"-certify"}, logs: true,
		})
	}
	return all
}

var ordinary = []suite{
	{name: "gates-replay", given: "OPERATORS", about: "the last 300 merged changes of each repository of operators in the variable OPERATORS, a list of clones with their history: no errors except errors that the pipelines' own rules raise, too, or that test/gates/testdata/faults.txt lists", pkg: "./test/gates", run: "^TestReplay$", logs: true},
	{name: "bundles", given: "OPERATORS", about: "every bundle of the repositories of operators in the variable OPERATORS, a list of clones: the same bytes as opm's, no refusal that opm does not have, and a sample of errors that opm, OLM or the API server have, too; test/bundles has -part=K/N for a part", pkg: "./test/bundles", run: "^TestPublished", logs: true},
	{name: "costs", about: "every command with hostile inputs ten times as large as in make test, each in a process with a budget of seconds and MiB: its table", pkg: "./cmd/berth", run: "^TestCosts$", options: []string{"-all-costs"}, logs: true},
	{name: "pairs", about: "hostile texts in each field of catalogs, bundles and repositories of operators, with each report of each command in each format (make test tries one pair in forty); each fixture with each report in each format (make test tries one format); whole commands with each hostile text; and each hostile text in each field of each kind that must-gather collects (make test tries one text in each)", pkg: "./cmd/berth ./test/reports ./test/mustgather", run: "^Test(Pairs|EveryFormat|HostileFiles)$", options: []string{"-all-pairs"}, logs: true},
	{name: "sweep-operator-install", about: "every fault at every write and watch of the operator while it installs a driver", pkg: "./operator", run: "^TestCrashSweep$/^install$", options: []string{"-all-faults"}},
	{name: "sweep-operator-adopt", about: "the same while it adopts the objects of an earlier operator", pkg: "./operator", run: "^TestCrashSweep$/^adopt$", options: []string{"-all-faults"}},
	{name: "sweep-operator-uninstall", about: "the same while it removes the driver", pkg: "./operator", run: "^TestCrashSweep$/^uninstall$", options: []string{"-all-faults"}},
	{name: "sweep-sharedvolume", about: "every fault at every write and watch of the SharedVolume controller", pkg: "./sharedvolume", run: "^TestCrashSweep$", options: []string{"-all-faults"}},
	{name: "sweep-clusterstorage", about: "every fault at every write and watch of the cluster storage operator", pkg: "./operator/clusterstorage", run: "^TestCrashSweep$", options: []string{"-all-faults"}},
	{name: "sweep-switch", about: "every fault at every write of berth switch", pkg: "./migrate/subscription", run: "^TestCrashSweep$", options: []string{"-all-faults"}},
	{name: "sweep-csi-migration", about: "every fault at every write of berth csi-migration", pkg: "./migrate/csimigration", run: "^TestCrashSweep$", options: []string{"-all-faults"}},
	{name: "csi-migration", about: "a StatefulSet with an in-tree EBS or Cinder volume while CSI migration goes on, off and on, with the real drivers on real nodes, as root", pkg: "./migrate/csimigration", run: "^TestStatefulSetOnRealNodes$", options: []string{"-all-migrations"}},
	{name: "adopt", about: "each driver is handed over to the cluster storage operator from each operator of OLM, and what can go wrong", pkg: "./test/clusterstorage", run: "^TestAdoption(ByOLM|Killed|Refusals|Failures)?$", options: []string{"-all-adoptions"}},
	{name: "adopt-drivers", about: "real EBS and Manila drivers are handed over from OLM to the cluster storage operator while pods write, as root", pkg: "./test/drivers/continuity", run: "^TestAdopt", options: []string{"-all-drivers"}, logs: true},
	{name: "sweep-adopt", about: "every fault at every write with which the cluster storage operator, or berth adopt, hands a driver over", pkg: "./test/clusterstorage", run: "^TestAdoptionSweep$", options: []string{"-all-faults"}},
	{name: "sweep-move", about: "every fault at every write of berth move, there and back, with the real OLM v0 and a stand-in for each applier of OLM v1", pkg: "./migrate/move", run: "^TestCrashSweep$", options: []string{"-all-faults"}, limit: 4 * time.Hour},
	{name: "move", given: "BOXCUTTER", about: "operators of many shapes move from the real OLM v0 to the real OLM v1 and back, by Helm and by Boxcutter, or are refused with the reason, also if the tool is killed, as root; with OPERATORS=DIR, also public operators", pkg: "./test/olmv1", run: "^TestMoves$", options: []string{"-olm-v1"},
		optional: regexp.MustCompile("^TestMoves/[^/]+/public$"), logs: true},
	{name: "move-drivers", given: "BOXCUTTER", about: "the EFS, EBS and Manila operators move from OLM v0 to OLM v1 and back, by Helm and by Boxcutter, while pods write to volumes of the real drivers: the longest pauses, as root", pkg: "./test/drivers/continuity", run: "^TestMove", options: []string{"-all-drivers"}, logs: true},
	{name: "random", about: "the SharedVolume controller against a model, for half an hour of random actions", pkg: "./sharedvolume", run: "^TestRandomSequences$", options: []string{"-random-time=30m"}},
	{name: "openstack", about: "the real Manila and Cinder drivers against the OpenStack cloud", pkg: "./lab/openstack", run: "Driver(Sanity)?$", options: []string{"-drivers"}},
	{name: "aws", about: "the controllers of the EBS and EFS drivers against the fake AWS, as root", pkg: "./lab/aws", run: "^Test(EBS|EFS)Driver(Sanity)?$", options: []string{"-drivers"}},
	{name: "continuity", about: "pods that write continuously are not affected by what happens to a driver and its operator, as root", pkg: "./test/drivers/continuity", run: "^Test(EFS|EBS|Manila)$", options: []string{"-all-drivers"}, logs: true},
	{name: "olm-v1", about: "the EFS operator moves from OLM v0 to OLM v1, is updated, and leaves its API when it is removed, by the commands of docs/move/olm-v1.md, as root", pkg: "./test/drivers/continuity", run: "^TestEFSOfOLMv1$", options: []string{"-all-drivers"}, logs: true},
	{name: "olm-v1-predictions", given: "BOXCUTTER", about: "what berth catalog plan says of ClusterExtensions is what OLM v1 does, in six setups, as root; with OPERATORS=DIR, also of public operators", pkg: "./test/olmv1", run: "^TestPredictions", options: []string{"-olm-v1"},
		optional: regexp.MustCompile("^TestPredictionsOfPublicOperators$")},
	{name: "published", about: "what make release pushes to a registry runs: under OLM v0, from images of the catalog and bundles, and under OLM v1, with must-gather, as root", pkg: "./test/drivers/continuity", run: "^TestPublishedRelease$", options: []string{"-all-drivers"}, logs: true},
	{name: "endurance", about: "500 nodes and 5,000 claims of the EBS driver, beside which claims come and go for an hour, as root", pkg: "./test/drivers/endurance", run: "^TestChurn$", options: []string{"-endurance=1h", "-nodes=500", "-claims=5000"}, logs: true},
	{name: "pages", about: "the pages about the EFS driver, from its installation to its removal, and moves from other operators: an administrator runs their commands", pkg: "./test/e2e", run: "^Test(FollowPages|MoveOver|FollowSwitchPage)$", options: []string{"-follow-pages"}, logs: true},
	{name: "demonstrations", about: "each demonstration runs to its end, as root", pkg: "./test/demo", run: "^TestDemonstrations$", options: []string{"-demonstrations"}, logs: true},
	{name: "life", about: "the long life of a cluster with the EFS driver, and its journal, as root", pkg: "./test/drivers/continuity", run: "^TestLife$", options: []string{"-all-drivers"}, logs: true},
	{name: "life-clusterstorage", about: "the life of a cluster with the cluster storage operator, on AWS and OpenStack", pkg: "./test/clusterstorage", run: "^TestLife$", options: []string{"-all-lives"}},
	{name: "rolling", about: "the nodes of each platform are drained, restarted and updated one after the other, and the drivers updated: the journal of all conditions", pkg: "./test/clusterstorage", run: "^TestRolling$", options: []string{"-all-rolls"}, logs: true},
	{name: "catalog-pods", about: "pods of catalogs under OLM on a real node, with 50Mi and 50 clients, beside opm's: memory, first answers, answers a second, as root", pkg: "./test/catalogs/pods", run: "^TestPods$", options: []string{"-pods"}, logs: true},
	{name: "sample", about: "the permissions of the sample driver's operator, which is in no release", pkg: "./test/e2e", run: "^TestPermissionsAreExact$/^sample$", options: []string{"-tags=sample"}},
	{name: "permissions-clusterstorage", about: "the permissions of the cluster storage operator and of the operators that it runs, on each platform", pkg: "./test/clusterstorage", run: "^TestPermissionsAreExact$", options: []string{"-all-platforms"}},
	{name: "programs", about: "every CSI sidecar and driver is built, packed into an image, and starts in it", pkg: "./test/drivers/images", run: "^TestImages$", options: []string{"-all-images"}},
	{name: "release", about: "a release as the workflow makes it, from a clean clone, for all architectures, signed and verified, and the same programs from another clone", pkg: "./release", run: "^TestSignedRelease$", options: []string{"-all-architectures"}, logs: true},
	{name: "efs-utils", about: "the image efs-utils-base is built on Debian, and mount.efs, its tunnels, the watchdog and the driver work in it, as root", pkg: "./efs-utils-base", run: "^TestImages$", options: []string{"-build-images"}, logs: true,
		optional: regexp.MustCompile("^TestImages/driver$")},
	{name: "release-efs-utils", about: "a release that builds the EFS driver's image on efs-utils-base, as root", pkg: "./release", run: "^TestEFSDriver$", options: []string{"-build-efs-driver"}, logs: true},
	{name: "drivers", about: "what each driver can do, on real nodes: the matrix of docs/reference/drivers.md, as root", pkg: "./test/drivers/matrix", run: "^TestMatrix$", options: []string{"-all-drivers"},
		optional: regexp.MustCompile("/expand/ext4$"), report: matrix.Report},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "prove: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "-matrix" {
		return writeMatrix(out, strings.Join(args[1:], ""))
	}
	if len(args) > 0 && (args[0] == "-claim" || args[0] == "-record") {
		return proveClaim(ctx, strings.Join(args[1:], ""), args[0] == "-record", out)
	}
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("want the name of one suite, for example make prove SUITE=%s:\n%s", suites[0].name, list())
	}
	at := slices.IndexFunc(suites, func(s suite) bool { return s.name == args[0] })
	if at < 0 {
		return fmt.Errorf("there is no suite %q, want one of:\n%s", args[0], list())
	}
	return suites[at].prove(ctx, out)
}

// writeMatrix writes a workflow's matrix as JSON: the name of one suite or, if only is empty, the names of all suites that need nothing
// besides the clone and build no other Kubernetes.
func writeMatrix(out io.Writer, only string) error {
	names := []string{}
	for _, s := range suites {
		if s.name == only || only == "" && s.given == "" && s.kubernetes == "" {
			names = append(names, s.name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("there is no suite %q, want one of:\n%s", only, list())
	}
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, string(text))
	return err
}

func list() string {
	var text strings.Builder
	for _, s := range suites {
		fmt.Fprintf(&text, "  %-26s %s\n", s.name, s.about)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// prove runs the suite's tests and prints failing and skipped tests, a line each minute, and the table.
func (s suite) prove(ctx context.Context, out io.Writer) error {
	_, err := s.proveWithLog(ctx, out, io.Discard)
	return err
}

// proveWithLog is like prove, and also writes all that the tests print to a log. It returns how many tests passed.
func (s suite) proveWithLog(ctx context.Context, out, log io.Writer) (passed int, err error) {
	began := time.Now()
	fmt.Fprintf(out, "%s: %s; at most %s\n", s.name, s.about, cmp.Or(s.limit, limit))
	tests := exec.CommandContext(ctx, "go", s.arguments()...)
	tests.Cancel = func() error { return tests.Process.Signal(os.Interrupt) }
	tests.Stderr = os.Stderr
	if s.kubernetes != "" {
		tests.Env = append(os.Environ(), tools.KubernetesVariable+"="+s.kubernetes)
	}
	events, err := tests.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := tests.Start(); err != nil {
		return 0, err
	}
	t := tally{out: out, log: log, began: began, benchmarks: s.bench != "", logs: s.logs, optional: s.optional, outputs: map[string][]string{}, outcomes: map[string]string{}}
	readErr := trials.Each(events, t.add)
	runErr := tests.Wait()
	fmt.Fprintf(out, "\n%s\n%s: %s\n", t.table(), s.name, time.Since(began).Round(time.Second))
	return t.all().passed, cmp.Or(readErr, t.complaint(), s.complaint(t.outcomes, out), runErr)
}

// arguments returns the arguments of the go command that runs the suite's tests.
func (s suite) arguments() []string {
	args := []string{"test", "-json", "-count=1", "-timeout=" + cmp.Or(s.limit, limit).String(), "-run=" + s.run}
	if s.bench != "" {
		args = append(args, "-bench="+s.bench, "-benchtime=1x")
	}
	return slices.Concat(args, strings.Fields(s.pkg), s.options)
}

// complaint prints the suite's own report, and returns an error that names the missing tests.
func (s suite) complaint(outcomes map[string]string, out io.Writer) error {
	if s.report == nil {
		return nil
	}
	text, missing := s.report(outcomes)
	fmt.Fprintf(out, "\n%s", text)
	if len(missing) > 0 {
		return fmt.Errorf("these tests did not pass: %s", strings.Join(missing, ", "))
	}
	return nil
}

// tally is the progress of a suite.
type tally struct {
	out, log io.Writer // the log has all that the tests print
	began    time.Time
	// benchmarks is set if the suite has benchmarks instead of tests: go test then reports success only for the package.
	benchmarks bool
	logs       bool                // prints what all tests log
	optional   *regexp.Regexp      // as in suite
	unshown    []string            // the optional tests that were skipped, with their output
	reported   time.Duration       // when the last line about progress was printed
	outputs    map[string][]string // of tests that run
	outcomes   map[string]string   // "pass", "fail" or "skip", by test
}

func (t *tally) add(event trials.Event) {
	switch event.Action {
	case "output":
		fmt.Fprint(t.log, event.Output)
		t.outputs[event.Test] = append(t.outputs[event.Test], event.Output)
	case "pass", "fail", "skip":
		output := strings.Join(t.outputs[event.Test], "")
		switch skipped := event.Action == "skip"; {
		case skipped && t.optional != nil && t.optional.MatchString(event.Test):
			t.unshown = append(t.unshown, event.Test+":\n"+output)
		case skipped, event.Action == "fail", t.logs && !strings.Contains(event.Test, "/"):
			fmt.Fprint(t.out, output)
		}
		delete(t.outputs, event.Test)
		if event.Test != "" {
			t.outcomes[event.Test] = event.Action
		}
	}
	if passed := time.Since(t.began); passed-t.reported >= time.Minute {
		t.reported = passed
		fmt.Fprintf(t.out, "%4s  %d tests have ended\n", passed.Truncate(time.Minute), len(t.outcomes))
	}
}

// group is a row of the table: a test, or its subtests of one kind.
type group struct{ passed, failed, skipped int }

// groups counts the outcomes of all tests that have no subtests, by the first two parts of their names.
func (t *tally) groups() map[string]group {
	groups := map[string]group{}
	for test, outcome := range t.outcomes {
		if t.hasSubtests(test) && outcome != "fail" {
			continue
		}
		parts := strings.Split(test, "/")
		name := strings.Join(parts[:min(2, len(parts))], "/")
		g := groups[name]
		switch outcome {
		case "pass":
			g.passed++
		case "fail":
			g.failed++
		case "skip":
			g.skipped++
		}
		groups[name] = g
	}
	return groups
}

func (t *tally) hasSubtests(test string) bool {
	for other := range t.outcomes {
		if strings.HasPrefix(other, test+"/") {
			return true
		}
	}
	return false
}

func (t *tally) table() string {
	groups := t.groups()
	var names []string
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	text := "| test | passed | failed | skipped |\n| --- | --- | --- | --- |\n"
	for _, name := range names {
		g := groups[name]
		text += fmt.Sprintf("| %s | %d | %d | %d |\n", name, g.passed, g.failed, g.skipped)
	}
	for _, test := range t.unshown {
		text += "\nNot shown on this machine: " + test
	}
	return text
}

// complaint returns why the suite proves nothing.
func (t *tally) complaint() error {
	all := t.all()
	switch {
	case all.failed > 0:
		return fmt.Errorf("%d tests failed", all.failed)
	case all.skipped > len(t.unshown):
		return fmt.Errorf("%d tests were skipped; a proof needs them all", all.skipped-len(t.unshown))
	case all.passed == 0 && !t.benchmarks:
		return errors.New("no test ran")
	}
	return nil
}

// all returns the sum of all groups.
func (t *tally) all() (sum group) {
	for _, g := range t.groups() {
		sum.passed, sum.failed, sum.skipped = sum.passed+g.passed, sum.failed+g.failed, sum.skipped+g.skipped
	}
	return sum
}
